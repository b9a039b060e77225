"""The six questions of `make test-cloud`, asked of the embedded clouds without hosts: each is answered, and nothing is left."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.fleet import FleetOrder
from provision.clouds.gcp import fleet as gcp_fleet
from provision.clouds.gcp import store as gcp_store
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.cloud import GcpCloud
from provision.clouds.gcp.place import GcpPlace
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.structs import replace
from tests.cloud import onmachine, questions
from tests.clouds.gcp.orders import order as plain
from tests.here import urllib_from
from tests.waiting import until

REGION, RUN = "ap-east-1", "cloudtest-1"


def answers(asked: Any) -> dict[int, str]:
    return {each.number: each.answer for each in asked}


def test_aws_answers_three_questions_and_nothing_is_left(ec2: Rehearsal, access: AwsAccess) -> None:
    control.ask(ec2, "settings", method="PUT", body={"service_roles": []})
    found = answers(questions.ask_aws(AwsRegionApi(REGION, access), "q1", RUN, stays_s=20))
    assert found[5] == "yes"
    assert found[6].startswith("yes, within")
    assert found[4] == "IrreversibleInstanceRefresh"
    assert [thing for thing in AwsCloud(REGION, access).things("q1") if thing.alive] == []
    again = answers(questions.ask_aws(AwsRegionApi(REGION, access), "q1", RUN, stays_s=20))
    assert "already" in again[5]


def test_a_group_that_aws_refuses_is_an_answer_too_and_nothing_is_left(ec2: Rehearsal, access: AwsAccess) -> None:
    rule = {"kind": "error", "action": "CreateAutoScalingGroup", "code": "AccessDenied", "http": 403, "message": "no service-linked role"}
    control.ask(ec2, "faults", method="PUT", body=[rule])
    found = list(questions.ask_aws(AwsRegionApi(REGION, access), "q2", RUN))
    assert [(each.number, each.known) for each in found] == [(5, False), (6, False), (4, False)]
    assert "no service-linked role" in found[0].answer
    control.ask(ec2, "faults", method="PUT", body=[])
    assert [thing for thing in AwsCloud(REGION, access).things("q2") if thing.alive] == []


# --- GCP, whose machine is here this process --------------------------------------------------------------------------------------------

ZONE, ACCOUNT = "asia-east1-a", "gpu-node@gpuprov-rehearsal.iam.gserviceaccount.com"


class Console:
    """The console of the machine: when it is read first, the machine's own start-up script is run from the machine's address."""

    def __init__(self, api: GcpProjectApi, folder: Path) -> None:
        self._api, self._file = api, folder / "console"
        self._file.touch()
        self._ran = False

    def __call__(self) -> str:
        if not self._ran:
            self._ran = True
            raw = until(self._running)
            (text,) = (item.value for item in raw.metadata.items if item.key == "startup-script")
            kept: dict[str, Any] = {"__name__": "startup"}
            code, _, last = text.rstrip().rpartition("\n")
            exec(compile(code, "startup", "exec"), kept)  # noqa: S102 - what the machine would run
            kept["urllib"] = urllib_from(raw.network_interfaces[0].access_configs[0].nat_i_p)
            kept["CONSOLE"] = str(self._file)
            exec(last, kept)  # noqa: S102 - as above
        return self._file.read_text()

    def _running(self) -> Any:
        raw = self._api.call("Instances", "get", "compute.instances.get", zone=ZONE, instance="gpuprov-q3")
        return raw if raw.status == "RUNNING" else None


def asked_of_gcp(rig: Rehearsal, folder: Path, **settings: Any) -> dict[int, str]:
    access = GcpAccess(**rig.settings("gcp"))
    api, order = GcpProjectApi(access), fleet_order()
    policy = gcp_fleet.plan(order, "asia-east1").member
    before = {key: control.ask(rig, "settings")[key] for key in settings}
    control.ask(rig, "settings", method="PUT", body={"gce_account_policies": {ACCOUNT: policy}, **settings})
    store = questions.store_of(api, f"gs://{order.bucket}/{order.prefix}", ACCOUNT, order.machine.name, RUN)
    console = Console(api, folder)
    found = answers(questions.ask_gcp(api, "q3", RUN, ZONE, store, kind="n1-standard-8", console=console))
    control.ask(rig, "settings", method="PUT", body=before)
    left = GcpCloud("asia-east1", access).things("q3")
    assert [thing for thing in left if thing.alive and thing.kind == "instance"] == []
    assert gcp_store.get(api, order.bucket, store["written"]) is None
    return found


def fleet_order() -> FleetOrder:
    place = GcpPlace.model_validate(
        {
            "cloud": "gcp",
            "instance_type": "n1-standard-8",
            "gpu": "t4",
            "gpu_count": 1,
            "zones": [ZONE],
            "identity": {"service_account": ACCOUNT},
        },
        strict=False,
    )
    return FleetOrder(replace(plain(), place=place), "a-bucket", "x/", "0" * 64)


def test_gcp_answers_three_questions_and_nothing_is_left(ec2: Rehearsal, tmp_path: Path) -> None:
    found = asked_of_gcp(ec2, tmp_path)
    assert found[1] == f"cloud-init is {'there' if shutil.which('cloud-init') else 'not there'}"
    assert found[2] == "HTTP 403"
    assert found[3] == "HTTP 200, then HTTP 412"
    (tmp_path / "other").mkdir()
    other = asked_of_gcp(ec2, tmp_path / "other", gce_delete_before_match=True)
    assert other[3] == "HTTP 200, then HTTP 403"


def test_without_a_bucket_one_question_is_asked_and_the_others_say_why_not(ec2: Rehearsal, tmp_path: Path) -> None:
    api = GcpProjectApi(GcpAccess(**ec2.settings("gcp")))
    store = questions.store_of(api, "", "", "f", RUN)
    found = list(questions.ask_gcp(api, "q3", RUN, ZONE, store, kind="n1-standard-8", console=Console(api, tmp_path)))
    assert [each.known for each in found] == [True, False, False]
    assert "STORE=" in found[1].answer
    assert "0.01 USD" in str(found[0])


def test_what_the_machine_prints_is_read_between_other_lines() -> None:
    console = f"boot\r\n[ 1.0] {onmachine.MARK} 2: HTTP 403\r\nmore {onmachine.MARK} x: no\n"
    assert questions.said(console) == {2: "HTTP 403"}

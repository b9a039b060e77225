"""What AWS says before a launch, and what it announces afterwards."""

from __future__ import annotations

import pytest

from provision.clouds import base
from provision.clouds.aws import examine
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.aws.image_choice import Ami
from provision.errors import CloudInvalidError, QuotaExceededError
from tests.clouds.aws.orders import order as ordered
from tests.clouds.aws.rig import REGION, AwsRig
from tests.clouds.aws.scripted import ScriptedApi, refusal


def test_events_are_announced_until_they_are_over(rig: AwsRig) -> None:
    (machine,) = rig.cloud().launch(rig.order())
    event = {
        "Code": "instance-retirement",
        "Description": "The instance is running on degraded hardware",
        "NotBefore": "2026-12-01T10:00:00+00:00",
    }
    over = {"Code": "system-reboot", "Description": "[Completed] scheduled reboot"}
    rig.set(events={machine.id: [event, over]})
    (said,) = rig.cloud().notices([machine])[machine.id]
    assert "instance-retirement, not before 2026-12-01T10:00" in said
    assert "degraded hardware" in said


def test_the_quota_that_is_short_is_named_with_its_use(rig: AwsRig) -> None:
    (machine,) = rig.cloud().launch(rig.order())
    running = rig.cloud().wait_running(machine, timeout_s=240)
    others = [i for i in rig.cloud().find() if i.state in {"pending", "running"} and i.market == "on-demand"]
    used = 4 * len(others)
    rig.set(vcpu_limit={REGION: used})
    order = rig.order()
    with pytest.raises(QuotaExceededError) as caught:
        rig.cloud().launch(order)
    assert "L-DB2E81BA" in caught.value.hint
    answers = {a.about: a for a in rig.cloud().examine(order)}
    assert answers["quota"] == base.Answer("quota", holds=False, said=f"4 vCPUs needed, {used} of {used} used (L-DB2E81BA)")
    spot = {a.about: a for a in rig.cloud().examine(rig.order(market="spot"))}
    assert "L-3819A6DF" in spot["quota"].said
    assert spot["quota"].holds
    assert running.id in {i.id for i in others}


def test_a_quota_that_the_account_has_no_value_of_is_asked_for_as_awss_default(rig: AwsRig) -> None:
    rig.set(unset_quotas=["L-DB2E81BA"], vcpu_limit={REGION: 100_000})
    answer = {a.about: a for a in rig.cloud().examine(rig.order())}["quota"]
    assert answer.holds
    assert answer.said.endswith("of 100000 used (L-DB2E81BA, AWS's default)")


def test_all_is_well_when_it_is(rig: AwsRig) -> None:
    answers = rig.cloud().examine(rig.order())
    assert [(a.about, a.holds) for a in answers] == [
        (n, True) for n in ("region", "offered", "quota", "image", "network", "public-access", "dry-run")
    ]


def test_a_region_that_is_not_enabled_is_the_only_answer(rig: AwsRig) -> None:
    rig.set(not_opted_in=["ap-east-1"])
    hong_kong = AwsCloud("ap-east-1", rig.access)
    answers = hong_kong.examine(rig.order())
    assert [(a.about, a.holds) for a in answers] == [
        ("region", False),
        *((n, None) for n in ("offered", "quota", "image", "network", "public-access", "dry-run")),
    ]
    assert {a.said for a in answers} == {"ap-east-1 is not-opted-in"}


def test_what_is_not_offered_or_has_no_image_is_said(rig: AwsRig) -> None:
    answers = {a.about: a for a in rig.cloud().examine(rig.order(instance_type="p3.2xlarge", image_id="ami-0123456789abcdef0"))}
    assert answers["offered"].holds is False
    assert answers["image"].holds is False
    with pytest.raises(CloudInvalidError):
        rig.cloud().launch(rig.order(instance_type="p3.2xlarge"))


@pytest.mark.parametrize(("limit", "count", "fits"), [(12, 1, True), (11, 1, False), (16, 2, True), (15, 2, False), (0, 1, False)])
def test_what_fills_a_quota_fits_and_one_more_does_not(limit: int, count: int, fits: bool) -> None:  # noqa: FBT001 - a table
    """Two machines of 4 vCPUs run; neither spot nor another family counts against this quota."""
    running = [
        {"InstanceType": "g4dn.xlarge"},
        {"InstanceType": "g4dn.xlarge"},
        {"InstanceType": "g4dn.xlarge", "InstanceLifecycle": "spot"},
        {"InstanceType": "p3.2xlarge"},
    ]
    api = ScriptedApi(
        describe_instances=[{"Reservations": [{"Instances": running}]}], get_service_quota=[{"Quota": {"Value": float(limit)}}]
    )
    answer = examine._quota(api, ordered(count=count))
    assert answer == base.Answer("quota", fits, f"{4 * count} vCPUs needed, 8 of {limit} used (L-DB2E81BA)")
    counted = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    assert ("describe_instances", {"Filters": counted}) in api.sent


def test_a_name_that_is_taken_is_no_failure_of_the_dry_run() -> None:
    """It may be that of the launch itself; `up` says whose it is."""
    api = ScriptedApi(create_security_group=[refusal("InvalidGroup.Duplicate")], run_instances=[refusal("DryRunOperation")])
    answer = examine._dry_run(api, ordered(), lambda _: Ami("ami-1", "/dev/sda1"))
    assert (answer.about, answer.holds) == ("dry-run", True)
    api = ScriptedApi(create_security_group=[refusal("UnauthorizedOperation")])
    assert examine._dry_run(api, ordered(), lambda _: Ami("ami-1", "/dev/sda1")).holds is False


@pytest.mark.parametrize("code", ["VPCIdNotSpecified", "PendingVerification", "OptInRequired", "UnauthorizedOperation"])
def test_a_dry_run_knows_before_what_the_region_or_the_account_lacks(code: str) -> None:
    api = ScriptedApi(create_security_group=[refusal(code)])
    answer = examine._dry_run(api, ordered(), lambda _: Ami("ami-1", "/dev/sda1"))
    assert (answer.holds, answer.said.endswith(": no")) == (False, True)

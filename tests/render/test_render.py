"""All forms: the registry, equal bytes for equal subjects, what must be said first, and text of a profile that stays out."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision import clouds
from provision.clouds.forms import Given, Marked, Subject
from provision.errors import CloudUnsupportedError, GpuprovError, PriceOverLimitError, UsageError
from provision.launch.plan import plan
from provision.profile.load import load
from provision.profile.locked import Lock
from provision.render import FORMS, render
from provision.render.base import choose

from .cases import CALLER, DEADLINE, EVIL, GIVEN, KEY, PROFILE, SUBJECTS, profile
from .cases import subject as make

ROOT = Path(__file__).parents[2]
ALL = [(form, case) for form, what in FORMS.items() for case in SUBJECTS if what.cloud in {None, case.partition("-")[0]}]
DIGESTS = """
import datetime, hashlib, sys
sys.path.insert(0, {root!r})
from provision.clouds.forms import Given
from tests.render.cases import CALLER, KEY, SUBJECTS
from provision.render import render
GIVEN = Given(KEY, datetime.datetime.fromisoformat({deadline!r}), CALLER)
for form, case in {all!r}:
    for path, content in render(form, SUBJECTS[case](GIVEN)).items():
        print(form, case, path, hashlib.sha256(content).hexdigest())
"""


def test_the_registry_is_the_folder_and_each_clouds_own() -> None:
    shared = {path.stem.replace("_", "-") for path in (ROOT / "provision/render").glob("*.py")} - {"--init--", "base"}
    own = {name for each in clouds.providers() for name in each.forms}
    assert set(FORMS) == shared | own
    for each in clouds.providers():
        modules = {path.stem for path in (ROOT / "provision/clouds" / each.name / "forms").glob("*.py")} - {"__init__", "runbook"}
        assert {form.module.rpartition(".")[2] for form in each.forms.values()} == modules


def digests(form: str, case: str) -> list[str]:
    made = render(form, SUBJECTS[case](GIVEN))
    return [f"{form} {case} {path} {hashlib.sha256(content).hexdigest()}" for path, content in made.items()]


def test_equal_subjects_give_equal_bytes_in_another_process_and_another_order_of_hashes(tmp_path: Path) -> None:
    here = [line for form, case in ALL for line in digests(form, case)]
    for seed in ("0", "4711"):
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TZ": "Asia/Hong_Kong",
            "LANG": "C",
            "PYTHONPATH": str(ROOT),
            "GPUPROV_CACHE": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS.format(root=str(ROOT), all=ALL, deadline=DEADLINE.isoformat())],
            check=True,
            capture_output=True,
            text=True,
            env=env,
            cwd=tmp_path,
        )
        assert done.stdout.splitlines() == here
    assert len(here) > 500


@pytest.mark.parametrize(("form", "case"), ALL)
def test_the_hour_decides_nothing(form: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = render(form, SUBJECTS[case](GIVEN))
    real = Marked.__init__

    def later(self: Marked, subject: Subject, now: dt.datetime | None = None) -> None:
        real(self, subject, dt.datetime.now(dt.UTC) + dt.timedelta(days=3, hours=5, seconds=7) if now is None else now)

    monkeypatch.setattr(Marked, "__init__", later)
    assert render(form, SUBJECTS[case](GIVEN)) == before


@pytest.mark.parametrize(("form", "case"), ALL)
def test_free_text_of_a_profile_is_in_no_form(form: str, case: str) -> None:
    for path, content in render(form, SUBJECTS[case](GIVEN)).items():
        for word in ("pwned", "alert(1)", "etc/passwd", "AWS::StackName}"):
            assert word.encode() not in content, path
    assert "pwned" in EVIL


@pytest.mark.parametrize(("form", "case"), [(form, case) for form, case in ALL if form not in {"cloud-init", "runbook", "ansible"}])
def test_no_mark_is_left_in_what_is_open(form: str, case: str) -> None:
    subject = SUBJECTS[case]()
    marked = Marked(subject)
    for content in render(form, subject).values():
        text = content.decode()
        assert not [mark for mark in ("launch", "key", "caller") if subject.mark(mark)[:32] in text]
        assert marked.order.deadline.strftime("%Y-%m-%d %H:%M") not in text
        assert marked.launch_id[:8] not in text


@pytest.mark.parametrize("form", ["cloud-init", "runbook"])
def test_what_is_missing_is_said_at_once(form: str) -> None:
    with pytest.raises(UsageError) as refused:
        render(form, make("aws"))
    assert "--deadline" in refused.value.hint
    assert "--public-key" in refused.value.hint
    assert ("--ssh-from" in refused.value.hint) == (form == "runbook")
    render("runbook", make("aws", asked=profile(network={"ssh_from": ["10.0.0.0/8"]}), given=Given(KEY, DEADLINE)))


@pytest.mark.parametrize(
    ("form", "cloud"), [("cloudformation", "gcp"), ("terraform-aws", "gcp"), ("terraform-gcp", "aws"), ("pulumi", "aws")]
)
def test_a_form_of_the_other_cloud_or_of_none_is_refused(form: str, cloud: str) -> None:
    with pytest.raises(GpuprovError):
        render(form, make(cloud, given=GIVEN))


def test_the_place_is_the_first_that_can_be_had() -> None:
    planned = make("aws").plan
    assert choose(planned).region == "ap-east-1"
    assert choose(planned, where="ap-southeast-1").region == "ap-southeast-1"
    zone = choose(planned, where="asia-east2-c")
    assert (zone.cloud, zone.zone) == ("gcp", "asia-east2-c")
    with pytest.raises(UsageError, match="no place in"):
        choose(planned, where="us-east-1")
    lock = planned.lock
    places = [place.model_copy(update={"not_available": "closed"}) if place.region == "ap-east-1" else place for place in lock.places]
    closed = plan(planned.profile, Lock.model_validate({**lock.as_dict(), "places": [place.model_dump() for place in places]}))
    assert choose(closed).region == "ap-southeast-1"
    with pytest.raises(CloudUnsupportedError, match="closed"):
        choose(closed, where="ap-east-1")
    limits = planned.profile.limits.model_copy(update={"price_per_hour_usd": 0.5})
    dear = plan(planned.profile.model_copy(update={"limits": limits}), lock)
    with pytest.raises(PriceOverLimitError, match=r"is over limits\.price_per_hour_usd 0\.50"):
        choose(dear, cloud="aws")
    assert choose(dear, cloud="aws", launches=False).region == "ap-east-1"
    with pytest.raises(CloudUnsupportedError, match="closed"):
        choose(closed, where="ap-east-1", launches=False)


def test_the_profile_of_the_tests_is_the_one_that_ships() -> None:
    assert profile().name == PROFILE.stem
    assert CALLER in GIVEN.caller


@pytest.mark.parametrize(
    ("form", "case", "says", "never"),
    [
        ("runbook", "gcp-private", ["subnet=inside,no-address", "--reservation ours"], ["natIP"]),
        ("runbook", "aws-private", ['"AssociatePublicIpAddress":false', "cr-0123456789abcdef0"], ["Instances[0].PublicIpAddress"]),
        ("terraform-gcp", "gcp-private", ["subnetworks/inside", '"ours"', "network_ip"], ["access_config"]),
        (
            "terraform-aws",
            "aws-private",
            ['"associate_public_ip_address": false', "subnet-0123456789abcdef0", "private_ip"],
            ["public_ip}"],
        ),
        ("cloudformation", "aws-private", ['"AssociatePublicIpAddress": false', '"VpcId"', '"Groups"'], ['"SecurityGroupIds"']),
    ],
)
def test_a_private_machine_is_private_in_every_form(form: str, case: str, says: list[str], never: list[str]) -> None:
    text = "".join(content.decode() for content in render(form, SUBJECTS[case](GIVEN)).values())
    assert [words for words in says if words not in text] == []
    assert [words for words in never if words in text] == []


def test_a_machine_with_fabric_adapters_is_written_where_the_form_has_a_word_for_them_and_refused_elsewhere() -> None:
    data = load(PROFILE).dump()
    place = {"cloud": "aws", "instance_type": "g4dn.8xlarge", "regions": ["us-east-1"], "capacity": {"efa": True}}
    asked = profile(places=[place], limits={**data["limits"], "price_per_hour_usd": 9.0})
    fabric = make("aws", asked=asked, given=GIVEN)
    made = json.loads(render("cloudformation", fabric)["template.json"])["Resources"]
    (card,) = made["LaunchTemplate"]["Properties"]["LaunchTemplateData"]["NetworkInterfaces"]
    assert card["InterfaceType"] == "efa"
    assert {"MembersIn", "MembersOut"} <= made.keys()
    text = render("runbook", fabric)["runbook.md"].decode()
    assert "authorize-security-group-egress" in text
    assert '"UserIdGroupPairs":[{"GroupId":"\'"${GROUP}"\'"}]' in text
    with pytest.raises(UsageError, match="no word for Elastic Fabric Adapters"):
        render("terraform-aws", fabric)

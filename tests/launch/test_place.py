"""Where a launch goes when places say no: zone after zone, region after region, each answer by its class, and nothing left behind."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from provision import clouds
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CloudUnsupportedError,
    CredentialsExpiredError,
    NameTakenError,
    QuotaExceededError,
    UsageError,
)
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Journal
from provision.launch.launcher import Launcher
from provision.launch.lifecycle import destroy
from provision.launch.ours import Ours
from provision.launch.patience import Patience
from provision.launch.plan import plan
from provision.launch.regions import regions_of
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.waiting import until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
REGIONS = ("ap-southeast-1", "ap-northeast-1", "us-east-1")
ZONES = {region: [f"{region}{x}" for x in letters] for region, letters in zip(REGIONS, ("abc", "acd", "abcdf"), strict=True)}
BASE = load.load(load.find("t4-train"))
PLACE = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": list(REGIONS)}
PROFILE = Profile.model_validate({**BASE.dump(), "places": [PLACE]})
QUICK = Patience(throttled_s=0.5, unanswered=2, pause_s=0.02, round_s=0.1, shown_s=0.3)


@pytest.fixture
def launcher(access: AwsAccess, tmp_path: Path) -> Launcher:
    return at_home(access, tmp_path / "journal")


def at_home(access: AwsAccess, folder: Path, said: list[str] | None = None) -> Launcher:
    on_step = (lambda _: None) if said is None else said.append
    return Launcher(lambda c, r: clouds.connect(c, r, access), Journal(folder), rehearsal=True, on_step=on_step, patience=QUICK)


def ensure(launcher: Launcher, name: str, profile: Profile = PROFILE, **wanted: Any) -> list[Any]:
    launcher.attempts.clear()
    return launcher.ensure(LaunchRequest(plan(profile, build(profile, dt.date(2026, 11, 21)), name), KEY, **wanted))


def tried(launcher: Launcher) -> list[tuple[str, str]]:
    return [(a.zone or a.region, a.outcome) for a in launcher.attempts]


def capacity(ec2: Rehearsal, left: dict[str, int]) -> None:
    """These zones have so many machines, all others of the regions none."""
    none = {zone: 0 for zones in ZONES.values() for zone in zones}
    control.ask(ec2, "settings", method="PUT", body={"zone_capacity": {**none, **left}})


def left(access: AwsAccess, name: str, kinds: str = "all") -> list[str]:
    found = []
    for region in REGIONS:
        ec2 = client("ec2", region, access)
        tag = [{"Name": "tag:gpuprov:name", "Values": [name]}]
        alive = [*tag, {"Name": "instance-state-name", "Values": ["pending", "running", "stopped", "stopping"]}]
        found += [i["InstanceId"] for r in ec2.describe_instances(Filters=alive)["Reservations"] for i in r["Instances"]]
        if kinds == "all":
            found += [g["GroupId"] for g in ec2.describe_security_groups(Filters=tag)["SecurityGroups"]]
            found += [v["VolumeId"] for v in ec2.describe_volumes(Filters=tag)["Volumes"]]
    return found


def kinds(ids: list[str]) -> list[str]:
    return sorted(each.partition("-")[0] for each in ids)


def test_a_stock_out_in_every_zone_but_the_last(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    last = ZONES[REGIONS[-1]][-1]
    capacity(ec2, {last: 1})
    (instance,) = ensure(launcher, "last")
    assert instance.zone == last
    assert tried(launcher)[-1] == (last, "launched")
    refused = [zone for zone, outcome in tried(launcher) if outcome == "no-capacity"]
    assert len(refused) == len(set(refused))  # each once
    assert {zone for region in REGIONS[:2] for zone in ZONES[region]} <= set(refused)
    assert kinds(left(access, "last")) == ["i", "sg", "sg", "vol"]  # in the last region, and the group that keeps the name in the first


def test_a_stock_out_everywhere_is_said_of_every_zone_and_leaves_nothing(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    capacity(ec2, {})
    with pytest.raises(CapacityError) as caught:
        ensure(launcher, "nowhere")
    for zones in ZONES.values():
        assert all(zone in caught.value.message for zone in zones)
    assert left(access, "nowhere") == []
    assert launcher.journal.get("nowhere") is None
    rows = launcher.journal.log_of("nowhere").read_text().splitlines()
    assert len(rows) == len(launcher.attempts)


def test_no_quota_goes_to_the_next_region_at_once(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    control.ask(ec2, "settings", method="PUT", body={"vcpu_limit": dict.fromkeys(REGIONS[:2], 0)})
    (instance,) = ensure(launcher, "quota")
    assert tried(launcher) == [(REGIONS[0], "quota-exceeded"), (REGIONS[1], "quota-exceeded"), (instance.zone, "launched")]
    assert kinds(left(access, "quota")) == ["i", "sg", "sg", "vol"]
    control.ask(ec2, "settings", method="PUT", body={"vcpu_limit": dict.fromkeys(REGIONS, 0)})
    with pytest.raises(QuotaExceededError):
        ensure(launcher, "no-quota", wait_s=60)  # waiting cannot help, so that it does not wait
    assert left(access, "no-quota") == []


def test_a_type_that_no_place_has_asks_nobody(launcher: Launcher, ec2: Rehearsal) -> None:
    withdrawn = {"cloud": "aws", "instance_type": "p3.2xlarge", "regions": ["us-east-1"]}
    lock = build(PROFILE, dt.date(2026, 11, 21))
    against = lock.places[0].model_copy(
        update={"region": "us-east-1", "instance_type": "p3.2xlarge", "not_available": "withdrawn: see p3dn"}
    )
    profile = Profile.model_validate({**BASE.dump(), "places": [withdrawn]})
    with pytest.raises(CloudUnsupportedError, match="see p3dn"):
        launcher.ensure(LaunchRequest(plan(profile, lock.model_copy(update={"places": (against,)}), "gone"), KEY))
    assert control.ask(ec2, "calls") == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"code": "InvalidParameterValue", "message": "Invalid value 'g4dn.xlarge' for InstanceType."}, CloudInvalidError),
        ({"code": "RequestExpired"}, CredentialsExpiredError),
    ],
)
def test_what_no_other_place_can_mend_stops_in_the_middle(
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess, fault: dict[str, Any], kind: type[CloudError]
) -> None:
    capacity(ec2, {ZONES[REGIONS[2]][0]: 1})
    control.ask(ec2, "faults", method="PUT", body=[{"kind": "error", "action": "RunInstances", "region": REGIONS[1], **fault}])
    with pytest.raises(kind):
        ensure(launcher, "middle")
    assert tried(launcher)[-1] == (REGIONS[1], kind.code)
    assert REGIONS[2] not in {a.region for a in launcher.attempts}
    assert left(access, "middle") == []


def test_credentials_that_expire_for_everything_leave_a_journal_that_goes_on(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    capacity(ec2, {ZONES[REGIONS[2]][0]: 1})
    expired = {"kind": "error", "code": "RequestExpired"}
    rules = [{**expired, "action": "RunInstances", "region": REGIONS[1]}, {**expired, "action": "DescribeTags"}]  # the look still passes
    control.ask(ec2, "faults", method="PUT", body=rules)
    with pytest.raises(CredentialsExpiredError) as caught:
        ensure(launcher, "expired")
    assert "gpuprov down expired" in caught.value.hint
    assert launcher.journal.get("expired") is not None
    control.ask(ec2, "faults", method="PUT", body=[])
    (instance,) = ensure(launcher, "expired")
    assert instance.region == REGIONS[2]
    assert kinds(left(access, "expired")) == ["i", "sg", "sg", "vol"]


def test_a_region_that_is_not_enabled_is_named(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    control.ask(ec2, "settings", method="PUT", body={"not_opted_in": [REGIONS[0]]})
    with pytest.raises(CloudError) as caught:
        ensure(launcher, "closed")
    assert REGIONS[0] in caught.value.message
    control.ask(ec2, "settings", method="PUT", body={"not_opted_in": []})
    assert left(access, "closed") == []


def test_several_come_from_one_zone_or_not_at_all(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    first, second = ZONES[REGIONS[0]][:2]
    capacity(ec2, {first: 2, second: 3})
    made = ensure(launcher, "three", count=3, minimum=3)
    assert [i.name for i in made] == ["three-1", "three-2", "three-3"]
    assert {i.zone for i in made} == {second}
    assert [i.id for i in ensure(launcher, "three", count=3, minimum=3)] == [i.id for i in made]
    capacity(ec2, {first: 2, second: 2})
    with pytest.raises(CapacityError):
        ensure(launcher, "four", count=4, minimum=4)
    assert left(access, "four") == []


def test_best_effort_collects_from_several_zones_and_is_nothing_below_its_minimum(
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess
) -> None:
    capacity(ec2, {ZONES[REGIONS[0]][0]: 1, ZONES[REGIONS[0]][1]: 1, ZONES[REGIONS[1]][0]: 1})
    made = ensure(launcher, "some", count=4, minimum=2)
    assert [i.name for i in made] == ["some-1", "some-2", "some-3"]
    assert len({i.zone for i in made}) == 3
    assert len({i.id for i in made}) == 3
    assert len(left(access, "some", "machines")) == 3
    capacity(ec2, {ZONES[REGIONS[0]][0]: 1})
    with pytest.raises(CapacityError, match="only 1 of at least 2"):
        ensure(launcher, "few", count=4, minimum=2)
    assert left(access, "few") == []


def test_waiting_for_capacity_tries_again_and_ends_in_time(access: AwsAccess, ec2: Rehearsal, tmp_path: Path) -> None:
    said: list[str] = []
    launcher = at_home(access, tmp_path / "journal", said)
    none = {"kind": "error", "action": "RunInstances", "code": "InsufficientInstanceCapacity", "http": 500, "count": 20}
    control.ask(ec2, "faults", method="PUT", body=[none])
    (instance,) = ensure(launcher, "patient", wait_s=30)
    assert instance.state in {"pending", "running"}
    assert any("round 2" in step for step in said)
    assert left(access, "patient", "machines") == [instance.id]
    capacity(ec2, {})
    with pytest.raises(CapacityError):
        ensure(launcher, "vain", wait_s=1.5)
    assert left(access, "vain") == []


def test_a_launch_that_went_on_to_another_region_keeps_its_name_in_the_first(access: AwsAccess, ec2: Rehearsal, tmp_path: Path) -> None:
    """Otherwise a second person would launch in the first region while the launch of the first person is made in the other."""
    first, second = at_home(access, tmp_path / "one"), at_home(access, tmp_path / "two")
    stock_out = {"kind": "error", "action": "RunInstances", "code": "InsufficientInstanceCapacity", "http": 500, "region": REGIONS[0]}
    late = {"kind": "delay", "action": "RunInstances", "delay_s": 2.0, "region": REGIONS[1]}
    control.ask(ec2, "faults", method="PUT", body=[stock_out, late])
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(ensure, first, "both")
        until(lambda: any(c["action"] == "RunInstances" and c["region"] == REGIONS[1] for c in control.ask(ec2, "calls")), every_s=0.01)
        control.ask(ec2, "faults", method="PUT", body=[])  # now the first region has machines
        with pytest.raises(NameTakenError, match=PROFILE.owner.email) as caught:
            ensure(second, "both")
        (winner,) = running.result()
    assert "gpuprov down both" in caught.value.hint
    assert second.attempts[-1].outcome == "name-taken"
    assert second.journal.get("both") is None
    assert left(access, "both", "machines") == [winner.id]
    with pytest.raises(NameTakenError, match=winner.id):
        ensure(second, "both")
    assert [i.id for i in ensure(first, "both")] == [winner.id]


def test_a_name_without_machines_whose_owner_is_gone_is_freed_by_down(access: AwsAccess, ec2: Rehearsal, tmp_path: Path) -> None:
    gone, other = at_home(access, tmp_path / "one"), at_home(access, tmp_path / "two")
    control.ask(ec2, "faults", method="PUT", body=[{"kind": "drop", "action": "RunInstances"}])
    with pytest.raises(CloudUnreachableError):
        ensure(gone, "dead")
    control.ask(ec2, "faults", method="PUT", body=[])
    with pytest.raises(NameTakenError, match=PROFILE.owner.email) as caught:
        ensure(other, "dead")
    assert "`gpuprov down dead` frees the name" in caught.value.hint
    assert kinds(left(access, "dead")) == ["sg"]  # the second person's `up` has removed nothing
    ours = Ours(other.connect, other.on_step, QUICK)
    destroy(ours, other.journal, "dead", regions_of([PROFILE], []))
    (machine,) = ensure(other, "dead")
    assert left(access, "dead", "machines") == [machine.id]
    with pytest.raises(NameTakenError, match=machine.id):  # the first one is back, with the journal of its attempt
        ensure(gone, "dead")
    assert left(access, "dead", "machines") == [machine.id]
    assert gone.journal.get("dead") is None


def test_a_machine_in_use_outlives_a_failed_refill(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    made = ensure(launcher, "refill", count=2, minimum=2)
    client("ec2", made[1].region, access).terminate_instances(InstanceIds=[made[1].id])
    until(lambda: left(access, "refill", "machines") == [made[0].id])
    capacity(ec2, {})
    with pytest.raises(CapacityError):
        ensure(launcher, "refill", count=2, minimum=2)
    assert left(access, "refill", "machines") == [made[0].id]
    control.ask(ec2, "settings", method="PUT", body={"zone_capacity": {}})
    again = ensure(launcher, "refill", count=2, minimum=2)
    assert made[0].id in {i.id for i in again}
    assert len(left(access, "refill", "machines")) == 2


def test_only_the_places_of_one_cloud(launcher: Launcher) -> None:
    with pytest.raises(UsageError, match="no place on gcp"):
        ensure(launcher, "elsewhere", only="gcp")

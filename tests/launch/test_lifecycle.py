"""Launching through the real SDK against the EC2 API of the embedded cloud: once, in order, classified, and nothing left behind."""

import datetime as dt
import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision import clouds
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.base import Instance
from provision.clouds.refusals import AccountRefusedError
from provision.errors import (
    CapacityError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    GpuprovError,
    ImageNotFoundError,
    InstanceNotFoundError,
    NameTakenError,
    PermissionRefusedError,
    PriceOverLimitError,
    ProfileMismatchError,
    ThrottledError,
)
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Journal
from provision.launch.launcher import Launcher
from provision.launch.lifecycle import destroy, survey
from provision.launch.ours import Ours
from provision.launch.patience import Patience
from provision.launch.place import Attempt
from provision.launch.plan import plan
from provision.launch.regions import regions_of
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.waiting import until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
T4 = load.load(load.find("t4-train"))
PROFILE = Profile.model_validate({**T4.dump(), "places": [T4.dump()["places"][0]]})  # AWS alone
WHERE = regions_of([PROFILE], [])
HK, SG = "ap-east-1", "ap-southeast-1"
QUICK = Patience(throttled_s=0.5, unanswered=3, pause_s=0.05, round_s=0.1, shown_s=0.3)


@pytest.fixture
def launcher(access: AwsAccess, tmp_path: Path) -> Launcher:
    return launcher_of(access, tmp_path / "journal")


def launcher_of(access: AwsAccess, journal: Path) -> Launcher:
    connect = lambda c, r: clouds.connect(c, r, access)  # noqa: E731
    return Launcher(connect, Journal(journal), rehearsal=True, on_step=lambda _: None, patience=QUICK)


def ensure(launcher: Launcher, name: str, profile: Profile = PROFILE) -> tuple[Instance, list[Attempt]]:
    launcher.attempts.clear()
    lock = build(profile, dt.date(2026, 11, 21))
    (instance,) = launcher.ensure(LaunchRequest(plan(profile, lock, name), KEY))
    return instance, list(launcher.attempts)


def down(launcher: Launcher, name: str) -> list[str]:
    return destroy(Ours(launcher.connect, launcher.on_step, QUICK), launcher.journal, name, WHERE)


def fault(ec2: Rehearsal, **rule: Any) -> None:
    control.ask(ec2, "faults", method="PUT", body=[rule])


def actions(ec2: Rehearsal) -> list[str]:
    return [call["action"] for call in control.ask(ec2, "calls")]


def everything(access: AwsAccess, name: str) -> list[str]:
    """What AWS's own client finds tagged with a name, in every region of the profile; terminated instances are nothing."""
    found = []
    for _, region in WHERE:
        ec2 = client("ec2", region, access)
        tag = [{"Name": "tag:gpuprov:name", "Values": [name]}]
        found += [
            i["InstanceId"]
            for r in ec2.describe_instances(Filters=tag)["Reservations"]
            for i in r["Instances"]
            if i["State"]["Name"] not in {"terminated", "shutting-down"}
        ]
        found += [g["GroupId"] for g in ec2.describe_security_groups(Filters=tag)["SecurityGroups"]]
        found += [k["KeyName"] for k in ec2.describe_key_pairs(Filters=tag)["KeyPairs"]]
    return found


def test_a_look_everywhere_and_three_calls_stand_before_the_launch_and_it_asks_for_what_is_secure(
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess
) -> None:
    instance, attempts = ensure(launcher, "secure")
    before = actions(ec2)[: actions(ec2).index("RunInstances")]
    assert sorted(before) == [
        "AuthorizeSecurityGroupIngress",
        "CreateSecurityGroup",
        "DescribeInstances",
        "DescribeInstances",
        "GetParameter",
    ]
    assert [a.outcome for a in attempts] == ["launched"]
    aws = client("ec2", HK, access)
    raw = aws.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    assert raw["MetadataOptions"]["HttpTokens"] == "required"
    assert "IamInstanceProfile" not in raw
    tags = {t["Key"]: t["Value"] for t in raw["Tags"]}
    assert tags["gpuprov:name"] == "secure"
    assert tags["gpuprov:owner"] == PROFILE.owner.email
    assert dt.datetime.fromisoformat(tags["gpuprov:deadline"]) > dt.datetime.now(dt.UTC) + dt.timedelta(hours=11)
    volume = aws.describe_volumes(VolumeIds=[raw["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"][0]
    assert (volume["Encrypted"], volume["VolumeType"], volume["Size"]) == (True, "gp3", 200)
    rules = aws.describe_security_groups(GroupIds=[raw["SecurityGroups"][0]["GroupId"]])["SecurityGroups"][0]["IpPermissions"]
    assert [(r["FromPort"], r["ToPort"], [x["CidrIp"] for x in r["IpRanges"]]) for r in rules] == [(22, 22, ["127.0.0.1/32"])]
    assert aws.describe_instance_attribute(InstanceId=instance.id, Attribute="instanceInitiatedShutdownBehavior")[
        "InstanceInitiatedShutdownBehavior"
    ] == {"Value": "terminate"}


def test_asking_again_adopts_and_launches_nothing(launcher: Launcher, ec2: Rehearsal) -> None:
    first, _ = ensure(launcher, "again")
    second, attempts = ensure(launcher, "again")
    assert (second.id, [a.outcome for a in attempts]) == (first.id, ["adopted"])
    launcher.journal.drop("again")  # another machine of the same user has no journal: the tags say the same
    third, attempts = ensure(launcher, "again")
    assert (third.id, [a.outcome for a in attempts]) == (first.id, ["adopted"])
    assert actions(ec2).count("RunInstances") == 1


def test_another_profile_under_the_name_is_refused(launcher: Launcher) -> None:
    ensure(launcher, "other")
    changed = Profile.model_validate({**PROFILE.dump(), "purpose": "something else"})
    with pytest.raises(ProfileMismatchError, match="launched from another"):
        ensure(launcher, "other", changed)


def test_a_rehearsal_and_a_real_machine_never_share_a_name(launcher: Launcher) -> None:
    ensure(launcher, "mine")
    real = Launcher(launcher.connect, launcher.journal, rehearsal=False, on_step=launcher.on_step)
    with pytest.raises(NameTakenError):
        ensure(real, "mine")


def test_a_name_whose_instance_ended_gets_a_new_one(launcher: Launcher, access: AwsAccess) -> None:
    first, _ = ensure(launcher, "ended")
    client("ec2", HK, access).terminate_instances(InstanceIds=[first.id])
    until(lambda: not [thing for thing in everything(access, "ended") if thing.startswith("i-")])
    second, _ = ensure(launcher, "ended")
    assert second.id != first.id


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "Unsupported", "VcpuLimitExceeded"])
def test_no_capacity_and_no_quota_go_on_to_the_next_region_and_leave_nothing(
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess, code: str
) -> None:
    fault(ec2, kind="error", action="RunInstances", region=HK, code=code, http=500 if code.startswith("Insufficient") else 400)
    name = f"next-{code.lower()[:5]}"
    instance, attempts = ensure(launcher, name)
    assert instance.region == SG
    tried = [(a.region, a.zone, a.outcome) for a in attempts]
    if code.startswith("Vcpu"):  # another zone cannot help
        assert tried == [(HK, "", "quota-exceeded"), (SG, attempts[-1].zone, "launched")]
    else:
        zones = ["", *(f"{HK}{letter}" for letter in "abc")]
        assert tried == [*((HK, zone, "no-capacity") for zone in zones), (SG, attempts[-1].zone, "launched")]
    assert actions(ec2).count("RunInstances") == len(attempts)  # the SDK did not retry a refusal by itself
    # The instance and its group in Singapore, and the group that keeps the name, where the first attempt was made.
    assert [what[:2] for what in everything(access, name)].count("i-") == 1
    assert [what[:3] for what in everything(access, name)].count("sg-") == 2
    down(launcher, name)
    assert everything(access, name) == []


def test_no_place_at_all_names_every_attempt_and_leaves_nothing(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    fault(ec2, kind="error", action="RunInstances", code="InsufficientInstanceCapacity", http=500)
    with pytest.raises(CapacityError) as caught:
        ensure(launcher, "nowhere")
    assert HK in caught.value.message
    assert SG in caught.value.message
    assert everything(access, "nowhere") == []
    assert launcher.journal.get("nowhere") is None


@pytest.mark.parametrize(
    ("action", "code", "kind", "said"),
    [
        ("RunInstances", "UnauthorizedOperation", PermissionRefusedError, "ec2:RunInstances"),
        ("CreateSecurityGroup", "UnauthorizedOperation", PermissionRefusedError, "ec2:CreateSecurityGroup"),
        ("GetParameter", "AccessDeniedException", PermissionRefusedError, "ssm:GetParameter"),
        ("GetParameter", "ParameterNotFound", ImageNotFoundError, ""),
        ("RunInstances", "InvalidAMIID.NotFound", ImageNotFoundError, ""),
        ("DescribeInstances", "RequestExpired", CredentialsExpiredError, ""),
        ("DescribeInstances", "OptInRequired", AccountRefusedError, HK),
        ("RunInstances", "InvalidParameterValue", CloudInvalidError, ""),
        ("RunInstances", "RequestLimitExceeded", ThrottledError, ""),
    ],
)
def test_everything_else_stops_at_once_with_its_class_and_a_hint(  # noqa: PLR0917 - pytest passes by name
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess, action: str, code: str, kind: type[GpuprovError], said: str
) -> None:
    fault(ec2, kind="error", action=action, code=code)
    with pytest.raises(kind) as caught:
        ensure(launcher, "stops")
    assert said in caught.value.message
    assert caught.value.hint
    assert code in caught.value.detail
    control.ask(ec2, "faults", method="PUT", body=[])
    assert everything(access, "stops") == []
    assert "RunInstances" not in actions(ec2)[:-1] or action == "RunInstances"


def test_a_lost_reply_is_followed_by_the_same_machine(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    fault(ec2, kind="lost", action="RunInstances", count=1)
    instance, attempts = ensure(launcher, "lost")
    assert [a.outcome for a in attempts] == ["cloud-unreachable", "launched"]
    assert [x for x in everything(access, "lost") if x.startswith("i-")] == [instance.id]


def test_replies_that_stay_lost_leave_a_launch_that_goes_on(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    fault(ec2, kind="lost", action="RunInstances")
    with pytest.raises(CloudUnreachableError, match="RunInstances"):
        ensure(launcher, "gone-on")
    assert len([x for x in everything(access, "gone-on") if x.startswith("i-")]) == 1
    record = launcher.journal.get("gone-on")
    assert record is not None
    assert record.pending is not None
    control.ask(ec2, "faults", method="PUT", body=[])
    instance, _ = ensure(launcher, "gone-on")
    assert [x for x in everything(access, "gone-on") if x.startswith("i-")] == [instance.id]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["drop", "html"])
def test_a_broken_answer_leaves_a_launch_that_can_be_removed(launcher: Launcher, ec2: Rehearsal, access: AwsAccess, kind: str) -> None:
    fault(ec2, kind=kind, action="RunInstances")
    with pytest.raises(CloudUnreachableError):
        ensure(launcher, f"broken-{kind}")
    record = launcher.journal.get(f"broken-{kind}")
    assert record is not None
    assert record.machines == ()
    assert actions(ec2).count("RunInstances") == QUICK.unanswered
    down(launcher, f"broken-{kind}")
    assert everything(access, f"broken-{kind}") == []


def _launch_in_child(access: AwsAccess, journal: Path, name: str) -> None:
    ensure(launcher_of(access, journal), name)


@pytest.mark.matrix
@pytest.mark.parametrize("action", ["DescribeInstances", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "RunInstances"])
def test_kill_9_at_any_call_leaves_no_duplicate_and_no_orphan(
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess, tmp_path: Path, action: str
) -> None:
    name = f"killed-{action.lower()[:8]}"
    fault(ec2, kind="delay", action=action, delay_s=0.5, count=1)
    child = multiprocessing.get_context("spawn").Process(target=_launch_in_child, args=(access, tmp_path / "journal", name))
    child.start()
    until(lambda: action in actions(ec2), every_s=0.01)
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    # The delayed call is executed after its client is gone.
    until(lambda: all("seconds" in call for call in control.ask(ec2, "calls")))
    instance, _ = ensure(launcher, name)
    assert [x for x in everything(access, name) if x.startswith("i-")] == [instance.id]
    down(launcher, name)
    assert everything(access, name) == []


def test_a_price_over_the_limit_is_refused_before_any_call(launcher: Launcher, ec2: Rehearsal) -> None:
    data = PROFILE.dump()
    data["places"] = [{"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"]}]
    data["limits"] = {"price_per_hour_usd": 0.1, "deadline_h": 1}
    with pytest.raises(PriceOverLimitError, match=r"0\.553"):
        ensure(launcher, "dear", Profile.model_validate(data))
    assert actions(ec2) == []


def test_two_at_once_on_one_name_one_wins_and_the_other_says_who(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with journal.hold("a"):
        with pytest.raises(NameTakenError, match=str(os.getpid())):
            journal.hold("a").__enter__()
        with journal.hold("b"):
            pass
    with journal.hold("a"):
        pass


def test_what_is_listed_is_found_by_tag_and_a_dead_region_is_said(launcher: Launcher, ec2: Rehearsal) -> None:
    ensure(launcher, "listed")
    fault(ec2, kind="error", action="DescribeInstances", region=SG, code="UnauthorizedOperation")
    instances, _, problems = survey(Ours(launcher.connect, launcher.on_step), WHERE)
    assert "listed" in [i.name for i in instances]
    (problem,) = problems
    assert SG in problem


def test_removing_takes_what_is_tagged_and_nothing_of_others(launcher: Launcher, access: AwsAccess) -> None:
    aws = client("ec2", HK, access)
    theirs = aws.create_security_group(GroupName="gpuprov-theirs", Description="of somebody else")["GroupId"]
    ensure(launcher, "gone")
    removed = down(launcher, "gone")
    assert [what.split()[0] for what in removed] == ["instance", "volume", "security-group"]
    assert everything(access, "gone") == []
    assert aws.describe_security_groups(GroupIds=[theirs])["SecurityGroups"]
    with pytest.raises(InstanceNotFoundError):
        down(launcher, "gone")


def test_the_journal_survives_a_broken_file_and_holds_no_secret(launcher: Launcher, access: AwsAccess, tmp_path: Path) -> None:
    ensure(launcher, "kept")
    file = tmp_path / "journal" / "kept.json"
    assert json.loads(file.read_text())["profile"]["name"] == "t4-train"
    assert str(access.secret_access_key) not in file.read_text()
    file.write_text("{")
    assert launcher.journal.get("kept") is None
    assert ensure(launcher, "kept")[1][0].outcome == "adopted"


def test_connect_says_which_clouds_there_are() -> None:
    connect: Callable[[str, str], Any] = clouds.connect
    assert connect("gcp", "asia-east2").spans == "project"
    with pytest.raises(GpuprovError, match="azure"):
        connect("azure", "asia-east2")


def test_of_two_places_that_differ_by_market_alone_the_right_one_is_passed_over(launcher: Launcher) -> None:
    plain = PROFILE.dump()
    one = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": [SG]}
    plain["places"] = [{**one, "market": "spot"}, {**one, "market": "on-demand"}]
    profile = Profile.model_validate(plain)
    lock = build(profile, dt.date(2026, 11, 21))
    spot, on_demand = lock.places
    lock = lock.model_copy(update={"places": (spot.model_copy(update={"not_available": "not sold as spot"}), on_demand)})
    (instance,) = launcher.ensure(LaunchRequest(plan(profile, lock, "x"), KEY))
    assert instance.market == "on-demand"
    assert [(a.market, a.outcome) for a in launcher.attempts] == [("spot", "skipped"), ("on-demand", "launched")]


# --- EC2 shows tags late, and does not repeat a token whose machine has ended ------------------------------------------------


def settings(ec2: Rehearsal, **changed: Any) -> None:
    control.ask(ec2, "settings", method="PUT", body=changed)


def test_what_was_just_launched_is_removed_while_its_tags_are_late(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    settings(ec2, tags_s=60.0, unseen_s=60.0)
    instance, _ = ensure(launcher, "late")
    assert (instance.name, instance.launch_id != "") == ("late", True)
    removed = down(launcher, "late")
    settings(ec2, tags_s=0.0, unseen_s=0.0)
    assert f"instance {instance.id} in {instance.region}" in removed
    assert everything(access, "late") == []
    assert launcher.journal.get("late") is None


def test_a_refused_launch_takes_its_group_back_while_the_tags_are_late(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    settings(ec2, tags_s=60.0)
    fault(ec2, kind="error", action="RunInstances", code="UnauthorizedOperation", http=403)
    with pytest.raises(PermissionRefusedError):
        ensure(launcher, "refused")
    fault(ec2, kind="error", action="None")
    settings(ec2, tags_s=0.0)
    assert everything(access, "refused") == []
    instance, _ = ensure(launcher, "refused")
    assert everything(access, "refused")[0] == instance.id
    down(launcher, "refused")


def test_a_group_whose_tags_are_late_is_known_by_its_description(
    launcher: Launcher, ec2: Rehearsal, tmp_path: Path, access: AwsAccess
) -> None:
    settings(ec2, tags_s=60.0)
    fault(ec2, kind="lost", action="CreateSecurityGroup", count=1)
    ensure(launcher, "described")
    with pytest.raises(NameTakenError, match="'described' belongs to launch"):
        ensure(launcher_of(access, tmp_path / "another"), "described")
    down(launcher, "described")


def test_a_launch_goes_on_after_the_machine_of_its_token_has_ended(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    fault(ec2, kind="lost", action="RunInstances", count=3)
    with pytest.raises(CloudUnreachableError):
        ensure(launcher, "spent")
    fault(ec2, kind="error", action="None")
    lost = next(each for each in everything(access, "spent") if each.startswith("i-"))
    client("ec2", HK, access).terminate_instances(InstanceIds=[lost])
    instance, attempts = ensure(launcher, "spent")
    assert [a.outcome for a in attempts] == ["token-spent", "token-spent", "launched"]
    assert instance.id != lost
    down(launcher, "spent")
    assert everything(access, "spent") == []


def test_a_token_that_came_with_other_parameters_gives_its_machine(launcher: Launcher, ec2: Rehearsal, access: AwsAccess) -> None:
    """As when the newest image is another one than a moment ago."""
    fault(ec2, kind="lost", action="RunInstances", count=3)
    with pytest.raises(CloudUnreachableError):
        ensure(launcher, "mismatch")
    fault(ec2, kind="error", action="RunInstances", code="IdempotentParameterMismatch")
    (lost,) = [each for each in everything(access, "mismatch") if each.startswith("i-")]
    instance, _ = ensure(launcher, "mismatch")
    assert (instance.id, instance.name) == (lost, "mismatch")
    fault(ec2, kind="error", action="None")
    down(launcher, "mismatch")
    assert everything(access, "mismatch") == []


@pytest.mark.parametrize("state", [{"no_default_vpc": [HK]}, {"account_state": {HK: "PendingVerification"}}])
def test_a_region_that_refuses_the_account_is_passed_over_and_nothing_is_left_there(
    launcher: Launcher, ec2: Rehearsal, access: AwsAccess, state: dict[str, Any]
) -> None:
    settings(ec2, **state)
    instance, attempts = ensure(launcher, "elsewhere")
    assert (attempts[0].region, instance.region, attempts[-1].outcome) == (HK, SG, "launched")
    assert [thing for thing in everything(access, "elsewhere") if thing.startswith("i-")] == [instance.id]
    down(launcher, "elsewhere")


@pytest.mark.parametrize("code", ["OptInRequired", "Blocked"])
def test_an_account_that_is_refused_everywhere_ends_a_launch_with_awss_own_words(launcher: Launcher, ec2: Rehearsal, code: str) -> None:
    settings(ec2, account_state=dict.fromkeys((HK, SG), code))
    with pytest.raises(AccountRefusedError, match=code):
        ensure(launcher, "blocked")
    settings(ec2, account_state={})

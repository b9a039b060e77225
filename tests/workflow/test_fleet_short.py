"""A fleet that gets less than it asked for, or is over: what is said of it, and what is left, on the embedded AWS without hosts."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, call
from tests.waiting import until
from tests.workflow.test_fleet import REGION, AwsGroups, cloud, profile, words

__all__ = ["call", "cloud", "profile", "words"]

TEAM = "équipe Ünïcode 计算"


@pytest.fixture
def where() -> str:
    return "aws"


@pytest.fixture
def groups(cloud: Rehearsal) -> AwsGroups:
    return AwsGroups(cloud)


def zones(groups: AwsGroups) -> list[str]:
    return sorted(row["ZoneName"] for row in groups.ec2.describe_availability_zones()["AvailabilityZones"])


def settings(cloud: Rehearsal, **changes: Any) -> None:
    control.ask(cloud, "settings", method="PUT", body=changes)


def failures(call: Call) -> list[str]:
    return list(json.loads(call("fleet", "status", "ff", "--json")[1])["failures"])


def machines(groups: AwsGroups) -> list[dict[str, Any]]:
    rows = [machine for each in groups.ec2.describe_instances()["Reservations"] for machine in each["Instances"]]
    return [row for row in rows if row["State"]["Name"] not in {"terminated", "shutting-down"}]


def test_zones_without_room_are_left_out(cloud: Rehearsal, groups: AwsGroups, call: Call, words: tuple[str, ...]) -> None:
    first, second, *others = zones(groups)
    settings(cloud, zone_capacity={first: 0, second: 0})
    assert call(*words)[0] == 0
    until(lambda: groups.count() == 2)
    shown = json.loads(call("fleet", "status", "ff", "--json")[1])
    assert {row["zone"] for row in shown["members"]} <= set(others)
    assert shown["failures"] == []


def test_what_there_is_no_room_for_is_said_and_comes_when_there_is(
    cloud: Rehearsal, groups: AwsGroups, call: Call, words: tuple[str, ...]
) -> None:
    *full, last = zones(groups)
    settings(cloud, zone_capacity={**dict.fromkeys(full, 0), last: 1})
    assert call(*words)[0] == 0
    said = until(lambda: failures(call))
    assert "InsufficientInstanceCapacity" in said[0]
    code, out, _ = call("fleet", "status", "ff")
    assert (code, "0 of 2 serve" in out, out.count(f" {last} ")) == (3, True, 1), out
    assert "a launch failed: " in out
    settings(cloud, zone_capacity={})
    until(lambda: groups.count() == 2)


def test_a_quota_that_is_reached_is_named(cloud: Rehearsal, groups: AwsGroups, call: Call, words: tuple[str, ...]) -> None:
    settings(cloud, vcpu_limit={REGION: 4})
    assert call(*words)[0] == 0
    assert "VcpuLimitExceeded" in until(lambda: failures(call))[0]
    assert groups.count() == 1


def test_a_tag_that_a_cloud_would_refuse_is_refused_before_anything_is_made(
    groups: AwsGroups, call: Call, words: tuple[str, ...], profile: str
) -> None:
    path = Path(profile)
    path.write_text(f"{path.read_text()}\ntags: {{team: {TEAM}}}\n")
    code, _, err = call(*words)
    assert (code, "tags.team: cannot be" in err) == (2, True), err
    assert (groups.all(), groups.left()) == ([], [])


def test_a_fleet_that_was_extended_outlives_its_first_deadline_and_ends_at_the_second(
    cloud: Rehearsal, groups: AwsGroups, call: Call, words: tuple[str, ...]
) -> None:
    call(*words)
    until(lambda: groups.count() == 2)
    named = {"AutoScalingGroupName": "gpuprov-ff", "ScheduledActionName": "gpuprov-deadline"}
    soon = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=2)
    groups.groups.put_scheduled_update_group_action(**named, StartTime=soon, MinSize=0, MaxSize=0, DesiredCapacity=0)
    groups.serve()
    assert call("fleet", "extend", "ff", "3h")[0] == 0
    settings(cloud, clock_ahead_s=3 * 3600)
    gone = machines(groups)[0]["InstanceId"]
    groups.ec2.terminate_instances(InstanceIds=[gone])
    until(lambda: gone not in {row["InstanceId"] for row in groups.one()["Instances"]} and groups.count() == 2)  # it lives
    settings(cloud, clock_ahead_s=6 * 3600)
    until(lambda: groups.count() == 0)
    launched = len(groups.groups.describe_scaling_activities(AutoScalingGroupName="gpuprov-ff")["Activities"])
    settings(cloud, clock_ahead_s=30 * 24 * 3600)
    assert call("fleet", "status", "ff")[0] == 3
    assert (groups.sizes(), groups.one()["MaxSize"], machines(groups)) == ([0], 0, [])
    assert len(groups.groups.describe_scaling_activities(AutoScalingGroupName="gpuprov-ff")["Activities"]) == launched


def test_launches_that_stopped_without_a_word_of_a_member_are_no_failed_program(
    groups: AwsGroups, call: Call, words: tuple[str, ...]
) -> None:
    call(*words)
    groups.groups.suspend_processes(AutoScalingGroupName="gpuprov-ff", ScalingProcesses=["Launch"])
    code, out, _ = call("fleet", "status", "ff")
    assert (code, "it launches no more: no member posted why, so the store refuses them" in out) == (3, True), out


def test_a_bucket_that_is_not_there_ends_up_before_anything_is_made(
    cloud: Rehearsal, groups: AwsGroups, call: Call, words: tuple[str, ...]
) -> None:
    control.ask(cloud, "settings", method="PUT", body={"missing": ["a-store"]})
    code, _, err = call(*words)
    assert (code, "there is no bucket a-store" in err) == (4, True), err
    assert (groups.left(), groups.all()) == ([], [])


KEY = f"arn:aws:kms:{REGION}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_a_fleet_with_a_disk_key_is_made_after_somebody_said_that_its_policy_lets_the_group_in(
    groups: AwsGroups, call: Call, words: tuple[str, ...], profile: str
) -> None:
    path = Path(profile)
    path.write_text(path.read_text().replace("    identity: {instance", "    disk_key: alias/ours\n    identity: {instance", 1))
    shown = json.loads(call("fleet", "plan", *words[2:], "--json", "--store-key", KEY)[1])
    assert list(shown["key_statements"]) == ["alias/ours"]
    assert {each["Sid"] for each in shown["member_policy"]["Statement"]} >= {"UseStoreKey"}
    assert "AWSServiceRoleForAutoScaling" in call("fleet", "plan", *words[2:])[1]
    code, _, err = call(*words)
    assert (code, "asks for confirmation" in err) == (2, True), err
    assert groups.all() == []
    assert call(*words, "--yes")[0] == 0
    until(lambda: groups.count() == 2)
    groups.serve()
    code, _, err = call("fleet", "roll", "ff", "--profile", profile)
    assert (code, "asks for confirmation" in err) == (2, True), err
    assert call("fleet", "roll", "ff", "--profile", profile, "--yes")[0] == 0

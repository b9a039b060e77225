"""A member's own program against the embedded cloud without hosts, in a time that is played: when the hook or the store is not there."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import math
import random
import threading
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.clouds.aws import fleet, fleet_requests
from provision.clouds.aws.client import client
from provision.clouds.aws.onhost import member as onhost
from provision.clouds.fleet import Waves
from provision.rehearsal import control
from provision.structs import replace
from tests.clouds.aws.test_fleet import REGION, Made, made, silent
from tests.here import urllib_from
from tests.rehearsal.aws.machine import Machine
from tests.waiting import until

__all__ = ["made"]

member: Any = onhost  # it runs as it is, without annotations
MOST_REQUESTS = 70  # of one kind in the patience of a member, whose pauses grow to a minute, or to half of it by chance
STEP_S = 60.0


class Played:
    """The time of a member; the clock of its group goes with it."""

    def __init__(self, made: Made) -> None:
        self.at, self.beat_at = 0.0, math.inf
        self.slept: list[float] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self._made, self._began = made, time.time()

    def monotonic(self) -> float:
        return self.at

    def time(self) -> float:
        return self._began + self.at

    def sleep(self, seconds: float) -> None:
        end = self.at + seconds
        self.slept.append(seconds)
        while self.at < end:
            self.at = min(end, self.at + STEP_S)
            self._made.set(clock_ahead_s=self.at)
            while self.later and self.later[0][0] <= self.at:
                self.later.pop(0)[1]()
            until(lambda: self.beat_at > self.at, every_s=0.001)


class Member:
    """One instance of the group, and the program on it."""

    def __init__(self, made: Made, instance: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.made, self.instance, self.folder, self.patch = made, instance, folder / instance, patch
        self.time, self.console = Played(made), list[str]()
        self.folder.mkdir()
        given = made.aws.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
        document = yaml.safe_load(base64.b64decode(given))
        (self.folder / "member.json").write_text(document["write_files"][0]["content"])
        self.address = Machine(made.aws, made.access, instance).address

    def boot(self) -> None:
        """Run the program as this machine would."""
        self._stand()
        control.ask(self.made.rehearsal, "calls", method="DELETE")
        member.main()

    def watch(self) -> None:
        """Wait for the end of the group as this machine would."""
        self._stand()
        control.ask(self.made.rehearsal, "calls", method="DELETE")
        member.watch(json.loads((self.folder / "member.json").read_text()))

    def _stand(self) -> None:
        played, address = self.time, self.address

        class Ended(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                played.beat_at = played.at + (timeout or 0.0)
                due = played.beat_at
                until(lambda: self.is_set() or played.at >= due, every_s=0.001)
                if self.is_set():
                    played.beat_at = math.inf
                return self.is_set()

            def set(self) -> None:
                super().set()
                played.beat_at = math.inf

        for name, value in {
            "CONFIG": str(self.folder / "member.json"),
            "STATE": str(self.folder / "state"),
            "POWER_OFF": ["touch", str(self.folder / "off")],
            "say": self.console.append,
            "time": played,
            "threading": types.SimpleNamespace(Event=Ended, Thread=threading.Thread),
            "urllib": urllib_from(address),
        }.items():
            self.patch.setattr(member, name, value)

    def calls(self) -> Counter[str]:
        return Counter(row["action"] for row in control.ask(self.made.rehearsal, "calls"))

    def state(self) -> str:
        return next((row.state for row in self.made.view().members if row.id == self.instance), "")


Boots = Callable[[], Member]


@pytest.fixture
def first(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Boots:
    """The only member that the group has now, before it boots."""
    made.set(role_policies={"gpu-node": fleet.plan(made.order, REGION).member})
    made.ensure(1)

    def waiting() -> Member:
        (one,) = made.waiting(1)
        return Member(made, one, tmp_path, monkeypatch)

    return waiting


def faults(made: Made, *rules: dict[str, Any]) -> None:
    control.ask(made.rehearsal, "faults", method="PUT", body=[{"kind": "error", **rule} for rule in rules])


def activities(made: Made) -> list[str]:
    asked = client("autoscaling", REGION, made.access).describe_scaling_activities(AutoScalingGroupName=f"gpuprov-{made.name}")
    return [row["StatusCode"] for row in asked["Activities"]]


def serving(made: Made) -> list[str]:
    return [row.id for row in made.view().members if row.serves]


@pytest.mark.parametrize("code", ["ValidationError", "Throttling"])
def test_a_member_that_is_faster_than_its_hook_says_it_again(made: Made, first: Boots, code: str) -> None:
    one = first()
    faults(made, {"action": "CompleteLifecycleAction", "code": code, "count": 5})
    one.boot()
    assert until(lambda: serving(made)) == [one.instance]
    assert one.calls()["CompleteLifecycleAction"] == 6


def test_a_member_that_is_never_heard_ends_and_does_not_begin_again(made: Made, first: Boots) -> None:
    one = first()
    faults(made, {"action": "CompleteLifecycleAction", "code": "ValidationError", "count": 100})
    one.boot()
    assert one.calls()["CompleteLifecycleAction"] == member.COMPLETE_TRIES
    faults(made)
    one.boot()
    assert not one.calls()


def test_a_member_that_was_cut_off_after_its_word_serves_once(made: Made, first: Boots) -> None:
    one = first()
    one.boot()
    until(lambda: serving(made) == [one.instance])
    (one.folder / "state" / "done").unlink()
    one.boot()
    assert serving(made) == [one.instance]
    assert one.calls()["CompleteLifecycleAction"] <= member.COMPLETE_TRIES
    assert activities(made) == ["Successful"]
    assert len(made.fleet.evidence(made.order)) == 1


def test_a_member_whose_hook_is_over_gives_up_and_another_serves(made: Made, first: Boots) -> None:
    late = first()
    faults(made, {"action": "CompleteLifecycleAction", "code": "Throttling"})
    late.boot()
    assert late.time.at > fleet_requests.HEARTBEAT_S
    assert late.calls()["CompleteLifecycleAction"] < MOST_REQUESTS
    faults(made)
    until(lambda: late.state() == "")
    other = first()
    other.time.at = late.time.at
    other.boot()
    assert until(lambda: serving(made)) == [other.instance]


def test_a_member_that_no_group_wants_any_more_ends(made: Made, first: Boots, monkeypatch: pytest.MonkeyPatch) -> None:
    one = first()
    answered = member.Member.metadata

    def metadata(self: Any, path: str) -> str:
        if path.startswith("autoscaling/"):
            raise member.Refused(404, "")
        return str(answered(self, path))

    monkeypatch.setattr(member.Member, "metadata", metadata)
    faults(made, {"action": "CompleteLifecycleAction", "code": "ValidationError"})
    one.boot()
    assert one.calls()["CompleteLifecycleAction"] == 1
    assert (one.folder / "state" / "done").exists()


def store_down(made: Made) -> None:
    faults(made, {"action": "(Get|Put|List)Object.*", "code": "ServiceUnavailable", "http": 503})


@pytest.mark.parametrize("down_s", [600.0, 1200.0])
def test_a_store_that_is_down_at_boot_is_waited_for_with_few_requests(made: Made, first: Boots, down_s: float) -> None:
    """Also for longer than the hook has: the member keeps it open."""
    one = first()
    store_down(made)
    one.time.later.append((down_s, lambda: faults(made)))
    one.boot()
    assert one.time.at >= down_s
    assert until(lambda: serving(made)) == [one.instance]
    assert activities(made) == ["Successful"]
    assert one.console == ["verified"]
    calls = one.calls()
    assert len(set(one.time.slept)) == len(one.time.slept)  # so members do not ask in step
    assert 5 < sum(number for action, number in calls.items() if "Object" in action) < MOST_REQUESTS, calls


def test_a_store_that_stays_down_ends_with_abandon_and_the_reason_on_the_console(made: Made, first: Boots) -> None:
    one = first()
    store_down(made)
    one.boot()
    assert one.console == ["Refused: 503 ServiceUnavailable", "not verified"]
    calls = one.calls()
    assert sum(number for action, number in calls.items() if "Object" in action) < MOST_REQUESTS, calls
    assert calls["CompleteLifecycleAction"] == 1
    until(lambda: "Cancelled" in activities(made))
    assert serving(made) == []


# --- a store that refuses its members, while it takes all from whoever made the fleet ---------------------------------------


def halted(made: Made) -> bool:
    return bool(made.view().halted)


REFUSING = ["Fetch", "CountFailures", "Post"]


@pytest.mark.parametrize("sid", REFUSING)
def test_a_store_that_refuses_its_members_stops_the_launches_at_the_first_of_them(made: Made, first: Boots, sid: str) -> None:
    document = fleet.plan(made.order, REGION).member
    made.set(role_policies={"gpu-node": {**document, "Statement": [each for each in document["Statement"] if each["Sid"] != sid]}})
    one = first()
    one.boot()
    assert one.console[-3:] == [
        "the store refuses the members",
        "the group launches no more (ActiveInstanceRefreshNotFound)",
        "not verified",
    ]
    assert one.console[0] == "RefusedByStore: 403 AccessDenied"
    assert halted(made)
    calls = one.calls()
    assert sum(number for action, number in calls.items() if "Object" in action or "List" in action) <= 2 * member.STORE_TRIES, calls
    until(lambda: one.state() == "")
    assert made.view().members == ()


@pytest.mark.parametrize(("code", "status"), [("PermanentRedirect", 301), ("IllegalLocationConstraintException", 400), ("NoSuchKey", 404)])
def test_whatever_the_store_answers_for_good_the_launches_stop(made: Made, first: Boots, code: str, status: int) -> None:
    one = first()
    faults(made, {"action": "(Get|Put)Object|ListBucket", "code": code, "http": status})
    one.boot()
    faults(made)
    assert one.console[0] == f"RefusedByStore: {status} {code}"
    assert halted(made)


def test_a_policy_that_takes_effect_late_is_waited_for(made: Made, first: Boots) -> None:
    one = first()
    made.set(role_policies={})
    one.time.later.append((1.0, lambda: made.set(role_policies={"gpu-node": fleet.plan(made.order, REGION).member})))
    one.boot()
    assert until(lambda: serving(made)) == [one.instance]
    assert not halted(made)


def test_another_program_under_the_digest_stops_the_launches_too(made: Made, first: Boots) -> None:
    client("s3", REGION, made.access).put_object(Bucket=made.order.bucket, Key=f"x/bundles/{made.order.digest}", Body=b"other")
    one = first()
    one.boot()
    assert one.console[0] == "RefusedByStore: the store has another program under this digest"
    assert halted(made)


def test_a_member_asks_the_store_in_the_region_of_the_bucket(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bucket serves the fleets of several regions."""
    there = client("s3", "eu-west-1", made.access)
    there.create_bucket(Bucket=made.order.bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    made.set(role_policies={"gpu-node": fleet.plan(made.order, REGION).member})
    made.ensure(1)
    (one,) = made.waiting(1)
    Member(made, one, tmp_path, monkeypatch).boot()
    assert until(lambda: serving(made)) == [one]
    assert len(made.fleet.evidence(made.order)) == 1


# --- the fifth that fails, while the group rolls ----------------------------------------------------------------------------


def a_roll(made: Made, first: Boots) -> Member:
    """A member of the version that the group rolls to, with which five failed."""
    one = first()
    one.boot()
    until(lambda: serving(made) == [one.instance])
    program = b"#!/bin/sh\nexit 1\n"
    made.order = replace(made.order, digest=hashlib.sha256(program).hexdigest())
    made.fleet.roll(made.order, program, Waves(percents=(100,), pause_s=0, healthy_percent=0), on_step=silent)
    for number in range(made.order.breaker):
        key = f"x/failures/{made.name}/{made.order.digest}/AROA:i-{number}"
        client("s3", REGION, made.access).put_object(Bucket=made.order.bucket, Key=key, Body=b"1 no\n")
    return first()


CODES = ["IrreversibleInstanceRefresh", "ActiveInstanceRefreshNotFound", "ResourceContention", "ValidationError"]


@pytest.mark.parametrize("code", CODES)
def test_a_group_that_goes_back_already_may_launch_whatever_aws_calls_the_refusal(made: Made, first: Boots, code: str) -> None:
    late = a_roll(made, first)
    client("autoscaling", REGION, made.access).rollback_instance_refresh(AutoScalingGroupName=f"gpuprov-{made.name}")
    faults(made, {"action": "RollbackInstanceRefresh", "code": code})
    late.boot()
    assert not halted(made)


@pytest.mark.parametrize("code", CODES)
def test_a_roll_that_cannot_go_back_launches_no_more_whatever_aws_calls_the_refusal(made: Made, first: Boots, code: str) -> None:
    late = a_roll(made, first)
    faults(made, {"action": "RollbackInstanceRefresh", "code": code})
    late.boot()
    assert halted(made)


# --- members that the group leaves running ------------------------------------------------------------------------------------


HOURS_S = 3600.0


@pytest.mark.parametrize("how", ["protected", "standby"])
def test_a_member_that_the_group_leaves_running_at_its_deadline_ends_itself(made: Made, first: Boots, how: str) -> None:
    one = first()
    one.boot()
    until(lambda: serving(made) == [one.instance])
    groups, named = client("autoscaling", REGION, made.access), {"AutoScalingGroupName": f"gpuprov-{made.name}"}
    if how == "protected":
        groups.set_instance_protection(**named, InstanceIds=[one.instance], ProtectedFromScaleIn=True)
    else:
        groups.enter_standby(**named, InstanceIds=[one.instance], ShouldDecrementDesiredCapacity=True)
    one.watch()
    assert one.state() == ("InService" if how == "protected" else "Standby")
    assert (one.folder / "off").exists()
    assert 12 * HOURS_S <= one.time.at < 13 * HOURS_S
    assert one.calls()["DescribeAutoScalingGroups"] < 5


def test_a_member_of_an_extended_group_stays_until_the_second_deadline(made: Made, first: Boots) -> None:
    one = first()
    one.boot()
    until(lambda: serving(made) == [one.instance])
    groups, named = client("autoscaling", REGION, made.access), {"AutoScalingGroupName": f"gpuprov-{made.name}"}
    groups.set_instance_protection(**named, InstanceIds=[one.instance], ProtectedFromScaleIn=True)
    later = made.order.machine.deadline + dt.timedelta(hours=6)
    made.fleet.extend(replace(made.order, machine=replace(made.order.machine, deadline=later)))
    faults(made, {"action": "DescribeAutoScalingGroups", "code": "AccessDenied", "http": 403, "count": 3})
    one.watch()
    assert 18 * HOURS_S <= one.time.at < 19 * HOURS_S
    assert (one.folder / "off").exists()


def test_64_members_whose_store_is_down_at_boot_ask_seldom_and_not_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own pauses, played for each of them: how often all of them together ask the store."""
    down_s, asked, done = 600.0, list[float](), list[float]()

    class Alone:
        """The time of one member that has no hook to keep open."""

        at = 0.0

        def monotonic(self) -> float:
            return self.at

        def sleep(self, seconds: float) -> None:
            self.at += seconds

    def act() -> None:
        asked.append(member.time.at)
        if member.time.at < down_s:
            raise member.Refused(503, "<Code>SlowDown</Code>")

    monkeypatch.setattr(member, "random", random.Random(64))  # noqa: S311 - the same pauses in each run
    for _ in range(64):
        monkeypatch.setattr(member, "time", Alone())
        member.patiently(act, fleet_requests.HEARTBEAT_S)
        done.append(member.time.at)
    assert down_s <= min(done) <= max(done) < down_s + 90 < fleet_requests.HEARTBEAT_S
    by_minute, by_second = Counter(int(at // 60) for at in asked), Counter(int(at) for at in asked if at > 120)
    assert by_minute[0] <= 8 * 64
    assert max(by_minute[minute] for minute in range(1, 12)) <= 1.5 * 64
    assert max(by_second.values()) <= 64 / 8

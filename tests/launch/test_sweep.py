"""What a sweep takes: things of launches without a living machine, and machines over their deadline. Nothing else, ever."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.base import NotSetUpError
from provision.errors import CloudUnreachableError
from provision.launch.journal import Machine, Record
from provision.launch.sweep import Leftover, clear_away, leftovers
from provision.structs import replace
from tests.launch.memory import Memory, MemoryCloud, machine, thing

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
HERE, THERE = ("aws", "us-east-1"), ("aws", "eu-west-1")
LATE, EARLY = "2026-11-21T11:59:59+00:00", "2026-11-21T12:00:01+00:00"


@pytest.fixture
def memory() -> Memory:
    return Memory()


def swept(memory: Memory, *, owners: set[str] | None = None, busy: set[str] | None = None, where: Any = (HERE, THERE)) -> dict[str, str]:
    """Id → why, for each leftover."""
    left, problems = leftovers(memory.ours(), where, owners=owners, busy=busy or set(), now=NOW)
    assert problems == {}
    return {item.thing.id: item.why for item in left}


def running(cloud: MemoryCloud, name: str, deadline: str, **changes: Any) -> None:
    cloud.machines.append(machine(name, deadline=deadline, **changes))
    cloud.left += [thing("instance", name), thing("volume", name)]


def test_a_machine_over_its_deadline_is_taken_with_all_that_is_its_own(memory: Memory) -> None:
    running(memory[HERE], "train", LATE)
    assert swept(memory) == {"instance-train": "its deadline is over", "volume-train": "its deadline is over"}


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped"])
@pytest.mark.parametrize("deadline", [EARLY, NOW.isoformat(), ""])
def test_a_machine_before_its_deadline_is_left_alone(memory: Memory, deadline: str, state: str) -> None:
    running(memory[HERE], "train", deadline, state=state)
    assert swept(memory) == {}


@pytest.mark.parametrize("deadline", ["soon", "2026-11-21T11:00:00", "12", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_machine_whose_deadline_cannot_be_read_is_left_alone_and_named(memory: Memory, deadline: str) -> None:
    """Anybody may write a tag, and a text without a zone may mean another moment."""
    running(memory[HERE], "train", deadline)
    items, unasked = leftovers(memory.ours(), [HERE], owners=None, busy=set(), now=NOW)
    assert items == []
    assert unasked == {f"{HERE[1]}: the deadline of train (i-train) cannot be read, so nothing of it is swept": False}


def test_what_a_launch_left_without_a_machine_is_taken(memory: Memory) -> None:
    running(memory[HERE], "train", EARLY)
    memory[HERE].left.append(thing("security-group", "gone"))
    assert swept(memory) == {"security-group-gone": "its launch has no machine"}


def test_a_machine_that_ended_does_not_hold_what_it_left_and_is_not_taken_itself(memory: Memory) -> None:
    memory[HERE].left += [thing("instance", "train", alive=False), thing("volume", "train")]
    assert swept(memory) == {"volume-train": "its launch has no machine"}


def test_a_launch_with_a_living_machine_in_another_region_is_left_alone(memory: Memory) -> None:
    memory[HERE].left += [thing("volume", "train")]
    memory[THERE].left += [thing("instance", "train")]
    assert swept(memory) == {}


def test_a_launch_is_over_when_all_of_its_machines_are(memory: Memory) -> None:
    one, two = machine("a", deadline=LATE, launch_id="launch-train"), machine("b", deadline=EARLY, launch_id="launch-train")
    memory[HERE].machines, memory[HERE].left = [one], [thing("instance")]
    memory[THERE].machines, memory[THERE].left = [two], [thing("instance", id="other")]
    assert swept(memory) == {}
    memory[THERE].machines, memory[THERE].left = [], []
    assert swept(memory) == {"instance-train": "its deadline is over"}


def test_a_launch_that_is_under_way_is_left_alone(memory: Memory) -> None:
    running(memory[HERE], "train", LATE)
    memory[HERE].left.append(thing("security-group", "gone"))
    assert swept(memory, busy={"launch-train", "launch-gone"}) == {}
    assert set(swept(memory, busy={"launch-train"})) == {"security-group-gone"}


def test_things_of_others_are_left_alone_unless_everybody_s_are_asked_for(memory: Memory) -> None:
    memory[HERE].left += [thing("volume", "mine"), thing("volume", "theirs", owner="other@example.org")]
    assert set(swept(memory, owners={"isa@example.org"})) == {"volume-mine"}
    assert set(swept(memory, owners=set())) == set()
    assert set(swept(memory, owners=None)) == {"volume-mine", "volume-theirs"}


def test_they_are_sorted_by_launch_then_region_then_kind(memory: Memory) -> None:
    memory[HERE].left += [thing("volume", "b"), thing("volume", "a"), thing("disk", "b")]
    memory[THERE].left += [thing("volume", "b", id="elsewhere")]
    assert list(swept(memory)) == ["volume-a", "elsewhere", "disk-b", "volume-b"]
    left, _ = leftovers(memory.ours(), [HERE, THERE], owners=None, busy=(), now=NOW)
    assert left[0] == Leftover("aws", "us-east-1", thing("volume", "a"), "its launch has no machine")


def test_a_region_that_does_not_answer_is_said_and_the_others_are_swept(memory: Memory) -> None:
    memory[HERE].left.append(thing("volume", "gone"))
    memory[THERE].fails["things"] = CloudUnreachableError("no answer", hint="x")
    left, problems = leftovers(memory.ours(), [HERE, THERE], owners=None, busy=(), now=NOW)
    assert [item.thing.id for item in left] == ["volume-gone"]
    assert problems == {"eu-west-1: no answer": True}


def test_a_cloud_that_is_not_set_up_hides_nothing_where_another_one_answers_that_nothing_is_left(memory: Memory) -> None:
    memory["gcp", "us-central1"].fails["things"] = NotSetUpError("no login", hint="x")
    assert leftovers(memory.ours(), [HERE, ("gcp", "us-central1")], owners=None, busy=(), now=NOW) == ([], {"gcp: no login": False})


def test_machines_that_cannot_be_read_are_left_alone_and_it_is_said(memory: Memory) -> None:
    """Those of the same launch elsewhere as well: it may have been extended where nobody answers."""
    running(memory[HERE], "train", LATE)
    running(memory[THERE], "train", LATE)
    memory[THERE].fails["find"] = CloudUnreachableError("no answer", hint="x")
    left, problems = leftovers(memory.ours(), [HERE, THERE], owners=None, busy=(), now=NOW)
    assert (left, problems) == ([], {"eu-west-1: no answer": True})


def test_leftovers_are_removed_region_by_region(memory: Memory) -> None:
    memory[HERE].left += [thing("volume", "a"), thing("disk", "a")]
    memory[THERE].left += [thing("volume", "b")]
    left, _ = leftovers(memory.ours(), [HERE, THERE], owners=None, busy=(), now=NOW)
    removed = clear_away(memory.ours(), left)
    assert sorted(removed) == ["disk disk-a in us-east-1", "volume volume-a in us-east-1", "volume volume-b in us-east-1"]
    assert ("remove", ["disk-a", "volume-a"]) in memory[HERE].asked
    assert ("remove", ["volume-b"]) in memory[THERE].asked
    assert clear_away(memory.ours(), []) == []


def test_things_of_a_launch_whose_machine_is_only_shown_late_are_left_alone(memory: Memory) -> None:
    memory[HERE].left = [thing("security-group")]
    plain = Record("train", "launch-train", False, {}, "", NOW.isoformat(), NOW.isoformat(), touched=(HERE,))  # noqa: FBT003
    known = replace(plain, machines=(Machine("train", "i-1", *HERE),))
    ask, machine_of_it = memory[HERE].things, thing("instance", id="i-1")

    def by_id(name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        return [*ask(name, known), *([machine_of_it] if known else [])]

    memory[HERE].things = by_id  # type: ignore[method-assign]
    args: dict[str, Any] = {"owners": None, "busy": (), "now": NOW}
    assert leftovers(memory.ours(), [HERE], records=[known], **args)[0] == []
    assert len(leftovers(memory.ours(), [HERE], **args)[0]) == 1

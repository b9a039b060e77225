"""A name is launched once, against clouds in memory: what exists is adopted, what was cut off is repeated, what is in doubt is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from provision.clouds import base
from provision.errors import CapacityError, CloudUnreachableError, NameTakenError, PriceOverLimitError, QuotaExceededError
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Journal, Machine, Pending, Record
from provision.launch.launcher import Launcher
from provision.structs import replace
from tests.launch.memory import ONCE, Memory, machine, thing
from tests.launch.test_plan import AWS, planned

NAME = "t4-train"
HERE, THERE, OLD = ("aws", "us-east-1"), ("aws", "ap-east-1"), ("aws", "eu-west-1")
DIGEST = planned(AWS).profile_sha256
NONE_LEFT = CapacityError("none left", hint="x")


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def launcher(memory: Memory, tmp_path: Path) -> Launcher:
    connect: Any = lambda c, r: memory[c, r]  # noqa: E731
    return Launcher(connect, Journal(tmp_path / "journal"), rehearsal=False, on_step=memory.said.append, patience=ONCE)


def ensure(launcher: Launcher, **more: Any) -> list[base.Instance]:
    return launcher.ensure(LaunchRequest(planned(AWS), "key", **more))


def ours(number: int = 0, **changes: Any) -> base.Instance:
    """A machine of this profile under this name; with a number, one of several."""
    name = f"{NAME}-{number}" if number else NAME
    return machine(name, **{"group": NAME, "launch_id": "launch-1", "profile_digest": DIGEST, "id": f"i-{number}", **changes})


def journalled(launcher: Launcher, *, age: dt.timedelta = dt.timedelta(0), **changes: Any) -> Record:
    """A record of this request, as an earlier run left it."""
    created = dt.datetime.now(dt.UTC) - age
    plain = Record(NAME, "launch-1", False, {}, DIGEST, created.isoformat(), "2026-11-21T12:00:00+00:00")  # noqa: FBT003
    launcher.journal.put(record := replace(plain, **changes))
    return record


def written(launcher: Launcher) -> Record:
    record = launcher.journal.get(NAME)
    assert record is not None
    return record


def orders(memory: Memory, pair: tuple[str, str] = HERE) -> list[base.Order]:
    return [order for method, order in memory[pair].asked if method == "launch"]


HAD = Pending(0, "us-east-1", "us-east-1a", 1, 1, 1)
CONFIRMED: dict[str, Any] = {"machines": (Machine(NAME, "i-1", *HERE),), "touched": (HERE,), "had": (HAD,)}


# --- what exists is adopted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rehearsal", [True, False])
def test_a_name_of_the_other_kind_of_cloud_is_taken(memory: Memory, launcher: Launcher, rehearsal: bool) -> None:  # noqa: FBT001 - a table
    journalled(launcher, rehearsal=rehearsal)
    launcher.rehearsal = not rehearsal
    with pytest.raises(NameTakenError, match="in the embedded cloud" if rehearsal else "at a cloud") as caught:
        ensure(launcher)
    assert f"`gpuprov down {NAME}`" in caught.value.hint
    assert memory == {}


def test_a_machine_that_runs_is_adopted_where_no_place_may_be_launched_in_any_more(memory: Memory, launcher: Launcher) -> None:
    dear = LaunchRequest(planned(AWS, limit=0.1), "key")
    with pytest.raises(PriceOverLimitError):
        launcher.ensure(dear)
    assert memory == {}  # refused before any call
    digest = dear.plan.profile_sha256
    journalled(launcher, **CONFIRMED, profile_digest=digest)
    memory[HERE].machines = [ours(id="i-1", profile_digest=digest)]
    assert [i.id for i in launcher.ensure(dear)] == ["i-1"]
    memory[HERE].machines = []
    with pytest.raises(PriceOverLimitError):
        launcher.ensure(dear)


# --- what was cut off is repeated, with the same token -----------------------------------------------------------------


def test_an_attempt_that_was_cut_off_is_repeated_first(memory: Memory, launcher: Launcher) -> None:
    record = journalled(launcher, touched=(HERE,), pending=HAD)
    memory[HERE].launches = [[ours(id="i-1")]]
    assert [i.id for i in ensure(launcher)] == ["i-1"]
    (order,) = orders(memory)
    assert (order.launch_id, order.zone, order.deadline) == ("launch-1", "us-east-1a", dt.datetime.fromisoformat(record.deadline))
    assert any("cut off" in said and "repeating" in said for said in memory.said)
    assert (written(launcher).pending, written(launcher).created_at) == (None, record.created_at)


@pytest.mark.parametrize("error", [NONE_LEFT, QuotaExceededError("too small", hint="q")])
def test_if_it_has_no_machine_now_the_places_follow_in_their_order(memory: Memory, launcher: Launcher, error: Any) -> None:
    journalled(launcher, touched=(HERE,), pending=HAD)
    memory[HERE].launches = [error, [ours(id="i-1")]]
    ensure(launcher)
    assert [order.zone for order in orders(memory)] == ["us-east-1a", ""]


def test_an_attempt_whose_machines_all_exist_is_not_repeated(memory: Memory, launcher: Launcher) -> None:
    journalled(launcher, touched=(HERE,), pending=Pending(0, "us-east-1", "", 1, 2, 2), count=2, minimum=2)
    memory[HERE].machines = [ours(1, count=2), ours(2, count=2)]
    assert len(ensure(launcher, count=2, minimum=2)) == 2
    assert orders(memory) == []


def test_an_attempt_with_one_of_two_machines_is_repeated(memory: Memory, launcher: Launcher) -> None:
    journalled(launcher, touched=(HERE,), pending=Pending(0, "us-east-1", "", 1, 2, 2), count=2, minimum=2)
    both = [ours(1, count=2), ours(2, count=2)]
    memory[HERE].machines, memory[HERE].launches = both[:1], [both]
    assert [i.id for i in ensure(launcher, count=2, minimum=2)] == ["i-1", "i-2"]
    assert [(order.count, order.minimum, order.first) for order in orders(memory)] == [(2, 2, 1)]


@pytest.mark.parametrize("pending", [Pending(7, "us-east-1", "", 1, 1, 1), Pending(0, "eu-west-1", "", 1, 1, 1)])
def test_an_attempt_at_a_place_that_the_profile_no_longer_has_is_not_repeated(memory: Memory, launcher: Launcher, pending: Pending) -> None:
    journalled(launcher, touched=(HERE,), pending=pending)
    memory[HERE].launches = [[ours(id="i-1")]]
    ensure(launcher)
    assert [(order.zone, order.launch_id) for order in orders(memory)] == [("", "launch-1")]
    assert orders(memory, OLD) == []


def test_machines_that_are_confirmed_and_not_in_sight_yet_are_found_by_their_attempts(memory: Memory, launcher: Launcher) -> None:
    journalled(launcher, age=dt.timedelta(minutes=9), **CONFIRMED)
    memory[HERE].launches = [[ours(id="i-1")]]
    memory[HERE].left = [thing("instance", NAME, id="i-1", launch_id="launch-1")]
    assert [i.id for i in ensure(launcher)] == ["i-1"]
    assert [(order.launch_id, order.zone) for order in orders(memory)] == [("launch-1", "us-east-1a")]
    assert "remove" not in memory[HERE].methods()


def test_if_even_their_attempts_find_none_it_is_another_launch(memory: Memory, launcher: Launcher) -> None:
    journalled(launcher, **CONFIRMED)
    memory[HERE].left = [thing("volume", NAME, launch_id="launch-1")]
    memory[HERE].launches = [NONE_LEFT, [ours(id="i-2", launch_id="launch-2")]]
    assert [i.id for i in ensure(launcher)] == ["i-2"]
    assert ("remove", [f"volume-{NAME}"]) in memory[HERE].asked
    repeated, fresh = orders(memory)
    assert repeated.launch_id == "launch-1" != fresh.launch_id == written(launcher).launch_id


ENDED = thing("instance", NAME, id="i-1", launch_id="launch-1", alive=False)


@pytest.mark.parametrize(
    ("age", "left", "changes"),
    [
        (dt.timedelta(minutes=10), [], {}),
        (dt.timedelta(0), [ENDED], {}),
        (dt.timedelta(0), [], {"profile_digest": "1" * 64}),
        (dt.timedelta(0), [], {"count": 2}),
        (dt.timedelta(0), [], {"count": 2, "minimum": 0}),
        (dt.timedelta(0), [], {"machines": (), "minimum": 2}),
    ],
)
def test_a_launch_that_ended_or_was_another_is_removed_and_launched_anew(
    memory: Memory, launcher: Launcher, age: dt.timedelta, left: list[base.Thing], changes: dict[str, Any]
) -> None:
    journalled(launcher, age=age, **{**CONFIRMED, **changes})
    memory[HERE].left = [*left, thing("volume", NAME, launch_id="launch-1"), thing("volume", NAME, id="theirs", launch_id="launch-9")]
    memory[HERE].launches = [[ours(id="i-2", launch_id="launch-2")]]
    ensure(launcher)
    (removed,) = [argument for method, argument in memory[HERE].asked if method == "remove"]
    assert removed == [*(each.id for each in left), f"volume-{NAME}"]
    (order,) = orders(memory)
    assert order.launch_id == written(launcher).launch_id != "launch-1"


def test_a_region_that_does_not_answer_shows_no_machine_as_ended(memory: Memory, launcher: Launcher) -> None:
    journalled(launcher, **{**CONFIRMED, "touched": (HERE, OLD)})
    memory[OLD].fails["things"] = CloudUnreachableError("no answer", hint="x")
    memory[HERE].left = [thing("instance", NAME, id="i-9", alive=False), thing("instance", NAME, id="i-1")]
    memory[HERE].launches = [[ours(id="i-1")]]
    ensure(launcher)
    assert [order.launch_id for order in orders(memory)] == ["launch-1"]


# --- afterwards the tags are read once more ----------------------------------------------------------------------------


def test_the_record_has_the_minimum_of_the_last_run(memory: Memory, launcher: Launcher) -> None:
    journalled(launcher, touched=(HERE,), machines=(Machine(f"{NAME}-1", "i-1", *HERE),), count=2, minimum=2)
    memory[HERE].machines = [ours(1, count=2)]
    ensure(launcher, count=2, minimum=1)
    assert written(launcher).minimum == 1
    assert orders(memory) == []

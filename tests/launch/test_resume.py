"""A launch that goes on after an earlier run: which attempt is repeated, which is not, and whose machines are left alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.errors import CapacityError, CloudUnreachableError, NameTakenError, PriceOverLimitError
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Pending, Record
from provision.launch.launcher import Launcher
from provision.structs import replace
from tests.launch.memory import Memory, machine, thing
from tests.launch.test_plan import AWS, planned

HERE, THERE = ("aws", "us-east-1"), ("aws", "ap-east-1")
ONE, BOTH = planned({**AWS, "regions": ["us-east-1"]}), planned(AWS)
NONE_LEFT = CapacityError("none left", hint="x")
NO_ANSWER = CloudUnreachableError("no answer", hint="x")


def member(number: int, count: int = 2, **changes: Any) -> base.Instance:
    plain = {"group": "t4-train", "id": f"i-{number}", "count": count, "profile_digest": ONE.profile_sha256}
    return machine(f"t4-train-{number}", **{**plain, **changes})


def unrelated(pair: tuple[str, str] = HERE) -> base.Instance:
    """Somebody's machine in the same account, older than all others."""
    return machine("hers", region=pair[1], launched_at="2026-01-01T00:00:00+00:00")


def record(launcher: Launcher) -> Record:
    found = launcher.journal.get("t4-train")
    assert found is not None
    return found


def orders(memory: Memory, pair: tuple[str, str] = HERE) -> list[base.Order]:
    return [order for method, order in memory[pair].asked if method == "launch"]


def cut_off(memory: Memory, launcher: Launcher, made: Any = ONE, **more: Any) -> Record:
    """A launch whose one request got no answer."""
    memory[HERE].launches = [NO_ANSWER]
    with pytest.raises(CloudUnreachableError):
        launcher.ensure(LaunchRequest(made, "key", **more))
    memory[HERE].asked.clear()
    return record(launcher)


# --- the request that was cut off ---------------------------------------------------------------------------------------


def test_a_request_whose_machines_all_exist_is_not_repeated(memory: Memory, launcher: Launcher) -> None:
    begun = cut_off(memory, launcher, count=2, minimum=2)
    memory[HERE].machines = [member(n, launch_id=begun.launch_id) for n in (1, 2)]
    made = launcher.ensure(LaunchRequest(ONE, "key", count=2, minimum=2))
    assert [each.id for each in made] == ["i-1", "i-2"]
    assert orders(memory) == []


def test_the_only_machine_of_a_launch_is_not_asked_for_again(memory: Memory, launcher: Launcher) -> None:
    begun = cut_off(memory, launcher)
    memory[HERE].machines = [machine("t4-train", launch_id=begun.launch_id, profile_digest=ONE.profile_sha256)]
    launcher.ensure(LaunchRequest(ONE, "key"))
    assert orders(memory) == []


def test_a_request_of_which_one_machine_is_missing_is_repeated_as_it_was(memory: Memory, launcher: Launcher) -> None:
    begun = cut_off(memory, launcher, count=2, minimum=2)
    pair = [member(n, launch_id=begun.launch_id) for n in (1, 2)]
    memory[HERE].machines, memory[HERE].launches = pair[:1], [pair]
    launcher.ensure(LaunchRequest(ONE, "key", count=2, minimum=2))
    (order,) = orders(memory)
    assert (order.first, order.count, order.minimum) == (1, 2, 2)


def test_a_later_request_is_repeated_with_its_own_numbers(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [[member(1, count=3)], NONE_LEFT]
    memory[THERE].launches = [NO_ANSWER]
    with pytest.raises(CloudUnreachableError):
        launcher.ensure(LaunchRequest(BOTH, "key", count=3, minimum=1))
    begun = record(launcher)
    assert begun.pending == Pending(0, "ap-east-1", "", 2, 2, 1)
    plain: dict[str, Any] = {"count": 3, "launch_id": begun.launch_id, "profile_digest": BOTH.profile_sha256}
    others = [member(n, region="ap-east-1", **plain) for n in (2, 3)]
    memory[HERE].machines, memory[THERE].machines = [member(1, **plain)], others
    memory[THERE].asked.clear()
    launcher.ensure(LaunchRequest(BOTH, "key", count=3, minimum=1))
    assert orders(memory, THERE) == []
    launcher.journal.put(replace(begun, machines=record(launcher).machines))
    memory[THERE].machines, memory[THERE].launches = others[:1], [others]
    launcher.ensure(LaunchRequest(BOTH, "key", count=3, minimum=1))
    assert [(order.first, order.count) for order in orders(memory, THERE)] == [(2, 2)]


def test_a_request_at_a_place_that_is_refused_now_is_not_repeated(memory: Memory, launcher: Launcher) -> None:
    """Its machines are found by their tags all the same."""
    made = planned(AWS, limit=0.6)  # within it in us-east-1 alone
    begun = cut_off(memory, launcher, made)
    launcher.journal.put(replace(begun, pending=Pending(0, "ap-east-1", "", 1, 1, 1), touched=(THERE,)))
    memory[HERE].launches = [[machine("t4-train")]]
    launcher.ensure(LaunchRequest(made, "key"))
    assert orders(memory, THERE) == []
    assert len(orders(memory)) == 1


def test_a_repeated_request_that_made_nothing_is_followed_by_the_places_in_their_order(memory: Memory, launcher: Launcher) -> None:
    cut_off(memory, launcher, BOTH)
    memory[HERE].launches = [NONE_LEFT]
    memory[THERE].launches = [[machine("t4-train", region="ap-east-1")]]
    assert [each.region for each in launcher.ensure(LaunchRequest(BOTH, "key"))] == ["ap-east-1"]
    assert "it made no machine: trying the places in their order" in memory.said


# --- machines that were confirmed and are not seen ----------------------------------------------------------------------


def complete(memory: Memory, launcher: Launcher) -> Record:
    memory[HERE].launches = [[machine("t4-train", id="i-ours")]]
    launcher.ensure(LaunchRequest(ONE, "key"))
    memory[HERE].asked.clear()
    return record(launcher)


def test_where_its_request_finds_none_the_rest_is_removed_and_another_launch_begins(memory: Memory, launcher: Launcher) -> None:
    before = complete(memory, launcher)
    memory[HERE].left = [
        thing("group", "t4-train", launch_id=before.launch_id),
        thing("group", "t4-train", launch_id="hers", id="not-ours"),
    ]
    memory[HERE].launches = [[], [machine("t4-train", id="i-new")]]
    assert [each.id for each in launcher.ensure(LaunchRequest(ONE, "key"))] == ["i-new"]
    first, second = orders(memory)
    assert (first.launch_id == before.launch_id, second.launch_id == before.launch_id) == (True, False)
    assert record(launcher).launch_id == second.launch_id
    assert [removed for method, removed in memory[HERE].asked if method == "remove"] == [["group-t4-train"]]


def test_a_machine_that_a_cloud_lists_as_ended_is_not_waited_for(memory: Memory, launcher: Launcher) -> None:
    before = complete(memory, launcher)
    memory[HERE].left = [thing("instance", "t4-train", id="i-ours", launch_id=before.launch_id, alive=False)]
    memory[HERE].launches = [[machine("t4-train", id="i-new")]]
    assert [each.id for each in launcher.ensure(LaunchRequest(ONE, "key"))] == ["i-new"]
    assert [order.launch_id == before.launch_id for order in orders(memory)] == [False]


def test_an_ended_machine_of_another_name_says_nothing_about_ours(memory: Memory, launcher: Launcher) -> None:
    before = complete(memory, launcher)
    memory[HERE].left = [thing("instance", "hers", id="i-ours", alive=False)]
    memory[HERE].launches = [[machine("t4-train", id="i-ours")]]
    launcher.ensure(LaunchRequest(ONE, "key"))
    assert [order.launch_id for order in orders(memory)] == [before.launch_id]


def test_machines_that_are_old_and_not_seen_have_ended(memory: Memory, launcher: Launcher) -> None:
    before = complete(memory, launcher)
    long_ago = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=11)).isoformat()
    launcher.journal.put(replace(before, created_at=long_ago))
    memory[HERE].launches = [[machine("t4-train", id="i-new")]]
    launcher.ensure(LaunchRequest(ONE, "key"))
    assert [order.launch_id == before.launch_id for order in orders(memory)] == [False]


# --- machines of which a list shows a part ------------------------------------------------------------------------------


def three(memory: Memory, launcher: Launcher, *, age: dt.timedelta = dt.timedelta(0)) -> list[base.Instance]:
    """A launch of three machines, with the first of them not in the cloud's list."""
    memory[HERE].launches = [[member(n, count=3) for n in (1, 2, 3)]]
    launcher.ensure(LaunchRequest(ONE, "key", count=3, minimum=3))
    launcher.journal.put(replace(record(launcher), created_at=(dt.datetime.now(dt.UTC) - age).isoformat()))
    every = [member(n, count=3, launch_id=record(launcher).launch_id) for n in (1, 2, 3)]
    memory[HERE].machines = every[1:]
    memory[HERE].asked.clear()
    return every


@pytest.mark.parametrize(
    ("age", "listed"), [(dt.timedelta(0), False), (dt.timedelta(0), True), (dt.timedelta(days=2), True)], ids=["young", "listed", "old"]
)
def test_machines_of_which_a_list_shows_a_part_are_waited_for(
    memory: Memory,
    launcher: Launcher,
    age: dt.timedelta,
    listed: bool,  # noqa: FBT001
) -> None:
    """Another machine in the place of one that is not shown yet would be one too many."""
    every = three(memory, launcher, age=age)
    memory[HERE].left = [thing("instance", "t4-train", id="i-1", launch_id=every[0].launch_id)] if listed else []
    find, looks = memory[HERE].find, []

    def late(name: str | None = None) -> list[base.Instance]:
        looks.append(name)
        memory[HERE].machines = every[1:] if len(looks) < 3 else every
        return find(name)

    memory[HERE].find = late  # type: ignore[method-assign]
    patient = replace(launcher, patience=replace(launcher.patience, shown_s=30.0))
    assert [each.id for each in patient.ensure(LaunchRequest(ONE, "key", count=3, minimum=3))] == ["i-1", "i-2", "i-3"]
    assert orders(memory) == []
    assert "not in sight yet, waiting up to 30 s: i-1" in memory.said


@pytest.mark.parametrize(("age", "ended"), [(dt.timedelta(0), True), (dt.timedelta(minutes=11), True), (dt.timedelta(minutes=11), False)])
def test_a_machine_of_several_that_has_ended_is_replaced_at_once(
    memory: Memory,
    launcher: Launcher,
    age: dt.timedelta,
    ended: bool,  # noqa: FBT001
) -> None:
    every = three(memory, launcher, age=age)
    memory[HERE].left = [thing("instance", "t4-train", id="i-1", launch_id=every[0].launch_id, alive=False)] if ended else []
    memory[HERE].launches = [[member(4, count=3, launch_id=every[0].launch_id)]]
    patient = replace(launcher, patience=replace(launcher.patience, shown_s=30.0))
    assert [each.id for each in patient.ensure(LaunchRequest(ONE, "key", count=3, minimum=3))] == ["i-2", "i-3", "i-4"]
    assert [(order.first, order.count) for order in orders(memory)] == [(4, 1)]
    assert not any("in sight" in each for each in memory.said)


# --- what an earlier run wrote down -------------------------------------------------------------------------------------


def test_a_run_that_needs_fewer_machines_writes_down_that_it_does(memory: Memory, launcher: Launcher) -> None:
    pair = [member(n) for n in (1, 2)]
    memory[HERE].launches = [pair]
    launcher.ensure(LaunchRequest(ONE, "key", count=2, minimum=2))
    memory[HERE].machines = [member(n, launch_id=record(launcher).launch_id) for n in (1, 2)]
    launcher.ensure(LaunchRequest(ONE, "key", count=2, minimum=1))
    assert record(launcher).minimum == 1


def test_a_launch_with_machines_goes_on_although_no_place_can_be_used_any_more(memory: Memory, launcher: Launcher) -> None:
    before = complete(memory, launcher)
    memory[HERE].machines = [machine("t4-train", launch_id=before.launch_id, profile_digest=before.profile_digest)]
    dear = replace(ONE, places=planned({**AWS, "regions": ["us-east-1"]}, limit=0.1).places)
    assert len(launcher.ensure(LaunchRequest(dear, "key"))) == 1
    launcher.journal.drop("t4-train")
    with pytest.raises(PriceOverLimitError, match="no place of profile t4-train can be launched in"):
        launcher.ensure(LaunchRequest(dear, "key"))


def test_machines_are_looked_for_where_the_record_says_too(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches, memory[THERE].launches = [NONE_LEFT], [[machine("t4-train", region="ap-east-1")]]
    launcher.ensure(LaunchRequest(BOTH, "key"))
    there = machine("t4-train", region="ap-east-1", launch_id=record(launcher).launch_id, profile_digest=ONE.profile_sha256)
    memory[THERE].machines = [there]
    assert launcher.ensure(LaunchRequest(ONE, "key")) == [there]  # whose only place is elsewhere


# --- machines of other names --------------------------------------------------------------------------------------------


def test_machines_of_other_names_are_neither_adopted_nor_an_obstacle(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].machines, memory[HERE].launches = [unrelated()], [[machine("t4-train")]]
    assert [each.name for each in launcher.ensure(LaunchRequest(ONE, "key"))] == ["t4-train"]
    ours = machine("t4-train", launch_id=record(launcher).launch_id, profile_digest=ONE.profile_sha256)
    memory[HERE].machines = [unrelated(), ours]
    assert launcher.ensure(LaunchRequest(ONE, "key")) == [ours]


def test_a_name_that_is_taken_is_explained_by_the_machines_of_that_name_alone(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].machines = [unrelated()]
    memory[HERE].fails["launch"] = NameTakenError("'t4-train' belongs to launch beef", hint="wait")
    with pytest.raises(NameTakenError, match="belongs to launch beef"):
        launcher.ensure(LaunchRequest(ONE, "key"))

"""Whose a name is: what a launch does when machines, or the claim, of another launch have its name. Clouds in memory, both of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.errors import CapacityError, CloudUnreachableError, NameTakenError
from provision.launch.attempts import LaunchRequest
from provision.launch.launcher import Launcher
from provision.structs import replace
from tests.launch.memory import Memory, machine, thing
from tests.launch.test_plan import AWS, GCP, planned

PAIRS = {"aws": ("aws", "us-east-1"), "gcp": ("gcp", "asia-east2")}
PLANS = {"aws": planned({**AWS, "regions": ["us-east-1"]}), "gcp": planned({**GCP, "zones": ["asia-east2-a"]})}
THEIRS, LATER = "2026-11-20T08:00:00+00:00", "2026-11-22T08:00:00+00:00"
TAKEN = NameTakenError("'t4-train' belongs to launch beef", hint="wait")
pytestmark = pytest.mark.parametrize("cloud", ["aws", "gcp"])


def ensure(launcher: Launcher, cloud: str, **more: Any) -> list[base.Instance]:
    return launcher.ensure(LaunchRequest(PLANS[cloud], "key", **more))


def of(cloud: str, **changes: Any) -> base.Instance:
    """A machine of that name in that cloud, of the profile."""
    region = PAIRS[cloud][1]
    plain = {"cloud": cloud, "region": region, "profile_digest": PLANS[cloud].profile_sha256}
    return machine(changes.pop("name", "t4-train"), **{**plain, **changes})


def theirs(cloud: str, **changes: Any) -> base.Instance:
    return of(cloud, **{"id": "i-theirs", "launch_id": "beef", "launched_at": THEIRS, "owner": "her@example.org", **changes})


def listed(cloud: str) -> str:
    return f"i-theirs in {PAIRS[cloud][1]}, running since {THEIRS}, of her@example.org"


def launched(memory: Memory, launcher: Launcher, cloud: str) -> base.Instance:
    """A launch of ours that is complete."""
    memory[PAIRS[cloud]].launches = [[of(cloud, id="i-ours")]]
    ensure(launcher, cloud)
    record = launcher.journal.get("t4-train")
    assert record is not None
    memory[PAIRS[cloud]].asked.clear()
    return of(cloud, id="i-ours", launch_id=record.launch_id)


def begun(memory: Memory, launcher: Launcher, cloud: str) -> str:
    """A launch of ours that was cut off before it had a machine; its id."""
    memory[PAIRS[cloud]].launches = [CloudUnreachableError("no answer", hint="x")]
    with pytest.raises(CloudUnreachableError):
        ensure(launcher, cloud)
    record = launcher.journal.get("t4-train")
    assert record is not None
    memory[PAIRS[cloud]].asked.clear()
    return record.launch_id


# --- machines that are not of this launch ------------------------------------------------------------------------------


@pytest.mark.parametrize("since", [THEIRS, LATER])
def test_beside_machines_of_ours_they_are_an_error_on_every_run_and_nothing_is_touched(
    memory: Memory, launcher: Launcher, cloud: str, since: str
) -> None:
    ours = launched(memory, launcher, cloud)
    memory[PAIRS[cloud]].machines = [ours, theirs(cloud, launched_at=since)]
    for _ in range(2):
        with pytest.raises(NameTakenError) as caught:
            ensure(launcher, cloud)
        assert caught.value.message == f"'t4-train' is also the name of a machine of another launch: {listed(cloud)}".replace(THEIRS, since)
        assert caught.value.hint == "ask for their removal, or `gpuprov down t4-train` removes everything of that name, yours too"
    assert set(memory[PAIRS[cloud]].methods()) == {"find"}
    assert launcher.journal.get("t4-train") is not None
    memory[PAIRS[cloud]].machines = [ours]
    assert ensure(launcher, cloud) == [ours]


def test_without_a_record_they_are_neither_adopted_nor_launched_beside(memory: Memory, launcher: Launcher, cloud: str) -> None:
    memory[PAIRS[cloud]].machines = [theirs(cloud)]
    with pytest.raises(NameTakenError) as caught:
        ensure(launcher, cloud)
    assert listed(cloud) in caught.value.message
    assert caught.value.hint == "choose another --name; if nobody needs them, `gpuprov down t4-train` removes them and frees the name"
    assert memory[PAIRS[cloud]].methods() == ["find"]
    assert launcher.journal.get("t4-train") is None


def test_where_the_record_is_lost_the_log_tells_which_launch_is_ours(memory: Memory, launcher: Launcher, cloud: str) -> None:
    ours = launched(memory, launcher, cloud)
    launcher.journal.drop("t4-train")
    memory[PAIRS[cloud]].machines = [ours]
    assert ensure(launcher, cloud) == [ours]
    launcher.journal.drop("t4-train")
    memory[PAIRS[cloud]].machines = [theirs(cloud), ours]
    with pytest.raises(NameTakenError, match="i-theirs") as caught:
        ensure(launcher, cloud)
    assert "i-ours" not in caught.value.message
    assert "yours too" in caught.value.hint


def test_an_attempt_of_ours_that_was_cut_off_is_cleared_away_and_forgotten(memory: Memory, launcher: Launcher, cloud: str) -> None:
    launch_id = begun(memory, launcher, cloud)
    memory[PAIRS[cloud]].machines = [theirs(cloud)]
    memory[PAIRS[cloud]].left = [thing("group", "t4-train", launch_id=launch_id), thing("instance", "t4-train", launch_id="beef")]
    with pytest.raises(NameTakenError, match="i-theirs"):
        ensure(launcher, cloud)
    assert [argument for method, argument in memory[PAIRS[cloud]].asked if method == "remove"] == [["group-t4-train"]]
    assert "launch" not in memory[PAIRS[cloud]].methods()
    assert launcher.journal.get("t4-train") is None


def test_a_complete_launch_whose_machines_are_not_visible_is_not_forgotten(memory: Memory, launcher: Launcher, cloud: str) -> None:
    launched(memory, launcher, cloud)
    memory[PAIRS[cloud]].machines = [theirs(cloud)]
    with pytest.raises(NameTakenError, match="i-theirs"):
        ensure(launcher, cloud)
    assert memory[PAIRS[cloud]].methods() == ["find"]
    assert launcher.journal.get("t4-train") is not None


# --- a claim of another launch -----------------------------------------------------------------------------------------


def test_the_loser_leaves_nothing_has_a_row_and_is_told_of_the_machines(memory: Memory, launcher: Launcher, cloud: str) -> None:
    handle = memory[PAIRS[cloud]]

    def launch(order: base.Order) -> list[base.Instance]:
        handle.machines = [theirs(cloud)]  # the other launch has its machine a moment later
        handle.left = [thing("rule", "t4-train", launch_id=order.launch_id), thing("claim", "t4-train", launch_id="beef")]
        raise TAKEN

    handle.launch = launch  # type: ignore[method-assign]
    with pytest.raises(NameTakenError) as caught:
        ensure(launcher, cloud)
    assert listed(cloud) in caught.value.message
    assert [argument for method, argument in handle.asked if method == "remove"] == [["rule-t4-train"]]
    assert [(row.outcome, row.detail) for row in launcher.attempts] == [("name-taken", TAKEN.message)]
    assert launcher.journal.get("t4-train") is None


@pytest.mark.parametrize("answers", [True, False])
def test_a_claim_without_machines_is_told_as_the_cloud_tells_it(
    memory: Memory,
    launcher: Launcher,
    cloud: str,
    answers: bool,  # noqa: FBT001 - a table
) -> None:
    handle = memory[PAIRS[cloud]]
    taken = NameTakenError("'t4-train' belongs to launch beef", hint="wait")

    def launch(order: base.Order) -> list[base.Instance]:  # noqa: ARG001 - as the cloud has it
        if not answers:
            handle.fails["find"] = CloudUnreachableError("no answer", hint="x")
        raise taken

    handle.launch = launch  # type: ignore[method-assign]
    with pytest.raises(NameTakenError) as caught:
        ensure(launcher, cloud)
    assert (caught.value.message, caught.value.hint) == ("'t4-train' belongs to launch beef", "wait")


# --- after a launch ----------------------------------------------------------------------------------------------------


def make_both(memory: Memory, cloud: str, *, since: str) -> None:
    """The launch succeeds, and afterwards the lists show a machine of another launch as well."""
    handle = memory[PAIRS[cloud]]

    def launch(order: base.Order) -> list[base.Instance]:
        ours = of(cloud, id="i-ours", launch_id=order.launch_id)
        handle.machines = [theirs(cloud, launched_at=since), ours]
        handle.left = [thing("instance", "t4-train", launch_id=order.launch_id), thing("claim", "t4-train", launch_id="beef")]
        return [ours]

    handle.launch = launch  # type: ignore[method-assign]


def test_an_older_launch_that_shows_itself_late_keeps_the_name_and_ours_is_removed(memory: Memory, launcher: Launcher, cloud: str) -> None:
    make_both(memory, cloud, since=THEIRS)
    with pytest.raises(NameTakenError) as caught:
        ensure(launcher, cloud)
    assert listed(cloud) in caught.value.message
    assert "choose another --name" in caught.value.hint
    assert [argument for method, argument in memory[PAIRS[cloud]].asked if method == "remove"] == [["instance-t4-train"]]
    assert launcher.journal.get("t4-train") is None


def test_a_later_launch_that_shows_itself_is_an_error_and_ours_stays(memory: Memory, launcher: Launcher, cloud: str) -> None:
    make_both(memory, cloud, since=LATER)
    with pytest.raises(NameTakenError, match="i-theirs") as caught:
        ensure(launcher, cloud)
    assert "yours too" in caught.value.hint
    assert "remove" not in memory[PAIRS[cloud]].methods()
    record = launcher.journal.get("t4-train")
    assert record is not None
    assert [each.id for each in record.machines] == ["i-ours"]


def test_machines_in_use_outlive_a_refill_beside_an_older_launch(memory: Memory, launcher: Launcher, cloud: str) -> None:
    pair = [of(cloud, name=f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=2) for n in (1, 2)]
    handle = memory[PAIRS[cloud]]
    handle.launches = [pair]
    ensure(launcher, cloud, count=2, minimum=2)
    record = launcher.journal.get("t4-train")
    assert record is not None
    first = of(cloud, name="t4-train-1", group="t4-train", id="i-1", count=2, launch_id=record.launch_id)
    handle.machines = [first]

    def launch(order: base.Order) -> list[base.Instance]:
        second = of(cloud, name="t4-train-2", group="t4-train", id="i-3", count=2, launch_id=order.launch_id)
        handle.machines = [first, second, theirs(cloud)]
        handle.left = [thing("instance", "t4-train", launch_id=order.launch_id)]
        return [second]

    handle.launch = launch  # type: ignore[method-assign]
    launcher.attempts.clear()
    with pytest.raises(NameTakenError, match="i-theirs"):
        ensure(launcher, cloud, count=2, minimum=2)
    assert "remove" not in handle.methods()
    assert launcher.journal.get("t4-train") is not None


def test_a_machine_that_ends_again_and_again_is_replaced_each_time(memory: Memory, launcher: Launcher, cloud: str) -> None:
    """A cloud answers a request that it knows with the machine that it made then, which has ended."""
    handle = memory[PAIRS[cloud]]
    answered: dict[str, base.Instance] = {}

    def launch(order: base.Order) -> list[base.Instance]:
        handle.asked.append(("launch", order))
        token, names = order.token(handle.region), [f"t4-train-{order.first + n}" for n in range(order.count)]
        if token in answered:
            return [replace(answered[token], state="terminated")]
        made = [of(cloud, name=n, group="t4-train", id=f"i-{len(answered)}-{n}", count=2, launch_id=order.launch_id) for n in names]
        answered[token] = made[-1]
        return made

    handle.launch = launch  # type: ignore[method-assign]
    handle.zone_names = ["the-only-zone"]
    seen = set()
    for _ in range(6):
        first, last = ensure(launcher, cloud, count=2, minimum=2)
        seen.add(last.id)
        handle.machines = [first]  # the other one ends
    assert len(seen) == 6
    tokens = [order.token(handle.region) for method, order in handle.asked if method == "launch"]
    assert len(tokens) < 30


def test_a_refill_that_finds_the_name_claimed_leaves_the_machines_in_use(memory: Memory, launcher: Launcher, cloud: str) -> None:
    handle = memory[PAIRS[cloud]]
    handle.launches = [[of(cloud, name=f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=2) for n in (1, 2)]]
    ensure(launcher, cloud, count=2, minimum=2)
    record = launcher.journal.get("t4-train")
    assert record is not None
    handle.machines = [of(cloud, name="t4-train-1", group="t4-train", id="i-1", count=2, launch_id=record.launch_id)]
    handle.left = [thing("instance", "t4-train", launch_id=record.launch_id)]
    handle.fails["launch"] = TAKEN
    with pytest.raises(NameTakenError):
        ensure(launcher, cloud, count=2, minimum=2)
    assert "remove" not in handle.methods()
    assert launcher.journal.get("t4-train") is not None


def test_a_round_that_had_no_capacity_gives_the_name_back(memory: Memory, launcher: Launcher, cloud: str) -> None:
    handle = memory[PAIRS[cloud]]
    handle.launches = [CapacityError("none left", hint="x")]
    with pytest.raises(CapacityError):
        ensure(launcher, cloud)
    assert handle.methods()[-1] == "things"
    assert launcher.journal.get("t4-train") is None


# --- machines of ours that no cloud lists ------------------------------------------------------------------------------


def ordered(memory: Memory, cloud: str) -> list[str]:
    """The launch ids of the orders since the calls were forgotten."""
    return [order.launch_id for method, order in memory[PAIRS[cloud]].asked if method == "launch"]


def ended(cloud: str, launch_id: str, **changes: Any) -> base.Thing:
    return thing("instance", "t4-train", **{"id": "i-ours", "launch_id": launch_id, "where": PAIRS[cloud][1], "alive": False, **changes})


def age(launcher: Launcher, minutes: int) -> None:
    created = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes)).isoformat()
    launcher.journal.update("t4-train", lambda record: replace(record, created_at=created))


@pytest.mark.parametrize("minutes", [0, 9])
def test_new_machines_that_are_not_listed_yet_are_asked_for_under_their_token(
    memory: Memory, launcher: Launcher, cloud: str, minutes: int
) -> None:
    ours = launched(memory, launcher, cloud)
    age(launcher, minutes)
    memory[PAIRS[cloud]].left = [ended(cloud, ours.launch_id, alive=True), ended(cloud, "beef", id="i-theirs")]
    assert ensure(launcher, cloud) == [of(cloud, id="i-ours")]
    assert ordered(memory, cloud) == [ours.launch_id]
    assert "remove" not in memory[PAIRS[cloud]].methods()


def test_machines_that_ended_or_that_no_cloud_lists_after_a_while_make_room_for_another_launch(
    memory: Memory, launcher: Launcher, cloud: str
) -> None:
    for minutes, left in ((0, [ended]), (11, [])):
        ours = launched(memory, launcher, cloud)
        age(launcher, minutes)
        memory[PAIRS[cloud]].left = [make(cloud, ours.launch_id) for make in left]
        ensure(launcher, cloud)
        (fresh,) = ordered(memory, cloud)
        assert fresh != ours.launch_id
        launcher.journal.drop("t4-train")


def test_a_region_that_does_not_answer_hides_no_end_of_another(memory: Memory, launcher: Launcher, cloud: str) -> None:
    ours = launched(memory, launcher, cloud)
    memory[PAIRS[cloud]].fails["things"] = CloudUnreachableError("no answer", hint="x")
    assert ensure(launcher, cloud) == [of(cloud, id="i-ours")]
    assert ordered(memory, cloud) == [ours.launch_id]


@pytest.mark.parametrize("rehearsal", [True, False])
def test_a_name_of_the_other_kind_of_cloud_is_refused_before_any_call(
    memory: Memory, launcher: Launcher, cloud: str, *, rehearsal: bool
) -> None:
    launched(memory, launcher, cloud)
    launcher.journal.update("t4-train", lambda record: replace(record, rehearsal=rehearsal))
    launcher.rehearsal = not rehearsal
    with pytest.raises(NameTakenError) as caught:
        ensure(launcher, cloud)
    assert caught.value.message == f"'t4-train' is already the name of an instance {'in the embedded cloud' if rehearsal else 'at a cloud'}"
    assert memory[PAIRS[cloud]].asked == []


def test_machines_are_told_in_the_order_of_their_numbers(memory: Memory, launcher: Launcher, cloud: str) -> None:
    names = [f"t4-train-{number}" for number in (10, 2, 1, 9, 3, 4, 5, 6, 7, 8)]
    memory[PAIRS[cloud]].launches = [[of(cloud, name=name, group="t4-train", id=name, count=10) for name in names]]
    made = ensure(launcher, cloud, count=10, minimum=10)
    assert [instance.name for instance in made] == [f"t4-train-{number}" for number in range(1, 11)]


def test_a_region_without_a_machine_that_cannot_be_cleared_stays_in_the_journal(memory: Memory, launcher: Launcher, cloud: str) -> None:
    regions = {"aws": ["us-east-1", "ap-east-1", "eu-west-1"], "gcp": ["asia-east2", "asia-east1", "us-central1"]}[cloud]
    places = {**AWS, "regions": regions} if cloud == "aws" else {**GCP, "zones": [f"{region}-a" for region in regions]}
    for region in regions[:2]:
        memory[cloud, region].launches = [CapacityError("none left", hint="x")]
        memory[cloud, region].fails["things"] = CloudUnreachableError("no answer", hint="x")
    memory[cloud, regions[2]].launches = [[of(cloud, region=regions[2])]]
    launcher.ensure(LaunchRequest(planned(places), "key"))
    record = launcher.journal.get("t4-train")
    assert record is not None
    assert record.touched == tuple((cloud, region) for region in regions)
    assert record.complete

"""What is ours at the clouds: each region asked once, and nothing taken for granted that did not answer."""

from __future__ import annotations

import datetime as dt

import pytest

from provision.clouds import base
from provision.clouds.base import NotSetUpError
from provision.errors import CloudUnreachableError, CredentialsExpiredError, CredentialsMissingError, ThrottledError
from provision.launch.journal import Record
from provision.launch.ours import of_another_launch, oldest_first
from provision.launch.patience import Patience
from tests.launch.memory import Memory, machine, thing

HERE, THERE = ("aws", "us-east-1"), ("aws", "eu-west-1")
GCP, GCP_TOO = ("gcp", "asia-east1"), ("gcp", "us-east1")
NO_ANSWER = CloudUnreachableError("no answer", hint="x")
NO_LOGIN = CredentialsMissingError("no credentials", hint="x")
NOT_SET_UP = NotSetUpError("nobody is logged in", hint="x")
NOT_ENABLED = ("aws", "ap-east-1")
RECORD = Record("train", "launch-train", False, {}, "0" * 64, dt.datetime.now(dt.UTC).isoformat(), dt.datetime.now(dt.UTC).isoformat())  # noqa: FBT003


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_a_region_has_one_cloud_object_in_a_run(memory: Memory) -> None:
    ours = memory.ours()
    first = ours.handle(HERE)
    memory[HERE] = memory[THERE]
    assert ours.handle(HERE) is first
    assert ours.handle(THERE) is not first


def test_a_cloud_that_sees_the_whole_project_is_asked_once(memory: Memory) -> None:
    ours = memory.ours()
    assert list(ours.once([THERE, GCP_TOO, HERE, GCP, HERE])) == [THERE, HERE, GCP]
    assert list(ours.once([("gcp", "us-east1")])) == [GCP_TOO]


def test_the_answer_of_a_region_that_fails_is_its_error(memory: Memory) -> None:
    memory[THERE].fails["find"] = NO_ANSWER
    memory[HERE].machines = [machine()]
    assert memory.ours().everywhere([HERE, THERE], lambda handle: handle.find()) == {HERE: [machine()], THERE: NO_ANSWER}
    # A defect of ours is not hidden.
    memory[HERE].fails["find"] = ValueError("ours")  # type: ignore[assignment]
    with pytest.raises(ValueError, match="ours"):
        memory.ours().everywhere([HERE], lambda handle: handle.find())


@pytest.mark.parametrize(
    ("state", "there"),
    [
        ("pending", True),
        ("running", True),
        ("stopping", True),
        ("stopped", True),
        ("shutting-down", False),
        ("terminated", False),
    ],
)
def test_machines_that_end_are_not_there(memory: Memory, state: base.State, there: bool) -> None:  # noqa: FBT001 - a table
    memory[HERE].machines = [machine(state=state)]
    assert bool(memory.ours().look("train", [HERE])) is there
    assert memory[HERE].asked == [("find", "train")]


def test_a_look_fails_where_a_region_does_not_answer(memory: Memory) -> None:
    """Machines may be there that would be launched again."""
    memory[HERE].machines = [machine()]
    memory[THERE].fails["find"] = NO_ANSWER
    with pytest.raises(CloudUnreachableError):
        memory.ours(Patience(throttled_s=0.0, unanswered=3, pause_s=0.0, round_s=0.0)).look("train", [HERE, THERE])
    assert memory[THERE].methods() == ["find"]  # the SDK has repeated it
    assert memory.said == []


def test_a_cloud_that_is_not_set_up_does_not_matter_when_another_answers(memory: Memory) -> None:
    memory[HERE].machines = [machine()]
    memory[GCP].fails["find"] = NOT_SET_UP
    assert memory.ours().look("train", [HERE, GCP]) == [machine()]
    with pytest.raises(NotSetUpError):  # the launch has tried it, so something of it may be there
        memory.ours().look("train", [HERE, GCP], {GCP_TOO})
    memory[HERE].fails["find"] = NO_LOGIN
    with pytest.raises(CredentialsMissingError):
        memory.ours().look("train", [HERE, GCP])
    memory[HERE].fails["find"] = CredentialsExpiredError("expired", hint="x")
    with pytest.raises(CredentialsExpiredError):
        memory.ours().look("train", [HERE, GCP])


def test_a_login_that_fails_hides_a_cloud_and_a_region_that_is_not_enabled_hides_nothing(memory: Memory) -> None:
    """Behind a login that fails a machine of the name may run; a region that refuses good credentials is not enabled and has none."""
    memory[HERE].machines = [machine()]
    memory[NOT_ENABLED].fails["find"] = NO_LOGIN
    assert memory.ours().look("train", [HERE, NOT_ENABLED]) == [machine()]
    memory[GCP].fails["find"] = NO_LOGIN
    with pytest.raises(CredentialsMissingError, match="no credentials"):
        memory.ours().look("train", [HERE, NOT_ENABLED, GCP])


def test_a_throttled_look_is_repeated_and_said(memory: Memory) -> None:
    slow = ThrottledError("slow down", hint="x")
    memory[HERE].fails["find"] = slow
    with pytest.raises(ThrottledError):
        memory.ours(Patience(throttled_s=0.02, unanswered=1, pause_s=0.01, round_s=0.0)).look("train", [HERE])
    assert memory[HERE].methods() == ["find", "find"]
    assert memory.said == ["looking for train in us-east-1: throttled, next try in 0.0 s"]


def test_the_oldest_launch_comes_first_and_its_machines_by_name() -> None:
    early, late = "2026-11-21T00:00:00+00:00", "2026-11-21T01:00:00+00:00"
    new = machine("n", launch_id="a", launched_at=late)
    ten, two = (machine(f"o-{n}", launch_id="z", launched_at=late) for n in (10, 2))
    one = machine("o-1", launch_id="z", launched_at=early)
    same = machine("s", launch_id="b", launched_at=late)
    assert [i.name for i in oldest_first([same, new, ten, two, one])] == ["o-1", "o-2", "o-10", "n", "s"]


def test_machines_of_another_launch_are_listed_up_to_twenty() -> None:
    others = [machine(id=f"i-{n}", state="stopped", owner="" if n else "isa@example.org") for n in range(21)]
    two = of_another_launch("train", others[:2], own=True)
    assert two.message == (
        "'train' is also the name of 2 machines of another launch: "
        "i-0 in us-east-1, stopped since 2026-11-21T00:00:00+00:00, of isa@example.org; "
        "i-1 in us-east-1, stopped since 2026-11-21T00:00:00+00:00, of an unknown owner"
    )
    many = of_another_launch("train", others, own=False).message
    assert "i-19 in" in many
    assert many.endswith("; and 1 more")
    assert of_another_launch("train", others[:20], own=False).message.endswith("of an unknown owner")


def test_clearing_takes_the_things_of_one_launch_in_those_regions(memory: Memory) -> None:
    mine, other = thing(), thing(id="other", launch_id="launch-other")
    for pair in (HERE, THERE):
        memory[pair].left = [mine, other, thing("volume", "elsewhere")]
    memory.ours().clear(RECORD, [HERE])
    assert memory[HERE].asked == [("things", "train"), ("remove", ["volume-train"])]
    assert memory[THERE].asked == []
    assert memory.said == []


def test_where_nothing_is_left_nothing_is_removed(memory: Memory) -> None:
    memory[HERE].left = [thing(launch_id="launch-other")]
    memory.ours().clear(RECORD, [HERE])
    assert memory[HERE].methods() == ["things"]


@pytest.mark.parametrize("method", ["things", "remove"])
def test_what_could_not_be_cleared_is_an_error(memory: Memory, method: str) -> None:
    memory[HERE].left = memory[THERE].left = [thing()]
    memory[THERE].fails[method] = NO_ANSWER
    with pytest.raises(CloudUnreachableError):
        memory.ours(Patience(throttled_s=0.0, unanswered=2, pause_s=0.001, round_s=0.0)).clear(RECORD, [HERE, THERE])
    assert "remove" in memory[HERE].methods()  # the others are cleared all the same
    assert memory.said == ["removing what is not needed in eu-west-1: no answer, next try in 0.0 s"]


def test_a_launch_is_as_old_as_its_oldest_machine() -> None:
    first, late = (machine(f"a-{n}", launch_id="a", launched_at=f"2026-11-2{day}T00:00:00+00:00") for n, day in ((1, 0), (2, 2)))
    between = machine("b", launch_id="b", launched_at="2026-11-21T00:00:00+00:00")
    for order in ([first, late, between], [late, first, between], [between, late, first]):
        assert oldest_first(order) == [first, late, between]

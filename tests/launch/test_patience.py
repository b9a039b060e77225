"""How often a call is repeated, and how long a launch waits, on a clock that only pauses move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import CapacityError, CloudInvalidError, CloudUnreachableError, QuotaExceededError, ThrottledError
from provision.launch.patience import PATIENT, Patience
from provision.structs import replace
from tests.clock import Clock, still

THROTTLED, UNANSWERED = ThrottledError("slow down", hint="x"), CloudUnreachableError("no answer", hint="x")
NO_CAPACITY = CapacityError("none left", hint="x")
# Pauses without chance in them.
EXACT = Patience(throttled_s=90.0, unanswered=3, pause_s=1.0, round_s=20.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("random.random", lambda: 0.0)
    return still(monkeypatch)


def failing(*errors: Exception) -> tuple[Callable[[], str], list[int]]:
    """A call that raises these in turn and then answers; and how often it was made."""
    made: list[int] = []

    def call() -> str:
        made.append(len(made))
        if len(made) <= len(errors):
            raise errors[len(made) - 1]
        return "done"

    return call, made


def answer_of(patience: Patience, call: Callable[[], Any], **more: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    return patience.ask(call, on_step=said.append, what="the call", **more), said


def test_an_answer_ends_it_at_once(clock: Clock) -> None:
    call, made = failing()
    assert answer_of(EXACT, call) == ("done", [])
    assert (made, clock.pauses) == ([0], [])


def test_a_throttled_call_is_repeated_with_pauses_that_double_up_to_twenty_seconds(clock: Clock) -> None:
    call, made = failing(*[THROTTLED] * 6)
    answer, said = answer_of(EXACT, call)
    assert answer == "done"
    assert (len(made), clock.pauses) == (7, [1, 2, 4, 8, 16, 20])
    assert said[:2] == ["the call: throttled, next try in 1.0 s", "the call: throttled, next try in 2.0 s"]


def test_a_throttled_call_is_given_up_before_the_pause_that_would_pass_the_limit(clock: Clock) -> None:
    call, made = failing(*[THROTTLED] * 99)
    with pytest.raises(ThrottledError, match="slow down"):
        answer_of(EXACT, call)
    assert clock.pauses == [1, 2, 4, 8, 16, 20, 20]  # 71 s, and 91 s with another
    just, _ = failing(*[THROTTLED] * 3)
    assert answer_of(replace(EXACT, throttled_s=7.0), just)[0] == "done"  # exactly at the limit
    short, _ = failing(*[THROTTLED] * 3)
    with pytest.raises(ThrottledError):
        answer_of(replace(EXACT, throttled_s=6.9), short)
    assert len(made) == 8


def test_a_call_without_an_answer_is_sent_three_times_in_all(clock: Clock) -> None:
    call, made = failing(UNANSWERED, UNANSWERED)
    answer, said = answer_of(EXACT, call)
    assert (answer, len(made), clock.pauses) == ("done", 3, [1, 2])
    assert said == ["the call: no answer, next try in 1.0 s", "the call: no answer, next try in 2.0 s"]
    call, made = failing(*[UNANSWERED] * 3)
    with pytest.raises(CloudUnreachableError):
        answer_of(EXACT, call)
    assert len(made) == 3


def test_a_call_that_the_sdk_has_repeated_is_not_repeated_again_unless_it_was_throttled(clock: Clock) -> None:
    call, made = failing(UNANSWERED)
    with pytest.raises(CloudUnreachableError):
        answer_of(EXACT, call, repeat_unanswered=False)
    assert (len(made), clock.pauses) == (1, [])
    call, made = failing(THROTTLED)
    assert answer_of(EXACT, call, repeat_unanswered=False)[0] == "done"


@pytest.mark.parametrize("error", [NO_CAPACITY, CloudInvalidError("wrong", hint="x"), ValueError("ours")])
def test_every_other_error_ends_it_at_once(clock: Clock, error: Exception) -> None:
    call, made = failing(error)
    with pytest.raises(type(error)):
        answer_of(EXACT, call)
    assert (len(made), clock.pauses) == (1, [])


def test_some_chance_keeps_clients_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = still(monkeypatch)
    monkeypatch.setattr("random.random", lambda: 1.0)
    answer_of(EXACT, failing(THROTTLED)[0])
    EXACT.rounds(failing(NO_CAPACITY)[0], for_s=60, on_step=lambda _: None)
    assert clock.pauses == [1.25, 22.0]


def rounds(call: Callable[[], str], for_s: float) -> tuple[str, list[str]]:
    said: list[str] = []
    return EXACT.rounds(call, for_s=for_s, on_step=said.append), said


def test_rounds_are_repeated_while_there_is_no_capacity_and_time_is_left(clock: Clock) -> None:
    call, made = failing(NO_CAPACITY, NO_CAPACITY)
    answer, said = rounds(call, 600)
    assert (answer, len(made), clock.pauses) == ("done", 3, [20, 30])
    assert said == ["no capacity anywhere; round 2 in 20 s (10 min left)", "no capacity anywhere; round 3 in 30 s (10 min left)"]


def test_no_round_begins_after_the_time(clock: Clock) -> None:
    call, made = failing(*[NO_CAPACITY] * 99)
    with pytest.raises(CapacityError):
        rounds(call, 100)
    assert (len(made), clock.pauses) == (4, [20, 30, 45])
    call, made = failing(NO_CAPACITY)
    with pytest.raises(CapacityError):
        rounds(call, 0.0)
    assert len(made) == 1


def test_the_pauses_between_rounds_grow_to_five_minutes(clock: Clock) -> None:
    rounds(failing(*[NO_CAPACITY] * 9)[0], 9999)
    assert clock.pauses[-2:] == [300, 300]


@pytest.mark.parametrize("error", [QuotaExceededError("none", hint="x"), UNANSWERED])
def test_waiting_helps_no_other_error(clock: Clock, error: Exception) -> None:
    call, made = failing(error)
    with pytest.raises(type(error)):
        rounds(call, 600)
    assert (len(made), clock.pauses) == (1, [])


def test_users_get_a_minute_and_a_half_for_throttling_and_three_tries() -> None:
    assert Patience() == PATIENT == EXACT

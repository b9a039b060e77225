"""What a launch in memory clears while it goes on, and what its rows, waits and errors say."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from provision.clouds import base
from provision.errors import CapacityError, CloudUnreachableError, QuotaExceededError, ThrottledError
from provision.launch.attempts import LaunchRequest
from provision.launch.launcher import Launcher
from provision.launch.patience import Patience
from tests.launch.memory import Memory, machine
from tests.launch.test_plan import AWS, GCP, planned

HERE, THERE, LAST, PROJECT = ("aws", "us-east-1"), ("aws", "ap-east-1"), ("aws", "eu-west-1"), ("gcp", "asia-east2")
NONE_LEFT = CapacityError("none left", hint="x")
NO_ANSWER = CloudUnreachableError("no answer", hint="x")
THREE = {**AWS, "regions": ["us-east-1", "ap-east-1", "eu-west-1"]}


def test_a_region_is_cleared_while_the_next_one_is_asked(memory: Memory, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    memory[HERE].launches = memory[THERE].launches = [NONE_LEFT]
    cleared = threading.Event()
    things = memory[THERE].things

    def clear(name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:  # noqa: ARG001
        cleared.set()
        return things(name)

    def launch(_: base.Order) -> list[base.Instance]:
        assert cleared.wait(10)
        return [machine("t4-train", region="eu-west-1")]

    monkeypatch.setattr(memory[THERE], "things", clear)
    monkeypatch.setattr(memory[LAST], "launch", launch)
    launcher.ensure(LaunchRequest(planned(THREE), "key"))


@pytest.mark.parametrize(("limit", "cleared"), [(10.0, False), (1.0, True)])
def test_a_region_is_cleared_in_between_unless_a_later_place_that_may_be_asked_needs_it(
    memory: Memory, launcher: Launcher, limit: float, *, cleared: bool
) -> None:
    """In ap-east-1 the larger machine is above the lower limit. What is left after an answer that never came is not cleared at the end."""
    larger = {**AWS, "instance_type": "g4dn.8xlarge", "regions": ["ap-east-1"]}
    memory[HERE].launches, memory[LAST].launches = [NONE_LEFT], [NO_ANSWER]
    memory[THERE].launches = [NONE_LEFT, NO_ANSWER]
    with pytest.raises(CloudUnreachableError):
        launcher.ensure(LaunchRequest(planned(AWS, larger, {**AWS, "regions": ["eu-west-1"]}, limit=limit), "key"))
    assert ("things" in memory[THERE].methods()) is cleared


def test_a_region_with_a_machine_is_not_called_one_without(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches, memory[LAST].launches = [NONE_LEFT], [NO_ANSWER]
    memory[THERE].launches = [[machine("t4-train-1", group="t4-train", region="ap-east-1", count=2)], NONE_LEFT]
    with pytest.raises(CloudUnreachableError):
        launcher.ensure(LaunchRequest(planned(THREE), "key", count=2, minimum=1))
    assert [line for line in memory.said if "no machine" in line] == ["us-east-1: no machine, trying the next place"]
    assert "things" not in memory[THERE].methods()


def test_a_project_whose_claim_does_not_keep_the_name_is_cleared(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = memory[PROJECT].launches = [NONE_LEFT]
    memory[LAST].launches = [[machine("t4-train", region="eu-west-1")]]
    places = ({**AWS, "regions": ["us-east-1"]}, {**GCP, "zones": ["asia-east2-a"]}, {**AWS, "regions": ["eu-west-1"]})
    launcher.ensure(LaunchRequest(planned(*places), "key"))
    assert "things" in memory[PROJECT].methods()
    assert "things" not in memory[HERE].methods()


def test_without_quota_anywhere_the_last_answer_is_told(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [QuotaExceededError("too small", hint="first", detail="a")]
    memory[THERE].launches = [QuotaExceededError("too small", hint="last", detail="b")]
    with pytest.raises(QuotaExceededError) as caught:
        launcher.ensure(LaunchRequest(planned(AWS), "key"))
    assert (caught.value.hint, caught.value.detail) == ("last", "b")


def test_a_row_has_the_seconds_from_the_call_to_its_answer(memory: Memory, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(100, 2)
    monkeypatch.setattr("provision.launch.attempts.time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    memory[HERE].launches, memory[THERE].launches = [NONE_LEFT], [[machine("t4-train", region="ap-east-1")]]
    launcher.ensure(LaunchRequest(planned(AWS), "key"))
    assert [(attempt.outcome, attempt.seconds) for attempt in launcher.attempts] == [("no-capacity", 2.0), ("launched", 2.0)]


@pytest.mark.parametrize("zone", ["", "us-east-1c"])
def test_a_throttled_request_is_repeated_and_said_to_be(memory: Memory, launcher: Launcher, zone: str) -> None:
    launcher.patience = Patience(throttled_s=60.0, unanswered=1, pause_s=0.001, round_s=0.0)
    answers: list[Any] = [ThrottledError("slow down", hint="x"), [machine("t4-train")]]
    memory[HERE].launches, memory[HERE].zone_names = ([NONE_LEFT] if zone else []) + answers, [zone]
    launcher.ensure(LaunchRequest(planned(AWS), "key"))
    assert f"g4dn.xlarge in {zone or 'us-east-1'}: throttled, next try in 0.0 s" in memory.said

"""Which roles a set-up runs; on hosts: tests/converge and tests/test_story.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.profile import load, lockfile
from provision.profile.stack import OwnPython
from provision.structs import replace
from provision.verify import judge
from provision.verify.facts import parse
from provision.verify.finding import Report
from provision.workflow import setup
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest
from tests.verify.good import GOOD

PROFILE = load.load(load.find("t4-train"))
LOCK = lockfile.read(Path("profiles/t4-train.lock.yml"))
REQUEST = SetupRequest(Target("x", "x"), PROFILE, LOCK, without_gpu=True)


def report(**changes: object) -> Report:
    raw = {key: {"value": value} for key, value in {**GOOD, **changes}.items()}
    facts = parse({"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}, "x")
    return judge.judge(facts, PROFILE)


def test_the_roles_of_the_request_come_before_all_and_all_before_those_that_checks_ask_for() -> None:
    some = report(tool_tmux={"found": None})
    assert setup.needed_roles(replace(REQUEST, roles=("counters",), all_roles=True), some) == ("counters",)
    everything = setup.needed_roles(replace(REQUEST, all_roles=True), some)
    assert {"preflight", "packages", "base"} <= set(everything)
    asked_for = setup.needed_roles(REQUEST, some)
    assert asked_for
    assert set(asked_for) < set(everything)


def test_nothing_is_installed_into_an_images_own_environment() -> None:
    stack = PROFILE.stack.model_copy(update={"python": OwnPython(prefix="/opt/pytorch")})
    image = replace(REQUEST, profile=PROFILE.model_copy(update={"stack": stack}), without_gpu=False)
    absent = report(pytorch={"found": None})
    assert "pytorch" in setup.needed_roles(REQUEST, absent)
    assert "pytorch" not in setup.needed_roles(image, absent)


def test_a_host_where_all_holds_is_observed_once_and_left_alone(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    looks: list[SetupRequest] = []
    good = replace(report(), findings=())

    def observe(request: SetupRequest, *_: object) -> Report:
        looks.append(request)
        return good

    monkeypatch.setattr(setup, "observe", observe)
    steps: list[str] = []
    result = setup.set_up(Session.open(), REQUEST, say=steps.append, on_task=lambda _: None)
    assert (result.report, result.roles, result.artefacts, len(looks)) == (good, (), None, 1)
    assert steps == ["observing the host", "nothing to set up"]
    assert not (own_home / "runs").exists()


def test_a_host_that_cannot_be_observed_is_not_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(_request: SetupRequest, *_: object) -> Report:
        raise HostUnreachableError("gone", hint="")  # noqa: EM101

    monkeypatch.setattr(setup, "observe", observe)
    with pytest.raises(HostUnreachableError):
        setup.set_up(Session.open(), REQUEST, say=lambda _: None, on_task=lambda _: None)

"""A member that sets itself up says at which role and task that failed. The real set-up: tests/clouds/aws/test_member.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.converge.failed_member import FailedTask, failed_task
from provision.converge.onhost import prove
from provision.profile import load
from provision.profile.lockfile import path_for, read
from provision.verify.facts import parse
from provision.verify.judge import judge
from tests.verify.good import GOOD

# Stands in for the run of Ansible: it tells what `work.py` tells.
WORK = """
import pathlib
def main(folder, config):
    (pathlib.Path(folder) / "told").write_text((pathlib.Path(config) / "told").read_text())
"""
TASK = "Install the packages of this role"


class Played(prove.Expected):
    """A member of which what it observes is given."""

    def look(self, run: Path) -> Any:  # noqa: ARG002 - nothing is written there
        raw = {key: {"value": value} for key, value in {**GOOD, "tool_tmux": {"found": None}}.items()}
        facts = parse({"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}, "x")
        return facts, judge(facts, self.profile, host="this member", without_gpu=self.without_gpu)


class Bundle:
    """The folders of a bundle that was unpacked, and what its run of Ansible tells."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place, self.run, self.root = folder, folder / "place", folder / "run", folder / "root"
        work = self.place / "engine/provision/converge/onhost"
        for made in (work, self.place / "config", self.run, self.root):
            made.mkdir(parents=True)
        for path in (work, work.parent, work.parents[1]):
            (path / "__init__.py").touch()
        (work / "work.py").write_text(WORK)

    def prove(self, *told: dict[str, Any]) -> int:
        (self.place / "config/told").write_text("".join(json.dumps(line) + "\n" for line in told))
        path = load.find("t4-train")
        expected = Played(load.load(path), read(path_for(path)), False, ("packages", "base"), "ubuntu")  # noqa: FBT003
        return prove.prove(expected, self.place, self.root, self.run)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


def failed(task: str = TASK, role: str = "packages", **result: Any) -> dict[str, Any]:
    return {"event": "runner_on_failed", "event_data": {"role": role, "task": task, "res": {"msg": "it failed", **result}}}


def ended(code: int = 2, **more: Any) -> dict[str, Any]:
    return {"end": {"code": code, "output": "ERROR! no such play", **more}}


def test_a_task_that_fails_is_named_for_programs_and_in_the_last_line(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where its message has several lines, and those of checks that do not hold stand before it."""
    why = "E: Unable to locate package x\nE: and more\nlast words"
    assert bundle.prove(failed(stderr=why, msg="apt-get\nfailed"), ended()) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "gpuprov-facts/1"
    assert "fail: tmux" in err
    assert failed_task(err) == FailedTask("packages", TASK, "E: Unable to locate package x; E: and more; apt-get failed")
    assert err.splitlines()[-1] == f"role packages failed at “{TASK}”: E: Unable to locate package x; E: and more; apt-get failed"
    assert "Unable to locate package x" in err
    assert len(err[err.index("gpuprov-failed") :].encode()) < 2_000  # a member posts the last 4000 bytes


def test_a_task_whose_failure_was_taken_into_account_is_none(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    ignored = failed("Try it")
    ignored["event_data"]["ignore_errors"] = True
    bundle.prove(failed(), ignored, ended())
    found = failed_task(capsys.readouterr().err)
    assert found is not None
    assert found.task == TASK


@pytest.mark.parametrize(
    ("end", "says"), [(ended(4), "ansible-playbook ended with 4: ERROR! no such play"), (ended(0, reboot=True), "one more restart after 4")]
)
def test_a_run_that_ends_without_a_failed_task_says_how(
    bundle: Bundle, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, end: dict[str, Any], says: str
) -> None:
    monkeypatch.setattr(prove, "start_again", lambda _: None)  # it did so often enough
    assert bundle.prove(end) == 1
    err = capsys.readouterr().err
    found = failed_task(err)
    assert found is not None
    assert (found.role, found.task, says in found.why, says in err.splitlines()[-1]) == ("", "", True, True)


def test_where_all_tasks_ran_the_last_line_names_the_checks_that_do_not_hold(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert bundle.prove(ended(0)) == 1
    err = capsys.readouterr().err
    assert failed_task(err) is None
    assert err.splitlines()[-1] == "these checks do not pass: tmux fail"

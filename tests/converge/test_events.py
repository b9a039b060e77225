"""What a host says of its run, in whatever types it likes: it is taken as far as it is what Ansible says, and breaks nothing."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from provision.converge import there
from provision.converge.events import RunEvents
from provision.converge.progress import Progress
from provision.errors import PlaybookFailedError
from provision.host.ssh import LOCALHOST
from provision.host.talk import Talk


class Silent:
    """A session that is told nothing."""

    def send(self, _content: bytes) -> None:
        raise AssertionError


def conversation(tmp_path: Path) -> tuple[there._Conversation, list[Progress]]:
    story: list[Progress] = []
    run = RunEvents(LOCALHOST, tmp_path, story.append, diff=True)
    signed: Any = SimpleNamespace(bundle=SimpleNamespace(layers={}))
    return there._Conversation(LOCALHOST, signed, run, lambda _: None, {}), story


@pytest.mark.parametrize("names", [[{}], [[]], [None, 1.5, "x"]])
def test_what_a_host_asks_for_that_no_bundle_has_is_not_sent(tmp_path: Path, names: list[object]) -> None:
    heard, _ = conversation(tmp_path)
    heard._take(cast("Talk", Silent()), {"need": names})


@pytest.mark.parametrize(
    "result", [{"warnings": 1}, {"warnings": {"a": 1}}, {"warnings": "w"}, {"diff": 7}, {"msg": {"a": []}, "results": 5}]
)
@pytest.mark.parametrize("kind", ["runner_on_ok", "runner_on_failed", "runner_on_unreachable", "runner_on_skipped"])
def test_a_result_of_other_types_ends_a_task_and_not_the_run(tmp_path: Path, kind: str, result: dict[str, Any]) -> None:
    heard, story = conversation(tmp_path)
    heard._take(cast("Talk", Silent()), {"event": kind, "event_data": {"task": "t", "role": "preflight", "res": result}})
    assert [progress.task for progress in story] == ["t"]
    assert all(isinstance(warning, str) for warning in heard.run.result(()).warnings)


@pytest.mark.parametrize("duration", [10**400, math.inf, math.nan, -1, True, "9", None])
def test_a_time_that_is_none_is_no_time(tmp_path: Path, duration: object) -> None:
    heard, story = conversation(tmp_path)
    heard._take(cast("Talk", Silent()), {"event": "runner_on_ok", "event_data": {"task": "t", "duration": duration}})
    assert [progress.task_s for progress in story] == [0.0]


def test_what_ansible_printed_is_kept_whatever_it_is(tmp_path: Path) -> None:
    heard, _ = conversation(tmp_path)
    there._finish(LOCALHOST, heard.run, {"code": 0, "output": "a\ud800b"})
    assert (tmp_path / "stdout").read_text() == "a?b"
    with pytest.raises(PlaybookFailedError):
        there._finish(LOCALHOST, heard.run, {"code": 10**400, "output": "\ud800"})

"""What Ansible tells while it runs: each task is counted and passed on, and what goes wrong becomes one error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from provision.converge import failure
from provision.converge.progress import ConvergeResult, Progress, State
from provision.errors import GpuprovError
from provision.host.ssh import Target

_END_STATES: Final[Mapping[str, State]] = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_skipped": "skipped",
    "runner_on_unreachable": "unreachable",
}


class RunEvents:
    """The events of one run on one host.

    Args:
        target: the host.
        folder: where the artefacts are.
        on_progress: told when a task starts and ends; a KeyboardInterrupt from it sets `stopped`.
        diff: whether to put the changes into `Progress.diff`.
        stopped: ends the run.
    """

    def __init__(
        self, target: Target, folder: Path, on_progress: Callable[[Progress], None], *, diff: bool, stopped: threading.Event | None = None
    ) -> None:
        self.dir = folder
        self.target = target
        self.stopped = stopped or threading.Event()
        self._diff = diff
        self._on_progress = on_progress
        self._start = time.monotonic()
        self._tasks: dict[State, list[str]] = {state: [] for state in ("ok", "changed", "skipped", "failed", "unreachable")}
        self._failure: GpuprovError | None = None
        self._warnings: list[str] = []

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take one event of ansible-runner; True keeps it among the artefacts."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        task, role = str(data.get("task", "")), str(data.get("role") or "")
        if kind == "playbook_on_task_start":
            self._report(role, task, "started")
        elif kind in _END_STATES and not data.get("ignore_errors"):
            result = data.get("res") or {}
            state = "changed" if kind == "runner_on_ok" and result.get("changed") else _END_STATES[kind]
            if role == "preflight":
                warnings = result.get("warnings") or []  # a list, as Ansible has it; a host may say anything
                self._warnings += [str(warning) for warning in (warnings if isinstance(warnings, list) else [warnings])]
            self._tasks[state].append(f"{role}: {task}" if role else task)
            if state == "failed":
                self._failure = failure.failed_task(role, task, result, run_dir=str(self.dir))
            elif state == "unreachable":
                self._failure = failure.unreachable(self.target.name, task, result)
            self._report(role, task, state, task_s=float(data.get("duration") or 0.0), diff=_diff(result) if self._diff else "")
        return True

    def _report(self, role: str, task: str, state: State, *, task_s: float = 0.0, diff: str = "") -> None:
        try:
            self._on_progress(Progress(role, task, self.target.name, state, time.monotonic() - self._start, task_s, diff))
        except KeyboardInterrupt:
            self.stopped.set()

    @property
    def failed(self) -> bool:
        """Whether a task has failed, or the connection."""
        return self._failure is not None

    def raise_failure(self, exit_code: int, output: str) -> None:
        """Raise what went wrong, if anything did; `output` is what Ansible printed."""
        if self._failure is not None:
            raise self._failure
        if exit_code != 0:
            raise failure.failed_play(exit_code, output, run_dir=str(self.dir))

    def result(self, roles: tuple[str, ...]) -> ConvergeResult:
        """The totals."""
        return ConvergeResult(
            roles=roles,
            ok=len(self._tasks["ok"]),
            changed=len(self._tasks["changed"]),
            skipped=len(self._tasks["skipped"]),
            changed_tasks=tuple(self._tasks["changed"]),
            elapsed_s=time.monotonic() - self._start,
            run_dir=self.dir,
            warnings=tuple(dict.fromkeys(self._warnings)),
        )


def _diff(result: Mapping[str, Any]) -> str:
    """Ansible's description of a change, as text; the whole files before and after stay among the artefacts."""
    diffs = result.get("diff") or []
    entries = diffs if isinstance(diffs, list) else [diffs]
    return "\n".join(str(entry["prepared"]) for entry in entries if isinstance(entry, dict) and entry.get("prepared"))

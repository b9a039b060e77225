"""What a converge tells while it runs, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["started", "ok", "changed", "skipped", "failed", "unreachable"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One thing that happened to one task.

    Attributes:
        role: the role the task belongs to; empty for the play's own (reading the host's system).
        task: the task's name, a sentence.
        host: the host as the user called it.
        state: `started`, or how the task ended.
        elapsed_s: since the converge began.
        task_s: how long the task took; 0 while it runs.
        diff: what changed, as text, when a diff was asked for.
    """

    role: str
    task: str
    host: str
    state: State
    elapsed_s: float
    task_s: float = 0.0
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Converged:
    """What a converge that reached its end came to.

    Attributes:
        roles: what was run, in the order of `ROLES`.
        ok: how many tasks found everything as it should be.
        changed: how many changed something (or would have, in check mode).
        skipped: how many had nothing to do here.
        changed_tasks: the names of those that changed something, `role: task`.
        elapsed_s: for all of it.
        run_dir: where the artefacts are.
    """

    roles: tuple[str, ...]
    ok: int
    changed: int
    skipped: int
    changed_tasks: tuple[str, ...]
    elapsed_s: float
    run_dir: Path

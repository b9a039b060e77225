"""What a converge reports while it runs, and its result."""

from pathlib import Path
from typing import Literal

from provision.structs import Struct

State = Literal["started", "ok", "changed", "skipped", "failed", "unreachable"]


class Progress(Struct):
    """The start or the end of one task.

    Attributes:
        role: the task's role; empty for a task of the play itself, such as reading the host's system.
        task: the task's name, a sentence.
        host: the host by the name the user gave it.
        state: `started`, or how the task ended.
        elapsed_s: since the converge began.
        task_s: how long the task took; 0 while it runs.
        diff: the change, as text, where a diff was requested.
    """

    role: str
    task: str
    host: str
    state: State
    elapsed_s: float
    task_s: float = 0.0
    diff: str = ""


class ConvergeResult(Struct):
    """The totals of a converge that reached its end.

    Attributes:
        roles: the roles that ran, in the order of `ROLES`.
        ok: number of tasks that had nothing to change.
        changed: number of tasks that changed something (in check mode: would have).
        skipped: number of tasks that do not apply to this host.
        changed_tasks: the names of the tasks that changed something, as `role: task`.
        warnings: what the preflight says of the host that did not stop it.
        elapsed_s: for the whole run.
        run_dir: where the artefacts are.
    """

    roles: tuple[str, ...]
    ok: int
    changed: int
    skipped: int
    changed_tasks: tuple[str, ...]
    elapsed_s: float
    run_dir: Path
    warnings: tuple[str, ...] = ()

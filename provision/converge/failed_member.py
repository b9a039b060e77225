"""At which role and task a member of a fleet failed: a line of what its program says, which `fleet status` reads."""

import json
from typing import Final

from provision.structs import Struct

_MARK: Final = "gpuprov-failed:"
_NAME_CHARS: Final = 200
_WHY_CHARS: Final = 400


class FailedTask(Struct):
    """Where a set-up failed.

    Attributes:
        role, task: empty where Ansible ended without a task that failed.
        why: one line.
    """

    role: str
    task: str
    why: str


def told_failure(role: str, task: str, why: str) -> str:
    """The line of a failure."""
    return f"{_MARK} {json.dumps({'role': role[:_NAME_CHARS], 'task': task[:_NAME_CHARS], 'why': why[:_WHY_CHARS]})}"


def failed_task(said: str) -> FailedTask | None:
    """The last such line among what a member said; None where there is none. It says what it likes, so each part is a text and short."""
    lines = (line.removeprefix(_MARK) for line in reversed(said.splitlines()) if line.startswith(_MARK))
    try:
        told = json.loads(next(lines, "null"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    role, task, why = (str(told.get(key) or "") for key in ("role", "task", "why"))
    return FailedTask(role[:_NAME_CHARS], task[:_NAME_CHARS], why[:_WHY_CHARS])

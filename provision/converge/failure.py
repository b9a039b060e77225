"""A failed task's result, as one line and a way out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from provision.errors import GpuprovError, HostUnreachableError, PlaybookFailedError

_LINE_CHARS: Final = 300
_DETAIL_CHARS: Final = 8000

# First match wins; each pattern is what the module or the program behind it prints.
_HINTS: Final = (
    (
        r"No space left on device|ENOSPC|don't have enough free space",
        "make room on the host (`df -h` shows where), or raise disks.root.size_gb; then run it again, it goes on where it stopped",
    ),
    (
        r"ensurepip",  # says nothing about the cause
        "the virtual environment could not be filled: see that there is room (`df -h` on the host) and python3-venv is whole",
    ),
    (
        r"Could not get lock(?!.*No such file)|Unable to (?:acquire|lock)(?!.*No such file)|dpkg frontend lock",
        "another package installation is at work on the host (upgrades of the first boot, perhaps); run it again when it is done",
    ),
    (
        r"sudo: |Missing sudo password|not in the sudoers file|privilege escalation",
        "the login needs sudo without a password: see `sudo -n true` on the host",
    ),
    (
        r"dpkg was interrupted|dpkg --configure -a|Unmet dependencies|unmet dependencies|held broken packages",
        "the host's package database is broken: `sudo dpkg --configure -a && sudo apt-get -f install` there, then run it again",
    ),
    (
        r"Failed to update apt cache|Failed to fetch|Temporary failure resolving|Unable to fetch some archives|Could not resolve",
        "the host cannot reach its package archive: see its network and /etc/apt/sources.list*, then run it again",
    ),
    (
        r"No package matching|Unable to locate package",
        "the archive of the host's release has no such package: see os.version in the profile, and the sources on the host",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "the host's package index has no such wheel for its Python: see the version in the role's defaults, and pip's configuration there",
    ),
    (
        r"python3?: (?:command )?not found|No such file or directory.*python3|interpreter .* not found",
        "Ansible needs python3 on the host: install it there, then run it again",
    ),
)


def failed_task(role: str, task: str, result: Mapping[str, Any], *, run_dir: str) -> PlaybookFailedError:
    """What a task's own words mean."""
    said = _innermost(result)
    text = "\n".join(str(said.get(key, "")) for key in ("msg", "stderr", "stdout", "module_stderr", "module_stdout"))
    where = f"role {role} failed" if role else "the play failed"
    hint = _hint(text, run_dir) if not _is_refusal(said) else "what the message asks for; nothing was changed by this task"
    return PlaybookFailedError(f"{where} at “{task}”: {_one_line(said)}", hint=hint, detail=_detail(said))


def unreachable(host: str, task: str, result: Mapping[str, Any]) -> HostUnreachableError:
    """The connection broke, or never came about."""
    return HostUnreachableError(
        f"{host} stopped answering at “{task}”: {_one_line(result)}",
        hint="see whether it is running (`gpuprov ls`) and port 22 is open to you; run it again, it goes on where it stopped",
        detail=_detail(result),
    )


def failed_play(exit_code: int, output: str, *, run_dir: str) -> GpuprovError:
    """Ansible ended without a failed task: a playbook that does not parse, or a program that is missing."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "it said nothing")
    return PlaybookFailedError(
        f"ansible-playbook ended with {exit_code}: {_clip(last)}", hint=_hint(output, run_dir), detail=output[-_DETAIL_CHARS:]
    )


def _innermost(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first failed item of a loop, whose own result only says that an item failed."""
    items = result.get("results")
    if isinstance(items, list):
        for item in items:
            if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable")):
                return item
    return result


def _is_refusal(result: Mapping[str, Any]) -> bool:
    """Whether a role's own preflight said no: its message already says what to do."""
    return "assertion" in result or "evaluated_to" in result


def _one_line(result: Mapping[str, Any]) -> str:
    """The message, and the last line of what the program behind it printed, when that says more."""
    message = " ".join(str(result.get("msg") or "").split())
    printed = str(result.get("stderr") or result.get("module_stderr") or result.get("stdout") or result.get("module_stdout") or "")
    last = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
    if last and last not in message:
        message = f"{message}: {last}" if message else last
    return _clip(message or "it gave no reason")


def _clip(text: str) -> str:
    return text if len(text) <= _LINE_CHARS else f"{text[: _LINE_CHARS - 1]}…"


def _detail(result: Mapping[str, Any]) -> str:
    """The result without what is only there for machines."""
    noise = {"invocation", "stderr_lines", "stdout_lines"}
    told = {key: value for key, value in result.items() if not key.startswith("_") and key not in noise}
    return json.dumps(told, indent=2, default=str)[-_DETAIL_CHARS:]


def _hint(text: str, run_dir: str) -> str:
    for pattern, hint in _HINTS:
        if re.search(pattern, text):
            return hint
    return f"all that was said is in {run_dir}; repair the cause and run it again, it goes on where it stopped"

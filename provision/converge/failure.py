"""What went wrong in a run of Ansible: the kind of failure, read from what Ansible and the programs under it print, and a way out."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from provision.errors import GpuprovError, HostUnreachableError, PlaybookFailedError

FailureKind = Literal[
    "disk-full",
    "virtualenv",
    "package-lock",
    "sudo",
    "package-database",
    "package-removal",
    "archive-unreachable",
    "package-vanished",
    "package-missing",
    "index-silent",
    "wheel-missing",
    "python-missing",
    "refused",
    "other",
]

_LINE_CHARS: Final = 300
_DETAIL_CHARS: Final = 8000

# What the module, or the program behind it, prints; the first pattern that matches wins.
_PATTERNS: Final[tuple[tuple[FailureKind, str], ...]] = (
    ("disk-full", r"No space left on device|ENOSPC|don't have enough free space"),
    ("virtualenv", r"ensurepip"),  # its message does not name the cause
    ("package-lock", r"Could not get lock(?!.*No such file)|Unable to (?:acquire|lock)(?!.*No such file)|dpkg frontend lock"),
    ("sudo", r"sudo: |Missing sudo password|not in the sudoers file|privilege escalation"),
    ("package-database", r"dpkg was interrupted|dpkg --configure -a|Unmet dependencies|unmet dependencies|held broken packages"),
    ("package-removal", r"[Pp]ackages need to be removed but [Rr]emove is disabled"),
    (
        "archive-unreachable",
        r"Failed to update apt cache|Failed to fetch|Temporary failure resolving|Unable to fetch|Could not resolve|<urlopen error",
    ),
    ("package-vanished", r"Version '.*' for '.*' was not found|no available installation candidate for|No package \S+-\d+:\S+ available"),
    ("package-missing", r"No package matching|Unable to locate package"),
    ("index-silent", r"\(from versions: none\)"),  # of a project that the lock has: an index that answers names some
    ("wheel-missing", r"No matching distribution found|Could not find a version"),
    ("python-missing", r"python3?: (?:command )?not found|No such file or directory.*python3|interpreter .* not found"),
)

_HINTS: Final[Mapping[FailureKind, str]] = {
    "disk-full": (
        "make room on the host (`df -h` shows where) or raise disks.root.size_gb, then run this again: it continues where it stopped"
    ),
    "virtualenv": "pip could not be installed into the virtual environment: check the free space (`df -h` on the host) and python3-venv",
    "package-lock": (
        "another package installation is running on the host, perhaps the upgrades of the first boot; run this again when it is done"
    ),
    "sudo": "the login needs sudo without a password: check with `sudo -n true` on the host",
    "package-database": (
        "the host's package database is broken: run `sudo dpkg --configure -a && sudo apt-get -f install` there, then run this again"
    ),
    "package-removal": (
        "the carried folder is older than what the host has, and apt would remove packages of the host for it, so it changed nothing: "
        "fill the folder again with `gpuprov mirror`"
    ),
    "archive-unreachable": (
        "the host cannot reach its package archive: check its network and /etc/apt/sources.list*, then run this again; for a host without "
        "a network, `gpuprov mirror` fills a folder elsewhere, and `gpuprov apply HOST --from DIR` takes everything from it"
    ),
    "package-vanished": (
        "the repositories no longer have a version that the lock pins: `gpuprov catalog refresh --only packages` reads what they have, and "
        "`gpuprov lock` chooses from that"
    ),
    "package-missing": (
        "the package archive of this release does not have the package: check os.version in the profile, and the host's package sources"
    ),
    "index-silent": (
        "the host gets nothing from its package index: `pip config list` on the host names it, and its answer. A rehearsal host asks "
        "through this machine, which must reach the index itself: sudo drops https_proxy and SSL_CERT_FILE, "
        "unless --preserve-env names them"
    ),
    "wheel-missing": "the host's package index has no such wheel for its Python: check the lock, and pip's configuration on the host",
    "python-missing": "Ansible needs python3 on the host: install it there, then run this again",
    "refused": "do what the message says; this task changed nothing",
}


def kind_of(text: str) -> FailureKind:
    """The kind of failure that the output of Ansible, or of a program under it, describes."""
    return next((kind for kind, pattern in _PATTERNS if re.search(pattern, text)), "other")


def failed_task(role: str, task: str, result: Mapping[str, Any], *, run_dir: str) -> PlaybookFailedError:
    """The error for a failed task.

    Args:
        role: the task's role; empty for a task of the play itself.
        task: its name.
        result: what Ansible reports about it.
        run_dir: where the artefacts are.
    """
    item = _failed_item(result)
    # A role's own check has failed: its message already says what to do.
    refused = "assertion" in item or "evaluated_to" in item
    output = "\n".join(str(item.get(key, "")) for key in ("msg", "stderr", "stdout", "module_stderr", "module_stdout"))
    kind: FailureKind = "refused" if refused else kind_of(output)
    said = f"{f'role {role}' if role else 'the play'} failed at “{task}”: {_one_line(item)}"
    return _of_kind(kind, said, hint=_hint(kind, run_dir), detail=_detail(item))


def why_failed(result: Mapping[str, Any]) -> str:
    """What Ansible reports about a failed task, in one line without the task's name."""
    return _one_line(_failed_item(result))


def unreachable(host: str, task: str, result: Mapping[str, Any]) -> HostUnreachableError:
    """The error for a connection that broke, or could not be made."""
    return HostUnreachableError(
        f"{host} stopped answering at “{task}”: {_one_line(result)}",
        hint="check that it is running (`gpuprov ls`) and that port 22 is open to you; then run this again: it continues where it stopped",
        detail=_detail(result),
    )


def failed_play(exit_code: int, output: str, *, run_dir: str) -> GpuprovError:
    """The error where Ansible ended without a failed task: a playbook that does not parse, or a missing program."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "no output")
    kind = kind_of(output)
    return _of_kind(
        kind, f"ansible-playbook ended with {exit_code}: {_clip(last)}", hint=_hint(kind, run_dir), detail=output[-_DETAIL_CHARS:]
    )


def not_run(message: str, output: str, otherwise: str) -> PlaybookFailedError:
    """The error where Ansible told nothing; the way out is that of what was printed, or `otherwise`."""
    kind = kind_of(output)
    return _of_kind(kind, message, hint=_HINTS.get(kind, otherwise), detail=output)


def disk_full(host: str, said: str) -> PlaybookFailedError:
    """The error for a host without room for what it is sent."""
    return _of_kind("disk-full", f"{host} has no room: {_clip(said)}", hint=_HINTS["disk-full"])


def _of_kind(kind: FailureKind, message: str, *, hint: str, detail: str = "") -> PlaybookFailedError:
    error = PlaybookFailedError(message, hint=hint, detail=detail)
    error.kind = kind
    return error


def _failed_item(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first failed item of a loop, or the result itself: the result of a loop only says that an item failed."""
    items = result.get("results")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable")):
            return item
    return result


def _one_line(result: Mapping[str, Any]) -> str:
    """The message, and the last line that the program behind it printed where that adds something."""
    message = " ".join(str(result.get("msg") or "").split())
    output = str(result.get("stderr") or result.get("module_stderr") or result.get("stdout") or result.get("module_stdout") or "")
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    if last and last not in message:
        message = f"{message}: {last}" if message else last
    return _clip(message or "it gave no reason")


def _clip(text: str) -> str:
    return text if len(text) <= _LINE_CHARS else f"{text[: _LINE_CHARS - 1]}…"


def _detail(result: Mapping[str, Any]) -> str:
    """The result without the parts that are only for machines."""
    noise = {"invocation", "stderr_lines", "stdout_lines"}
    parts = {key: value for key, value in result.items() if not key.startswith("_") and key not in noise}
    return json.dumps(parts, indent=2, default=str)[-_DETAIL_CHARS:]


def _hint(kind: FailureKind, run_dir: str) -> str:
    return _HINTS.get(kind, f"Ansible's full output is in {run_dir}; repair the cause and run this again: it continues where it stopped")

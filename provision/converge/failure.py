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
    "module-build",
    "package-database",
    "package-removal",
    "source-conflict",
    "key-expired",
    "signature",
    "clock",
    "package-conflict",
    "package-held",
    "package-solver",
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
_LEAST_CHARS: Final = 40  # of a message before the last line of a program
_REASONS: Final = 3
# What ansible.builtin.apt puts before apt's own words: the whole command, with every package.
_COMMAND: Final = re.compile(r"^'/usr/bin/apt-get .*' failed: ")
# Lines that say why: DKMS's, dpkg's, apt's but for its sums, the compiler's, and those of dnf's solver.
_REASON: Final = re.compile(
    r"Error! |Consult /var/lib/dkms/|dpkg: error processing|E: (?!Sub-process|Unable to correct|Some index)|W: GPG error"
    r"|\S+: (?:fatal )?error: |make\[?\d*\]?: \*\*\* |trying to overwrite"
    r"|Problem(?: \d+)?: |- (?:nothing provides|package \S+ |conflicting requests)"
    r"|\S+ : (?:Pre-?)?(?:Depends|Conflicts|Breaks): |No package \S+ available|All matches were filtered out"
)
# Those at the end of a chain, which the other lines follow from.
_ROOT: Final = re.compile(r"nothing provides|filtered out|trying to overwrite|\S : [A-Z]|\S+: (?:fatal )?error: ")
_DETAIL_CHARS: Final = 8000

# What the module, or the program behind it, prints; the first pattern that matches wins.
_PATTERNS: Final[tuple[tuple[FailureKind, str], ...]] = (
    ("disk-full", r"No space left on device|ENOSPC|don't have enough free space"),
    ("virtualenv", r"ensurepip"),  # its message does not name the cause
    ("package-lock", r"Could not get lock(?!.*No such file)|Unable to (?:acquire|lock)(?!.*No such file)|dpkg frontend lock"),
    ("sudo", r"sudo: |Missing sudo password|not in the sudoers file|privilege escalation"),
    (
        "module-build",
        r"DKMS built no module|Bad return status for module build|Error! .*(?:build|make) failed|Building module: *\n?.*\(bad exit status",
    ),
    ("package-database", r"dpkg was interrupted|dpkg --configure -a|fix-broken install|apt-get -f install"),
    ("package-removal", r"[Pp]ackages need to be removed but [Rr]emove is disabled"),
    # It reached the archive in these, and the network is not the cause.
    ("source-conflict", r"Conflicting values set for option"),
    ("key-expired", r"EXPKEYSIG|KEYEXPIRED|key .* (?:has expired|is expired)"),
    ("clock", r"is not valid yet|certificate is not yet valid|Release file .* is expired"),
    (
        "signature",
        r"NO_PUBKEY|BADSIG|is not signed|GPG (?:check|key|signature).*(?:FAILED|fail)|[Pp]ublic key .*is not (?:avail|inst)",
    ),
    ("package-conflict", r"trying to overwrite|[Uu]nmet dependencies|held broken packages|\bconflicts with\b|pkgProblemResolver"),
    ("package-held", r"[Hh]eld packages were changed"),
    ("package-solver", r"nothing provides|conflicting requests|filtered out by (?:modular|exclude) filtering|but none of the providers"),
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
    "module-build": (
        "the driver's module does not build for a kernel: see the make.log that DKMS names on the host. A compiler of another version than "
        "the kernel's, headers of another kernel, or a kernel that is newer than the driver are the usual causes"
    ),
    "source-conflict": (
        "another file of the host has the same repository with another key, and apt reads none until one of them is gone: see "
        "`grep -rs URL /etc/apt/sources.list.d` on the host, remove the other entry, and run this again"
    ),
    "key-expired": (
        "the key of a repository has expired: get the new one where that repository is from, or remove its file in /etc/apt/sources.list.d "
        "or /etc/yum.repos.d, then run this again"
    ),
    "signature": (
        "a repository's signature is not by a key that the host trusts: the message names it. Renew that key, or remove the "
        "repository's file in /etc/apt/sources.list.d or /etc/yum.repos.d if the host does not need it"
    ),
    "clock": "the host's clock is wrong, or the repository is out of date: see `timedatectl` on the host, then run this again",
    "package-conflict": (
        "packages of another branch or vendor are in the way, and the message names them: remove them "
        "(`apt list --installed` or `dnf list --installed` shows them), or choose their version in the profile, then run this again"
    ),
    "package-held": (
        "a package that must change is held: `apt-mark showhold` on the host, and `sudo apt-mark unhold PACKAGE`; then run this again"
    ),
    "package-solver": (
        "dnf finds no set of packages, and says why in the message: another version of a package is needed or enabled. "
        "See `dnf module list` and the repositories of the host; EPEL and CRB may be too old"
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
    output = "\n".join(str(item.get(key, "")) for key in ("msg", "stderr", "stdout", "module_stderr", "module_stdout", "failures"))
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
    """The reason that a program printed; else the message, and the last line where that adds something. It is cut behind the reason."""
    message = _COMMAND.sub("", " ".join(str(result.get("msg") or "").split()))
    streams = [str(result.get(key) or "") for key in ("stderr", "module_stderr", "stdout", "module_stdout")]
    failures = result.get("failures")  # those of dnf
    every = [*streams, str(result.get("msg") or ""), *map(str, failures if isinstance(failures, list) else ())]
    told = dict.fromkeys(line.strip() for text in every for line in text.splitlines())
    if reasons := sorted(filter(_REASON.match, told), key=lambda line: not _ROOT.search(line))[:_REASONS]:
        reasons = [line.removeprefix("- ") for line in reasons]
        return _clip("; ".join(reasons if any(message in line or line in message for line in reasons) else [*reasons, message]))
    output = next(filter(None, streams), "")
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    if last and last not in message:
        message = f"{_clip(message, max(_LINE_CHARS - len(last) - 2, _LEAST_CHARS))}: {last}" if message else last
    return _clip(message or "it gave no reason")


def _clip(text: str, chars: int = _LINE_CHARS) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def _detail(result: Mapping[str, Any]) -> str:
    """The result without the parts that are only for machines."""
    noise = {"invocation", "stderr_lines", "stdout_lines"}
    parts = {key: value for key, value in result.items() if not key.startswith("_") and key not in noise}
    return json.dumps(parts, indent=2, default=str)[-_DETAIL_CHARS:]


def _hint(kind: FailureKind, run_dir: str) -> str:
    return _HINTS.get(kind, f"Ansible's full output is in {run_dir}; repair the cause and run this again: it continues where it stopped")

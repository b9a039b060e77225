"""Copies files to and from a host with the system's rsync over our ssh configuration: an interrupted copy continues where it stopped."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from provision.errors import HostUnreachableError, UsageError
from provision.host.ssh import Target, execute, ssh_argv

# rsync(1), EXIT VALUES: 12 is an error in the protocol, 127 is what the host's shell answered. A host without rsync ends in either,
# by whether our rsync still wrote when the host's shell had already gone.
_MAYBE_NO_RSYNC_THERE = (12, 127)
_ASK_TIMEOUT_S = 20
# Root of the host decides what is in its folders: pulled by root, a setuid program would be root's here too, a device this machine's.
_NOT_FROM_A_HOST = ("--no-owner", "--no-group", "--no-devices", "--no-specials", "--chmod=ug-s")


@dataclass(frozen=True, slots=True)
class Copied:
    """How much rsync copied."""

    files: int
    bytes: int


def push(target: Target, sources: Sequence[str], destination: str, *, delete: bool, dry_run: bool) -> Copied:
    """Copy files and folders to a host, as rsync takes them."""
    return _rsync(target, [*sources, f"{target.destination}:{destination}"], delete=delete, dry_run=dry_run)


def pull(target: Target, sources: Sequence[str], destination: str, *, delete: bool, dry_run: bool) -> Copied:
    """Copy files and folders from a host."""
    paths = [*(f"{target.destination}:{source}" for source in sources), destination]
    return _rsync(target, paths, delete=delete, dry_run=dry_run, extra=_NOT_FROM_A_HOST)


def _rsync(target: Target, paths: Sequence[str], *, delete: bool, dry_run: bool, extra: Sequence[str] = ()) -> Copied:
    program = shutil.which("rsync")
    if program is None:
        msg = "rsync is not installed on this machine"
        raise UsageError(msg, hint="install it (apt-get install rsync), or use scp with `ssh gpuprov-NAME`'s configuration")
    shell = " ".join(_quoted(word) for word in ssh_argv(target)[:-2])  # without `-- destination`, which rsync adds itself
    options = ["--archive", "--compress", "--partial", "--secluded-args", "--stats", "--info=progress2", f"--rsh={shell}", *extra]
    options += ["--delete"] if delete else []
    options += ["--dry-run"] if dry_run else []
    process = subprocess.run(
        [program, *options, "--", *paths], stdout=subprocess.PIPE, stderr=None, stdin=subprocess.DEVNULL, text=True, check=False
    )
    if process.returncode in _MAYBE_NO_RSYNC_THERE and not _has_rsync(target):
        msg = f"rsync is not installed on {target.name}"
        raise HostUnreachableError(msg, hint=f"`gpuprov ssh {target.name} -- sudo apt-get install -y rsync`, or dnf on EL")
    if process.returncode:
        msg = f"rsync ended with {process.returncode}; its messages are above"
        raise HostUnreachableError(msg, hint="run the same command again: it continues where it stopped", detail=process.stdout[-2000:])
    return Copied(
        _number(r"Number of regular files transferred: ([\d,.]+)", process.stdout),
        _number(r"Total transferred file size: ([\d,.]+)", process.stdout),
    )


def _has_rsync(target: Target) -> bool:
    return asyncio.run(execute(target, "command -v rsync", timeout_s=_ASK_TIMEOUT_S)).exit_code == 0


def _quoted(word: str) -> str:
    """A word for rsync's --rsh, which understands quotes but no escapes."""
    return f"'{word}'" if " " in word else word


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(re.sub(r"[^\d]", "", match[1])) if match else 0

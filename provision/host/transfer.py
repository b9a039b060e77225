"""Copies files to and from a host with the system's rsync over our ssh configuration: an interrupted copy continues where it stopped."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

from provision.errors import HostUnreachableError, UsageError
from provision.host.ssh import Target, execute, ssh_argv
from provision.structs import Struct

# rsync(1), EXIT VALUES: 12 is an error in the protocol, 127 is what the host's shell answered. A host without rsync ends in either,
# by whether our rsync still wrote when the host's shell had already gone.
_MAYBE_NO_RSYNC_THERE = (12, 127)
_ASK_TIMEOUT_S = 20
_MOST_SAID: Final = 4000  # bytes that are kept of what rsync and the host print: the last ones, which have the sums and the errors
# Root of the host decides what is in its folders: pulled by root, a setuid program would be root's here too, a device this machine's.
_NOT_FROM_A_HOST = ("--no-owner", "--no-group", "--no-devices", "--no-specials", "--chmod=ug-s")


class Copied(Struct):
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
    options = ["--archive", "--compress", "--partial", "--secluded-args", "--stats", f"--rsh={shell}", *extra]
    options += ["--delete"] if delete else []
    options += ["--dry-run"] if dry_run else []
    # A host's words do not go to the terminal as they are: they are part of the error.
    with (
        subprocess.Popen(
            [program, *options, "--", *paths], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
        ThreadPoolExecutor(1) as beside,
    ):
        errors = beside.submit(_end_of, process.stderr)
        sums = _end_of(process.stdout)
        said = errors.result()
    if process.returncode in _MAYBE_NO_RSYNC_THERE and not _has_rsync(target):
        msg = f"rsync is not installed on {target.name}"
        raise HostUnreachableError(msg, hint=f"`gpuprov ssh {target.name} -- sudo apt-get install -y rsync`, or dnf on EL")
    if process.returncode:
        first = next((line for line in said.splitlines() if line.strip()), "it said nothing")
        msg = f"rsync ended with {process.returncode}: {first}"
        raise HostUnreachableError(msg, hint="run the same command again: it continues where it stopped", detail=said)
    return Copied(
        _number(r"Number of regular files transferred: ([\d,.]+)", sums),
        _number(r"Total transferred file size: ([\d,.]+)", sums),
    )


def _has_rsync(target: Target) -> bool:
    return asyncio.run(execute(target, "command -v rsync", timeout_s=_ASK_TIMEOUT_S)).exit_code == 0


def _end_of(stream: IO[bytes] | None) -> str:
    """The end of what a program prints, which may print without end."""
    kept = b""
    while stream and (chunk := stream.read(1 << 16)):
        kept = (kept + chunk)[-_MOST_SAID:]
    return kept.decode(errors="replace")


def _quoted(word: str) -> str:
    """A word for rsync's --rsh, which understands quotes but no escapes."""
    return f"'{word}'" if " " in word else word


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(re.sub(r"[^\d]", "", match[1])) if match else 0

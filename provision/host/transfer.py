"""Copies files to and from a host with the system's rsync over our ssh configuration: an interrupted copy continues where it stopped.

The client may be macOS, whose rsync is 2.6.9 or openrsync: only options that these have are given to them.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import IO, Final

from provision.errors import EXIT_CLOUD_OR_PLAYBOOK, EXIT_USAGE, GpuprovError, HostUnreachableError, UsageError
from provision.host.ssh import Target, execute, ssh_argv
from provision.structs import Struct

# rsync(1), EXIT VALUES: 10 and 12 are errors of the connection, 30 and 35 its timeouts, 255 is ssh's own; 127 is what the host's shell
# answered. A host without rsync ends in 12 or 127, by whether our rsync still wrote when the host's shell had already gone.
_MAYBE_NO_RSYNC_THERE: Final = (12, 127)
_CONNECTION: Final = (10, 12, 30, 35, 255)
_ASK_TIMEOUT_S = 20
_MOST_SAID: Final = 4000  # bytes that are kept of what rsync and the host print: the last ones, which have the sums and the errors
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_AT_WORK: Final = re.compile(r"([\d,.]+[KMGT]?)\s+(\d+)%\s+([\d.]+ ?[kKMGT]?B/s)")  # what --progress prints over and over
Progress = Callable[[str], None]


class PathNotFoundError(GpuprovError, code="path-not-found", exit_code=EXIT_USAGE):
    """A file or folder that should be copied is not there."""


class CopyFailedError(GpuprovError, code="copy-failed", exit_code=EXIT_CLOUD_OR_PLAYBOOK):
    """A host was reached, and not everything was copied."""


class _Rsync(Struct):
    """The rsync of this machine, and what it can do.

    Attributes:
        path: of the program.
        version: of Tridgell's rsync, major and minor; (0, 0) for openrsync.
    """

    path: str
    version: tuple[int, int]

    @classmethod
    def here(cls) -> "_Rsync":
        """The one on PATH."""
        path = shutil.which("rsync")
        if path is None:
            msg = "rsync is not installed on this machine"
            raise UsageError(msg, hint="install it (apt-get install rsync), or use scp with `ssh gpuprov-NAME`'s configuration")
        said = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout
        found = None if said.startswith("openrsync") else re.match(r"rsync\s+version v?(\d+)\.(\d+)", said)
        return cls(path, (int(found[1]), int(found[2])) if found else (0, 0))

    def options(self, *, pulls: bool) -> list[str]:
        """Options of this version. What they are named is in its manual page, and since when in rsync's NEWS."""
        options = ["--archive", "--compress", "--partial", "--stats", "--info=progress2" if self.version >= (3, 1) else "--progress"]
        options += ["--protect-args"] if self._protects else []
        if pulls:
            # Root of the host decides what is in its folders: pulled by root, a setuid program would be root's here too, a device this
            # machine's. openrsync changes no modes, and so takes none over.
            options += ["--no-owner", "--no-group", "--no-devices", "--no-specials", "--chmod=ug-s" if any(self.version) else "--no-perms"]
        return options

    @property
    def _protects(self) -> bool:
        return self.version >= (3, 0)

    def remote(self, target: Target, path: str) -> str:
        """A path on the host; the host's shell reads it where rsync does not keep it from that."""
        inside = _inside(path)
        return f"{target.destination}:{inside if self._protects or not inside else shlex.quote(inside)}"


def _inside(path: str) -> str:
    """A path on a host without `~`: it counts from the login's folder all the same."""
    return re.sub(r"^~(/+|$)", "", path)


def _folder(path: str) -> str:
    """The folder of a path, as a word for a shell."""
    return shlex.quote(str(PurePosixPath(path).parent))


class Copied(Struct):
    """How much rsync copied."""

    files: int
    bytes: int


def push(
    target: Target, sources: Sequence[str], destination: str, *, delete: bool, dry_run: bool, on_progress: Progress = lambda _: None
) -> Copied:
    """Copy files and folders to a host, as rsync takes them.

    Args:
        target: the host.
        sources: on this machine.
        destination: on the host, from the login's folder; empty for that folder.
        delete: whether what is not in the source is removed.
        dry_run: whether nothing is copied.
        on_progress: told how much is copied, and how fast.

    Raises:
        PathNotFoundError: a source is not there.
        CopyFailedError: rsync could not read or write something.
        HostUnreachableError: the host did not answer, or has no rsync.
    """
    missing = [source for source in sources if not os.path.lexists(source)]
    if missing:
        msg = f"{', '.join(missing)}: there is no such file or folder on this machine"
        raise PathNotFoundError(msg, hint=f"look with `ls -l {_folder(missing[0])}`")
    rsync = _Rsync.here()
    paths = (*sources, rsync.remote(target, destination))
    room = f"gpuprov ssh {target.name} -- df -h {_folder(_inside(destination))}"
    return _Copy(rsync, target, paths, room, delete=delete, dry_run=dry_run).run(on_progress)


def pull(
    target: Target, sources: Sequence[str], destination: str, *, delete: bool, dry_run: bool, on_progress: Progress = lambda _: None
) -> Copied:
    """Copy files and folders from a host; as `push` the other way round."""
    rsync = _Rsync.here()
    paths = (*(rsync.remote(target, source) for source in sources), destination)
    room = f"df -h {_folder(destination)}"
    return _Copy(rsync, target, paths, room, pulled=tuple(map(_inside, sources)), delete=delete, dry_run=dry_run).run(on_progress)


class _Copy(Struct):
    """One run of rsync.

    Attributes:
        room: the command that shows whether the destination's folder is there and has room.
        pulled: the sources, where they are on the host.
    """

    rsync: _Rsync
    target: Target
    paths: tuple[str, ...]
    room: str
    pulled: tuple[str, ...] = ()
    delete: bool = False
    dry_run: bool = False

    def run(self, on_progress: Progress) -> Copied:
        shell = " ".join(_quoted(word) for word in ssh_argv(self.target)[:-2])  # without `-- destination`, which rsync adds itself
        options = [*self.rsync.options(pulls=bool(self.pulled)), f"--rsh={shell}"]
        options += ["--delete"] if self.delete else []
        options += ["--dry-run"] if self.dry_run else []
        argv = [self.rsync.path, *options, "--", *self.paths]
        # A host's words do not go to the terminal as they are: they are part of the error.
        with (
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
            ThreadPoolExecutor(1) as beside,
        ):
            errors = beside.submit(_end_of, process.stderr)
            sums = _end_of(process.stdout, on_progress)
            said = errors.result()
        if process.returncode:
            raise self._failure(process.returncode, said)
        return Copied(
            _number(r"Number of (?:regular )?files transferred: ([\d,.]+)()", sums),
            _number(r"Total transferred file size: ([\d,.]+) ?([KMGT]?)", sums),
        )

    def _failure(self, code: int, said: str) -> GpuprovError:
        """Why a copy failed: what the host answers decides, and rsync's code, never its words."""
        name = self.target.name
        if code in _MAYBE_NO_RSYNC_THERE and not _answers(self.target, "command -v rsync"):
            msg = f"rsync is not installed on {name}"
            return HostUnreachableError(msg, hint=f"`gpuprov ssh {name} -- sudo apt-get install -y rsync`, or dnf on EL")
        first = next((line for line in said.splitlines() if line.strip()), "it said nothing")
        if code in _CONNECTION:
            msg = f"rsync ended with {code}: {first}"
            return HostUnreachableError(msg, hint="run the same command again: it continues where it stopped", detail=said)
        missing = [path for path in self.pulled if not _answers(self.target, f"test -e {shlex.quote(path or '.')}")]
        if missing:
            msg = f"{', '.join(missing)}: there is no such file or folder on {name}"
            return PathNotFoundError(msg, hint=f"look with `gpuprov ssh {name} -- ls -l {_folder(missing[0])}`", detail=said)
        msg = f"not everything was copied (rsync ended with {code}): {first}"
        hint = f"see with `{self.room}` that the folder is there and has room; the same command then copies the rest"
        return CopyFailedError(msg, hint=hint, detail=said)


def _answers(target: Target, question: str) -> bool:
    """Whether a command of the host ends well."""
    return asyncio.run(execute(target, question, timeout_s=_ASK_TIMEOUT_S)).exit_code == 0


def _end_of(stream: IO[bytes] | None, on_progress: Progress = lambda _: None) -> str:
    """The end of what a program prints, which may print without end."""
    kept = b""
    while stream and (chunk := stream.read1(1 << 16)):  # type: ignore[attr-defined]
        kept = (kept + chunk)[-_MOST_SAID:]
        if at_work := _AT_WORK.findall(chunk.decode(errors="replace")):
            size, percent, rate = at_work[-1]
            on_progress(f"{size} bytes, {percent} %, {rate}")
    return kept.decode(errors="replace")


def _quoted(word: str) -> str:
    """A word for rsync's --rsh, which understands quotes but no escapes."""
    return f"'{word}'" if " " in word else word


def _number(pattern: str, text: str) -> int:
    """A figure of rsync's sums; openrsync rounds large ones, and names their unit."""
    match = re.search(pattern, text)
    if match is None:
        return 0
    return round(float(match[1].replace(",", "")) * _UNITS[match[2]]) if match[2] else int(re.sub(r"[^\d]", "", match[1]))

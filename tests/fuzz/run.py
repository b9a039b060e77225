"""One case through the command line's own entry, in a process that was forked for it and others, and what is wrong with how it ended."""

import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tests.clouds.portal import Reply
from tests.fuzz import answers

MOST_BYTES: Final = 300 * 1024 * 1024
MOST_CPU_S: Final = 1.0
_KILLED_CPU_S: Final = 10.0
_KILLED_S: Final = 300  # of waiting, on a machine however busy
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = {  # event → which of its arguments are paths, and which a folder's descriptor
    "os.mkdir": ((0,), 2), "os.remove": ((0,), 1), "os.rmdir": ((0,), 1), "os.rename": ((0, 1), 2), "os.link": ((1,), 3),
    "os.symlink": ((1,), 2), "os.truncate": ((0,), None), "os.chmod": ((0,), 2), "os.chown": ((0,), 3), "os.utime": ((0,), 3),
}  # fmt: skip
_PROGRAMS: Final = {"ssh-keygen"}
# What judges a host may say that a check failed or is unknown, and `diff` that there is a difference.
CODES: Final = {"verify": {0, 1, 2, 3}, "accept": {0, 1, 2, 3}, "diff": {0, 1, 2}}
# Of a command that asks a cloud: it is done, refused, unknown, or the cloud failed.
ANSWERED: Final = {0, 2, 3, 4}
Entry = Callable[[Sequence[str]], None]


class Odd(Enum):
    """What may lie where a file is expected."""

    PIPE = "pipe"
    ZERO = "device"
    LOOP = "loop"
    FOLDER = "folder"
    NOWHERE = "link to nothing"
    HUGE = "two sparse GiB"


@dataclass(frozen=True)
class Case:
    """Words for the command line, the files of the folder that they are said in, and what clouds answer to it."""

    kind: str
    words: tuple[str, ...]
    files: dict[str, bytes | Odd] = field(default_factory=dict)
    answers: dict[str, tuple[Reply, ...]] | None = None


@dataclass(frozen=True)
class Ending:
    """How a case ended; `problem` is empty where nothing is wrong with that."""

    kind: str
    command: str
    code: int
    cpu_s: float
    problem: str


class Watch:
    """Notices what is written outside of a folder, which programs are run, and who is connected to."""

    def __init__(self) -> None:
        self.folder = ""
        self.port = 0  # of the server that answers for the clouds
        self.seen: list[str] = []
        sys.addaudithook(self._notice)

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        if event == "open" and arguments[2] & _WRITES:
            self._inside(event, arguments[0], None)
        elif event in _CHANGES:
            which, at = _CHANGES[event]
            for number in which:
                self._inside(event, arguments[number], None if at is None else arguments[at])
        elif event == "subprocess.Popen":
            program = Path(os.fsdecode(arguments[0])).name
            self.seen += [] if program in _PROGRAMS else [f"runs {program}"]
        elif event in {"socket.connect", "socket.getaddrinfo", "os.system", "os.exec", "os.posix_spawn", "os.kill", "os.killpg"}:
            to = arguments[1] if event == "socket.connect" else arguments[:2]
            if not (event.startswith("socket.") and self.port and to == ("127.0.0.1", self.port)):
                self.seen.append(f"{event} {arguments}")

    def _inside(self, event: str, name: Any, at: int | None) -> None:
        if isinstance(name, int) or name is None:
            return
        base = Path(f"/proc/self/fd/{at}").readlink() if at is not None and at >= 0 else Path()
        path = Path(base, os.fsdecode(name))
        real = Path(os.path.realpath(path.parent), path.name)
        if str(real) != os.devnull and not real.is_relative_to(self.folder):
            self.seen.append(f"{event} {real}")


def lay(folder: Path, files: dict[str, bytes | Odd]) -> None:
    """Write the files of a case."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is Odd.PIPE:
            os.mkfifo(path)
        elif content is Odd.FOLDER:
            path.mkdir()
        elif content is Odd.HUGE:
            path.touch()
            os.truncate(path, 2 << 30)
        else:
            path.symlink_to({Odd.ZERO: "/dev/zero", Odd.LOOP: path.name, Odd.NOWHERE: "gone"}[content])


def examine(case: Case, folder: Path, watch: Watch, entry: Entry) -> tuple[Ending, str]:
    """Run one case, and again where it was slow: only what is slow each time is. Returns its end and what it said."""
    ending, said = _once(case, folder, watch, entry)
    most_s = MOST_CPU_S if case.answers is None else MOST_CPU_S * 5  # sixty regions are asked, and answered by this process
    for _ in range(2 if ending.cpu_s > most_s and not ending.problem else 0):
        again, said = _once(case, folder, watch, entry)
        ending = min(ending, again, key=lambda each: each.cpu_s)
    if ending.cpu_s > most_s and not ending.problem:
        ending = Ending(ending.kind, ending.command, ending.code, ending.cpu_s, f"takes {ending.cpu_s:.1f} s of CPU")
    return ending, said


def _once(case: Case, folder: Path, watch: Watch, entry: Entry) -> tuple[Ending, str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lay(folder, case.files)
    for name in ("home", "cache", "temporary"):
        (folder / ".own" / name).mkdir(parents=True, exist_ok=True)
    os.environ.update(
        HOME=str(folder / ".own/home"), GPUPROV_HOME=str(folder / ".own/home/gpuprov"), GPUPROV_CACHE=str(folder / ".own/cache"),
        GPUPROV_OVERLAY=str(folder / "overlay.json"), TMPDIR=str(folder / ".own/temporary"),
    )  # fmt: skip
    tempfile.tempdir = str(folder / ".own/temporary")
    os.chdir(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors, write_through=True) for errors in ("strict", "backslashreplace"))
    streams = sys.stdout, sys.stderr
    before, watch.seen, code = _cpu_s(), [], -1
    _limit()
    try:
        with answers.given(case.answers) if case.answers is not None else nullcontext(0) as watch.port:
            sys.stdout, sys.stderr, watch.folder = out, err, os.path.realpath(folder)
            entry(case.words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else -1
    except BaseException as error:  # noqa: BLE001 - what comes through the boundary is what is looked for
        watch.seen.append(f"{type(error).__name__} came through")
    finally:
        watch.folder = ""
        sys.stdout, sys.stderr = streams
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    cpu_s = _cpu_s() - before
    said = "".join(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))
    problem = _problem(case, code, said, watch.seen)
    return Ending(case.kind, case.words[0], code, cpu_s, problem), said


def _limit() -> None:
    """Bound what the case may take from now on: memory as an error, CPU time and waiting by the signals' default action."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + MOST_BYTES, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, _KILLED_CPU_S)
    signal.alarm(_KILLED_S)


def _cpu_s() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _problem(case: Case, code: int, said: str, seen: list[str]) -> str:
    if seen:
        return seen[0]
    if code not in (CODES.get(case.words[0], {0, 2}) if case.answers is None else ANSWERED):
        return f"exit code {code}: {said[:150]!r}"
    if "Traceback (most recent call last)" in said:
        return "prints a traceback"
    if "error[" in said and "\nhint: " not in said:
        return "an error without a hint"
    control = next((c for c in said if ord(c) in {*range(9), 11, 12, *range(14, 32), *range(127, 160)}), "")
    return f"prints the control character {control!a}" if control else ""


def as_line(number: int, ending: Ending) -> bytes:
    """What a worker says of one case."""
    return json.dumps([number, ending.kind, ending.command, ending.code, ending.cpu_s, ending.problem]).encode() + b"\n"

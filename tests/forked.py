"""Command lines of gpuprov, each in a process that is forked from one with everything imported: half a second of CPU less for each.

    python -m tests.forked    on standard input a line of JSON for each command line; answers each with its process, then how it ended

A fork has what `python -m provision` would have: its words, environment, folder, output and exit code, and no terminal. Where a test is
about the start of Python itself, or sends signals, it starts `python -m provision`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_INTERRUPTED_S = 60.0


def gpuprov(
    *words: str,
    env: dict[str, str],
    cwd: Path | None = None,
    timeout_s: float = 1200,
    module: str = "provision.__main__",
    shown: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end.

    Args:
        words: what follows the name of the program.
        env: its whole environment.
        cwd: its folder; the caller's when None.
        timeout_s: after which it is killed.
        module: whose `main` takes the words from `sys.argv`.
        shown: whether its errors go where the caller's go, and are not kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        told = {"words": words, "env": env, "cwd": str(cwd or Path.cwd()), "out": str(out), "err": "" if shown else str(err)}
        code = _forker().run({**told, "module": module}, timeout_s)
        return subprocess.CompletedProcess(["gpuprov", *words], code, out.read_text(), "" if shown else err.read_text())


class _Forker:
    """The process that forks; it ends with the one that made it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one command line at a time
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=ROOT
        )
        atexit.register(self._close)

    def run(self, told: dict[str, Any], timeout_s: float) -> int:
        """How a command line ended; an interrupt of the caller waits for its end, as the terminal has interrupted it too."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            pid = int(self._process.stdout.readline())
            try:
                in_time = self._answers(timeout_s)
            except KeyboardInterrupt:
                self._end(pid, _INTERRUPTED_S)
                raise
            if not in_time:
                self._end(pid, 0)
                raise subprocess.TimeoutExpired(["gpuprov", *told["words"]], timeout_s)
            return int(self._process.stdout.readline())

    def _answers(self, timeout_s: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], timeout_s)[0])

    def _end(self, pid: int, after_s: float) -> None:
        if not self._answers(after_s):
            os.kill(pid, signal.SIGKILL)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.communicate()


@functools.cache
def _forker() -> _Forker:
    return _Forker()


def be(told: dict[str, Any]) -> int:
    """Be the command line; returns its exit code."""
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for target, name in ((1, told["out"]), (2, told["err"])):
        if name:
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), target)
    # Not the objects of the process that forks: its standard input holds lines that it has read ahead.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the whole life of the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - as above
    sys.argv = ["gpuprov", *told["words"]]
    try:
        importlib.import_module(told["module"]).main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as Python ends
        traceback.print_exc()
        return 1
    return 0


def fork(told: dict[str, Any]) -> int:
    """Start the process of a command line."""
    if pid := os.fork():
        return pid
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = be(told)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)


def main() -> None:
    from tests import warm

    warm.command_line()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, it is for pytest and the commands
    for line in sys.stdin.buffer:
        pid = fork(json.loads(line))
        os.write(1, f"{pid}\n".encode())
        os.write(1, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main()

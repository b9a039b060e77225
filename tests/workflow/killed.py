"""The command line in a process that kills itself with SIGKILL at its N-th call to a cloud: before it is sent, or when its answer is there.
Or it holds still before that call until it is told to go on, so that another command line can run meanwhile.

Of Google's calls those count that change something: a kill at a read is one before the next change.

    python -m tests.workflow.killed    on standard input a line of JSON for each command line; answers each with the exit code of its fork

Every command line runs in a fork of this process, so that gpuprov and the libraries of the clouds are imported once.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    returncode: int
    stderr: str

    @property
    def killed(self) -> bool:
        """Whether it was killed; it has ended well otherwise."""
        assert self.returncode in {0, -signal.SIGKILL}, self.stderr
        return self.returncode != 0


class Killable:
    """The process that forks command lines; it ends with the one that made it."""

    def __init__(self, folder: Path) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._output, self._held = folder / "stderr", folder / "held"

    def run(self, number: int, when: str, *words: str, stand_ins: str = "") -> Ended:
        """Run a command line in the environment of this moment; `stand_ins` names a module beside this one that has them."""
        self.begin(number, when, *words, stand_ins=stand_ins)
        return self.end()

    def begin(self, number: int, when: str, *words: str, stand_ins: str = "", **environment: str) -> None:
        """Begin a command line, with more variables; with `when` as `held` it stands still before its N-th call until `go_on`."""
        self._held.unlink(missing_ok=True)
        if self._process is None:
            argv = [sys.executable, "-m", "tests.workflow.killed"]
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = {"number": number, "when": when, "words": words, "stand_ins": stand_ins, "output": str(self._output)}
        told |= {"held": str(self._held), "environment": {**os.environ, **environment}}
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()

    def holds(self) -> bool:
        """Wait until the command line holds still or has ended; whether it holds."""
        assert self._process is not None
        assert self._process.stdout is not None
        while not self._held.exists():
            if select.select([self._process.stdout], [], [], 0.01)[0]:
                return False
        return True

    def go_on(self) -> None:
        """Let the command line that holds still go on."""
        self._held.unlink()

    def end(self) -> Ended:
        """How the command line ended that was begun."""
        assert self._process is not None
        assert self._process.stdout is not None
        return Ended(int(self._process.stdout.readline()), self._output.read_text())

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def run(number: int, when: str, words: list[str], held: Path) -> None:
    from botocore.endpoint import Endpoint
    from google.auth.transport.requests import AuthorizedSession

    from provision.cli import main as gpuprov

    calls = iter(range(1, 10_000))

    def count(kind: Any, method: str, counts: Callable[..., bool]) -> None:
        """Count the calls of a library that count."""
        send = getattr(kind, method)

        def counted(self: Any, *args: Any, **more: Any) -> Any:
            this = counts(*args) and next(calls) == number
            if this and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            if this and when == "held":
                held.touch()
                while held.exists():
                    time.sleep(0.005)
            answer = send(self, *args, **more)
            if this and when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(kind, method, counted)

    count(Endpoint, "_send", lambda *_: True)
    count(AuthorizedSession, "request", lambda verb, url, *_: verb != "GET" and not url.endswith(("/wait", "/listManagedInstances")))
    gpuprov(words)


def warm_up() -> None:
    """Import what the command lines need."""
    from provision.workflow import bake, fleet, idle_fleet, up
    from tests import warm
    from tests.workflow import bake_stand_ins, member_stand_ins

    assert all((bake, fleet, idle_fleet, up, bake_stand_ins, member_stand_ins))
    warm.command_line()


def fork(told: dict[str, Any]) -> int:
    """The exit code of a command line; a signal is negative."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 70
    try:
        nothing, output = os.open(os.devnull, os.O_RDWR), os.open(told["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for source, target in ((nothing, 0), (nothing, 1), (output, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(told["environment"])
        with importlib.import_module(f"tests.workflow.{told['stand_ins']}").stand_ins() if told["stand_ins"] else nullcontext():
            run(told["number"], told["when"], told["words"], Path(told["held"]))
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 - the test shows it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    warm_up()
    for line in sys.stdin:
        sys.stdout.write(f"{fork(json.loads(line))}\n")
        sys.stdout.flush()
    os._exit(0)  # taking the SDKs apart object by object takes seconds on a busy machine


if __name__ == "__main__":
    main()

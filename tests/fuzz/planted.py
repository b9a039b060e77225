"""What the fuzzer must notice, planted in the place of the command line: `python -m tests.fuzz.planted FOLDER`."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.fuzz.__main__ import Chunk, Fuzzer
from tests.fuzz.run import Case


def spin(seconds: float) -> None:
    until = sum(os.times()[:2]) + seconds
    while sum(os.times()[:2]) < until:
        pass


def through_a_link() -> None:
    Path("here").symlink_to("..")
    Path("here/outside").write_text("x")


def endless() -> None:
    """Without the fuzzer's own limit, which is only brought forward here, there is no problem."""
    if signal.setitimer(signal.ITIMER_PROF, 0.3)[0]:
        spin(60)


def wait() -> None:
    """The same."""
    if signal.alarm(1):
        threading.Event().wait()


def connect() -> None:
    with socket.socket() as client:
        client.connect_ex(("127.0.0.1", 9))


DEFECTS: Final[dict[str, Callable[[], object]]] = {
    "fine": lambda: None,
    "writes inside": lambda: Path("x").write_text("x"),
    "another code": lambda: sys.exit(70),
    "a check failed": lambda: sys.exit(1),
    "an exception": lambda: sys.modules[""],
    "a traceback": lambda: print("Traceback (most recent call last)"),
    "no hint": lambda: print("error[x]: y"),
    "control": lambda: print("\x1b[2J"),
    "writes outside": lambda: Path("../outside").write_text("x"),
    "makes a folder outside": lambda: Path("../outside-folder").mkdir(),
    "writes through a link": through_a_link,
    "runs a program": lambda: subprocess.run(["true"], check=False),
    "connects": connect,
    "signals another": lambda: os.kill(os.getppid(), 0),
    "memory": lambda: bytearray(400 << 20),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "slow": lambda: spin(1.2),
    "endless": endless,
    "waits": wait,
}


def entry(words: Sequence[str]) -> None:
    DEFECTS[words[0]]()
    sys.exit(0)


class Planted(Fuzzer):
    """Runs each defect as a case."""

    def cases(self, chunk: Chunk) -> list[Case]:  # noqa: ARG002 - there is one chunk
        return [Case("planted", (name,)) for name in DEFECTS]


def main(folder: Path) -> None:
    for name in ("work", "kept"):
        (folder / name).mkdir()
    chunk = Chunk("planted", 0, len(DEFECTS))
    endings = Planted(entry, folder / "work", folder / "kept").run([chunk], jobs=1)
    print(json.dumps({name: ending.problem for name, ending in zip(DEFECTS, endings, strict=True)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A program on a pseudo-terminal of its own, whose screen is read while it runs and whose keys are pressed."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Self

_HOME = "\x1b[H"
# All that a screen of ours may send to a terminal: colours, the alternate screen, the cursor on and off, to the upper left.
_OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?1049[hl]|\?25[hl]|H)")


class Terminal:
    """A real process on a real pseudo-terminal. It is read all the time, as a terminal does."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self._sent = bytearray()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    @classmethod
    @contextlib.contextmanager
    def running(cls, argv: list[str], environment: dict[str, str], *, columns: int, lines: int) -> Iterator[Self]:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(ours, (lines, columns))
        without = {name: value for name, value in environment.items() if name not in {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}}
        process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env={**without, "TERM": "xterm-256color"}
        )
        os.close(theirs)
        terminal = cls(process, ours)
        try:
            yield terminal
        finally:
            process.kill()
            process.wait()
            terminal._thread.join()
            os.close(ours)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the end of a terminal whose other side has closed
            while chunk := os.read(self._ours, 65_536):
                self._sent += chunk

    def resize(self, columns: int, lines: int) -> None:
        termios.tcsetwinsize(self._ours, (lines, columns))

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def ended(self) -> int:
        """The exit code, when the program has ended and all that it sent was read."""
        code = self.process.wait(60)
        self._thread.join(60)
        return code

    @property
    def sent(self) -> str:
        return bytes(self._sent).decode(errors="replace")

    @property
    def frames(self) -> list[str]:
        """What was drawn, with its colours; the last one may not be whole."""
        return self.sent.partition("\x1b[?1049l")[0].replace("\r\n", "\n").split(_HOME)[1:]

    @property
    def foreign(self) -> set[str]:
        """What the terminal would obey and no screen of ours sends."""
        return {character for character in _OURS.sub("", self.sent) if not character.isprintable() and character not in "\r\n"}


def lines_of(frame: str) -> list[str]:
    """A frame without its colours."""
    return [line.rstrip() for line in _OURS.sub("", frame).split("\n")]

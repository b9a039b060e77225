"""What a person sees while something takes longer than two seconds: on standard error, so that standard output stays data."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.status import Status

from provision.converge.progress import Progress

__all__ = ["Narrator", "narrator"]


class Narrator:
    """Says each step once; on a terminal the last one spins until the next.

    Args:
        quiet: say nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not quiet
        self._status: Status | None = None
        self._started = time.monotonic()
        self._last = ""

    def say(self, step: str) -> None:
        """Begin a step; the one before it is done."""
        if step == self._last:
            return
        if self._live:
            self._finish()
            self._status = self._console.status(self._plain(step))
            self._status.start()
        else:
            self._console.print(f"{time.monotonic() - self._started:6.1f} s  {step}", markup=False)
        self._last = step

    def task(self, progress: Progress) -> None:
        """Show a task of Ansible within the step, and what it changes where that was asked for."""
        if progress.diff:
            if self._status:
                self._status.stop()
            self._console.print(progress.diff.rstrip(), markup=False)
            if self._status:
                self._status.start()
        if progress.state != "started":
            return
        if self._live and self._status:
            self._status.update(self._plain(f"{self._last}: {progress.role or 'host'}: {progress.task}"))
        elif not self._live:
            self._console.print(f"{time.monotonic() - self._started:6.1f} s    {progress.role or 'host'}: {progress.task}", markup=False)

    def _finish(self) -> None:
        if self._status:
            self._status.stop()
            self._status = None
            self._console.print(f"{time.monotonic() - self._started:6.1f} s  {self._last}", markup=False)

    @staticmethod
    def _plain(text: str) -> str:
        return text.replace("[", r"\[")

    @contextlib.contextmanager
    def speaking(self) -> Iterator[Narrator]:
        """Leave the terminal as it was, whatever happens."""
        try:
            yield self
        finally:
            self._finish()


def narrator() -> Narrator:
    """The narrator of this process."""
    return Narrator(quiet=sys.stderr is None)

"""What a person sees while a command runs: on standard error, so that standard output stays data."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.status import Status
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # a command that neither converges nor verifies does not load them
    from provision.converge.progress import Progress
    from provision.verify.finding import Report


class Narrator:
    """Prints each step once; on a terminal the last one spins until the next."""

    def __init__(self) -> None:
        quiet = sys.stderr is None
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not quiet
        self._status: Status | None = None
        self._started = time.monotonic()
        self._last = ""
        self._lives: list[Live] = []

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

    def pause(self) -> None:
        """End the step that spins, so that the user can be asked something."""
        self._finish()

    def task(self, progress: Progress) -> None:
        """Show a task of Ansible within the step, and what it changes where there is a diff."""
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

    def hosts(self, names: Sequence[str]) -> Callable[[str, Report | None], None]:
        """Show several hosts: on a terminal a line for each, kept up to date; elsewhere a line when a host was judged.

        Returns:
            What to call when a host is observed (with None) and when it was judged (with its report).
        """
        if len(names) == 1:
            self.say(f"observing {names[0]}")
            return lambda _name, _report: None
        states = dict.fromkeys(names, "waiting")
        live = Live(console=self._console, auto_refresh=True, transient=True) if self._live else None
        if live:
            self._finish()
            live.start()
            self._lives.append(live)

        def show(name: str, report: Report | None) -> None:
            states[name] = "observing …" if report is None else _verdict(report)
            if live:
                live.update(_states(states))
            elif report is not None:
                self._console.print(f"{time.monotonic() - self._started:6.1f} s  {name}: {states[name]}", markup=False)

        return show

    def _finish(self) -> None:
        if self._status:
            self._status.stop()
            self._status = None
            self._console.print(f"{time.monotonic() - self._started:6.1f} s  {self._last}", markup=False)

    @staticmethod
    def _plain(text: str) -> str:
        return text.replace("[", r"\[")

    def end(self) -> None:
        """Leave the terminal as it was."""
        while self._lives:
            self._lives.pop().stop()
        self._finish()


@contextlib.contextmanager
def narration() -> Iterator[Narrator]:
    """A narrator for the steps of this command; the terminal is left as it was, whatever happens."""
    narrator = Narrator()
    try:
        yield narrator
    finally:
        narrator.end()


def _verdict(report: Report) -> str:
    if report.findings and report.findings[0].check == "reachable":
        return f"unreachable: {report.findings[0].observed}"
    counts = report.summary
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in counts if counts[outcome])


def _states(states: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, state in states.items():
        table.add_row(Text(name), Text(state))
    return table

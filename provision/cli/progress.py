"""What a person sees while a command runs: on standard error, so that standard output stays data."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from provision.cli import inert
from provision.errors import InterruptedRunError

if TYPE_CHECKING:  # a command that neither converges nor verifies does not load them
    from rich.live import Live
    from rich.text import Text

    from provision.cli.live import Terminal
    from provision.converge.progress import Progress
    from provision.verify.finding import Report
    from provision.workflow.expected import ExpectedTime


class Narrator:
    """Prints each step once; on a terminal the last one spins until the next, with the time so far and, where it is known, the whole."""

    def __init__(self) -> None:
        self._terminal = _terminal()
        self._line: Live | None = None
        self._started = self._began = time.monotonic()
        self._last = ""
        self._task = ("", "")
        self._whole: ExpectedTime | None = None
        self._lives: list[Live] = []
        self._machines: dict[str, str] = {}
        self._changing = threading.Lock()  # each machine is set up in a thread of its own

    def say(self, step: str) -> None:
        """Begin a step; the one before it is done."""
        if step == self._last:
            return
        if self._terminal:
            self._finish()
            self._last, self._task, self._began = step, ("", ""), time.monotonic()
            self._line = self._terminal.show(self._render, times_per_s=8)
        else:
            self._print(step)
        self._last = step

    def expect(self, whole: ExpectedTime) -> None:
        """Show how long the command took in earlier runs, from now on beside the time so far."""
        if whole != self._whole:
            self._whole = whole
            self._print(str(whole))

    def pause(self) -> None:
        """End the step that spins, so that the user can be asked something."""
        while self._lives:
            self._lives.pop().stop()
        self._finish()

    def task(self, progress: Progress) -> None:
        """Show a task of Ansible within the step, and what it changes where there is a diff."""
        if progress.diff:
            self._write(progress.diff.rstrip())
        if progress.state != "started":
            return
        if progress.host in self._machines:
            self.machine(progress.host, f"{progress.role or 'host'}: {progress.task}")
            return
        self._task = (progress.role or "host", progress.task)
        if self._line:
            self._line.refresh()
        elif not self._terminal:
            self._print(f"  {progress.role or 'host'}: {progress.task}")

    def detail(self, text: str) -> None:
        """Show on a terminal how far the step is, in place of what was shown before."""
        self._task = ("", text)
        if self._line:
            self._line.refresh()

    def _print(self, text: str) -> None:
        self._write(f"{self._elapsed:6.1f} s  {text}")

    def _write(self, text: str) -> None:
        text = inert(text)  # a host's messages and diffs are in it
        if self._terminal:
            self._terminal.console.print(text, markup=False)
        elif sys.stderr is not None:
            sys.stderr.write(f"{text}\n")  # in one piece: several machines write at once, and `print` writes the end of a line by itself
            sys.stderr.flush()

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _render(self) -> Text:
        assert self._terminal is not None  # noqa: S101 - it is what renders
        return self._terminal.spinning(self._elapsed, self._whole, self._last, *self._task)

    def hosts(self, names: Sequence[str]) -> Callable[[str, Report | None], None]:
        """Show several hosts: on a terminal a line for each, kept up to date; elsewhere a line when a host was judged.

        Returns:
            What to call when a host is observed (with None) and when it was judged (with its report).
        """
        if len(names) == 1:
            self.pause()
            self.say(f"observing {names[0]}")
            return lambda _name, _report: None
        states = dict.fromkeys(names, "waiting")
        terminal = self._terminal
        if terminal:
            self._finish()
            self._lives.append(terminal.show(lambda: terminal.table(states, self._elapsed)))

        def show(name: str, report: Report | None) -> None:
            states[name] = "observing …" if report is None else _verdict(report)
            if not terminal and report is not None:
                self._print(f"{name}: {states[name]}")

        return show

    def machine(self, name: str, step: str) -> None:
        """Show what one of several machines does: on a terminal in its own line, elsewhere in a new line for each step."""
        terminal = self._terminal
        with self._changing:
            if terminal and not self._machines:
                self._finish()
                self._lives.append(terminal.show(lambda: terminal.table(self._machines, self._elapsed)))
            if self._machines.get(name) == step:
                return
            self._machines = {**self._machines, name: step}
        if not terminal:
            self._print(f"{name}: {step}")

    def _finish(self) -> None:
        if self._line:
            self._line.stop()
            self._line = None
            self._print(f"{self._last} ({time.monotonic() - self._began:.1f} s)")

    def end(self) -> None:
        """Leave the terminal as it was."""
        self.pause()


def _terminal() -> Terminal | None:
    """The terminal on standard error; None where there is none that can move its cursor."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        return None
    from provision.cli.live import Terminal  # noqa: PLC0415 - Rich takes 30 ms, a fourteenth of a `verify` that nobody watches

    return Terminal()


@contextlib.contextmanager
def narration(interrupted: Callable[[], str] = str) -> Iterator[Narrator]:
    """A narrator for the steps of this command; the terminal is left as it was, whatever happens.

    `interrupted` says after Ctrl-C what still runs, as a hint; an empty text leaves the general one.
    """
    narrator = Narrator()
    try:
        yield narrator
    except KeyboardInterrupt:
        if hint := interrupted():
            msg = "interrupted"
            raise InterruptedRunError(msg, hint=hint) from None
        raise
    finally:
        narrator.end()


def _verdict(report: Report) -> str:
    if report.findings and report.findings[0].check == "reachable":
        return f"unreachable: {report.findings[0].observed}"
    counts = report.summary
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in counts if counts[outcome])

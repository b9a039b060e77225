"""What a person sees while a command runs: on standard error, so that standard output stays data."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from provision.cli import options
from provision.errors import InterruptedRunError

if TYPE_CHECKING:  # a command that neither converges nor verifies does not load them
    from provision.converge.progress import Progress
    from provision.verify.finding import Report
    from provision.workflow.expected import ExpectedTime

_SPINNER: Final = Spinner("dots", style="status.spinner")
_SPINNER_WIDTH: Final = 2  # with the space after it
_DONE: Final = "done"  # as `workflow.several` says it of a host


class Narrator:
    """Prints each step once; on a terminal the last one spins until the next, with the time so far and, where it is known, the whole."""

    def __init__(self) -> None:
        quiet = sys.stderr is None
        colours: Literal["standard"] | None = "standard" if not quiet and options.coloured(sys.stderr) else None
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True, no_color=colours is None, color_system=colours)
        self._live = self._console.is_interactive and not quiet
        self._line: Live | None = None
        self._started = time.monotonic()
        self._last = ""
        self._task = ("", "")
        self._whole: ExpectedTime | None = None
        self._lives: list[Live] = []
        self._machines: dict[str, str] = {}

    def say(self, step: str) -> None:
        """Begin a step; the one before it is done."""
        if step == self._last:
            return
        if self._live:
            self._finish()
            self._last, self._task = step, ("", "")
            self._line = Live(console=self._console, transient=True, refresh_per_second=8, get_renderable=self._render)
            self._line.start()
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
            self._console.print(progress.diff.rstrip(), markup=False)
        if progress.state != "started":
            return
        if progress.host in self._machines:
            self.machine(progress.host, f"{progress.role or 'host'}: {progress.task}")
            return
        self._task = (progress.role or "host", progress.task)
        if self._line:
            self._line.refresh()
        elif not self._live:
            self._print(f"  {progress.role or 'host'}: {progress.task}")

    def _print(self, text: str) -> None:
        self._console.print(f"{self._elapsed:6.1f} s  {text}", markup=False)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _render(self) -> Text:
        spinner = _SPINNER.render(self._console.get_time())
        room = self._console.width - _SPINNER_WIDTH
        line = fitted(self._elapsed, self._whole, self._last, *self._task, width=room)
        return Text.assemble(spinner if isinstance(spinner, Text) else "", " ", line)

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
        live = Live(console=self._console, transient=True, get_renderable=lambda: self._table(states)) if self._live else None
        if live:
            self._finish()
            live.start()
            self._lives.append(live)

        def show(name: str, report: Report | None) -> None:
            states[name] = "observing …" if report is None else _verdict(report)
            if not live and report is not None:
                self._print(f"{name}: {states[name]}")

        return show

    def machine(self, name: str, step: str) -> None:
        """Show what one of several machines does: on a terminal in its own line, elsewhere in a new line for each step."""
        if self._live and not self._machines:
            self._finish()
            live = Live(console=self._console, transient=True, get_renderable=lambda: self._table(self._machines))
            self._lives.append(live)
            live.start()
        if self._machines.get(name) == step:
            return
        self._machines = {**self._machines, name: step}
        if not self._live:
            self._print(f"{name}: {step}")

    def _table(self, states: Mapping[str, str]) -> Text:
        return table_of(states, self._elapsed, width=self._console.width, height=self._console.height)

    def _finish(self) -> None:
        if self._line:
            self._line.stop()
            self._line = None
            self._print(self._last)

    def end(self) -> None:
        """Leave the terminal as it was."""
        self.pause()


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


def fitted(elapsed_s: float, whole: ExpectedTime | None, step: str, role: str, task: str, *, width: int) -> str:
    """One line about the work: the more room there is, the more it says. The name of the task, or of the step without one, is cut last."""
    now = f"{elapsed_s:.1f} s"
    times = f"{now} of about {whole.seconds:.0f} s" if whole else now
    if task:
        lines = [f"{times}  {step}: {role}: {task}", f"{times}  {role}: {task}", f"{now}  {role}: {task}", f"{now}  {task}", task]
    else:
        lines = [f"{times}  {step}", f"{now}  {step}", step]
    line = Text(next((line for line in lines if cell_len(line) <= width), lines[-1]))
    line.truncate(width, overflow="ellipsis")
    return line.plain


def table_of(states: Mapping[str, str], elapsed_s: float, *, width: int, height: int) -> Text:
    """A line for each host within so many columns and lines; where there are more hosts than lines, those that are done are counted.

    Rich's own tables take 12 ms for 64 hosts, four times a second: a quarter of an hour of them costs 40 s of CPU time, and this 6 s
    (measured on 2026-11-23).
    """
    room = max(1, height - 2)  # one line for the time, and one that a terminal needs below
    shown = list(states.items())
    if len(shown) > room:
        shown = sorted(shown, key=lambda item: item[1] == _DONE)[:room]
    first = max(map(cell_len, states), default=0)
    lines = [f"{set_cell_size(name, first)} {state}".partition("\n")[0] for name, state in shown]
    lines = [set_cell_size(line, width - 1) + "…" if cell_len(line) > width else line for line in lines]
    names = {name for name, _ in shown}
    left_out = [state for name, state in states.items() if name not in names]
    done = left_out.count(_DONE)
    more = [f"{count} {what}" for count, what in ((len(left_out) - done, "more"), (done, _DONE)) if count]
    return Text("\n".join([*lines, " " * first + f" {', '.join([f'{elapsed_s:.1f} s', *more])}"]), no_wrap=True)

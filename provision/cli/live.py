"""Lines on a terminal that are kept up to date: what needs Rich, which a command without a terminal does not load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from provision.cli import inert, options

if TYPE_CHECKING:
    from provision.workflow.expected import ExpectedTime

_SPINNER: Final = Spinner("dots", style="status.spinner")
_SPINNER_WIDTH: Final = 2  # with the space after it
_DONE: Final = "done"  # as `workflow.several` says it of a host


class Terminal:
    """A terminal on standard error."""

    def __init__(self) -> None:
        colours: Literal["standard"] | None = "standard" if options.coloured(sys.stderr) else None
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, no_color=colours is None, color_system=colours)

    def show(self, lines: Callable[[], Text], *, times_per_s: float = 4) -> Live:
        """Show what the function returns, anew so many times a second, until the result is stopped."""
        live = Live(console=self.console, transient=True, refresh_per_second=times_per_s, get_renderable=lines)
        live.start()
        return live

    def spinning(self, elapsed_s: float, whole: ExpectedTime | None, step: str, role: str, task: str) -> Text:
        """One line about the work behind a spinner."""
        spinner = _SPINNER.render(self.console.get_time())
        line = fitted(elapsed_s, whole, step, role, task, width=self.console.width - _SPINNER_WIDTH)
        return Text.assemble(spinner if isinstance(spinner, Text) else "", " ", line)

    def table(self, states: Mapping[str, str], elapsed_s: float) -> Text:
        """A line for each host, as far as the screen has room."""
        return table_of(states, elapsed_s, width=self.console.width, height=self.console.height)


def fitted(elapsed_s: float, whole: ExpectedTime | None, step: str, role: str, task: str, *, width: int) -> str:
    """One line about the work: the more room there is, the more it says. The name of the task, or of the step without one, is cut last."""
    now = f"{elapsed_s:.1f} s"
    times = f"{now} of about {whole.seconds:.0f} s" if whole else now
    if task and not role:
        lines = [f"{times}  {step}: {task}", f"{now}  {step}: {task}", f"{now}  {task}", task]
    elif task:
        lines = [f"{times}  {step}: {role}: {task}", f"{times}  {role}: {task}", f"{now}  {role}: {task}", f"{now}  {task}", task]
    else:
        lines = [f"{times}  {step}", f"{now}  {step}", step]
    line = Text(inert(next((line for line in lines if cell_len(line) <= width), lines[-1])))
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
    lines = [inert(f"{set_cell_size(name, first)} {state}".partition("\n")[0]) for name, state in shown]
    lines = [set_cell_size(line, width - 1) + "…" if cell_len(line) > width else line for line in lines]
    names = {name for name, _ in shown}
    left_out = [state for name, state in states.items() if name not in names]
    done = left_out.count(_DONE)
    more = [f"{count} {what}" for count, what in ((len(left_out) - done, "more"), (done, _DONE)) if count]
    return Text("\n".join([*lines, " " * first + f" {', '.join([f'{elapsed_s:.1f} s', *more])}"]), no_wrap=True)

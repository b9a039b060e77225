"""The screen of `gpuprov monitor`: one table for all GPUs, or one host in depth. A key changes what is shown, and nothing else."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING, Any, Final, Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

from provision.cli import inert
from provision.errors import counted
from provision.structs import MutableStruct
from provision.watch.rows import COLUMNS, ORDERS, SPARE, GpuRow, host_lines, notice_line, rows, sparkline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provision.watch.state import Watched

_REDRAW_S: Final = 0.5
_HELP: Final = "q quit  s sort  / filter  ↑↓ choose  enter one host  esc back"
_ARROWS: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "k": "up", "j": "down", "\r": "enter", "\n": "enter"}


def table(shown: Sequence[GpuRow], width: int) -> list[str]:
    """The rows under their titles, within a width: spare columns are left out first, then the notes are cut.

    Rich's own tables take a third of a second for the GPUs of 64 hosts, and the samples would wait for it.
    """
    *titles, last = COLUMNS
    columns = {title: [row.cells.get(title, "") for row in shown] for title in COLUMNS}
    widths = {title: max(map(cell_len, [title, *columns[title]])) for title in COLUMNS}
    known = [title for title in titles if title not in SPARE or set(columns[title]) - {"", "?"}]
    used = [title for title in known if title in {"HOST", "ACTIVE"} or any(columns[title])]
    for title in SPARE:
        if sum(widths[each] + 2 for each in used) + min(width // 4, widths[last]) > width and title in used:
            used.remove(title)
    room = max(1, width - sum(widths[title] + 2 for title in used))
    lines = []
    for cells in zip(*([title, *columns[title]] for title in [*used, last]), strict=True):
        note = cells[-1] if cell_len(cells[-1]) <= room else set_cell_size(cells[-1], room - 1) + "…"
        lines.append("  ".join([*(set_cell_size(cell, widths[title]) for title, cell in zip(used, cells, strict=False)), note]).rstrip())
    return lines if any(columns[last]) else [lines[0].removesuffix(last).rstrip(), *lines[1:]]


class View(MutableStruct):
    """What is shown: which order, which filter, which host.

    Attributes:
        typing: whether what is pressed goes into the filter.
        chosen: the position of the row that is marked.
        depth: the host that is shown alone; empty for the table.
    """

    order: int = 0
    only: str = ""
    typing: bool = False
    chosen: int = 0
    depth: str = ""
    ended: bool = False

    def press(self, key: str, names: list[str]) -> None:
        """Obey a key. `names` are the hosts of the rows as they stand."""
        if self.typing:
            self._type(key)
            return
        match _ARROWS.get(key, key):
            case "q" | "\x03":
                self.ended = True
            case "s":
                self.order = (self.order + 1) % len(ORDERS)
            case "/":
                self.typing, self.only = True, ""
            case "up" | "down" as way:
                self.chosen = max(0, min(len(names) - 1, self.chosen + (1 if way == "down" else -1)))
            case "enter" if names:
                self.depth = names[min(self.chosen, len(names) - 1)]
            case "\x1b":
                self.depth, self.only = "", ""

    def _type(self, key: str) -> None:
        if _ARROWS.get(key) == "enter" and key in "\r\n":
            self.typing = False
        elif key == "\x1b":
            self.typing, self.only = False, ""
        elif key in {"\x7f", "\b"}:
            self.only = self.only[:-1]
        elif key.isprintable() and len(key) == 1:
            self.only = (self.only + key)[:40]

    def names(self, watched: Watched, now: float) -> list[str]:
        """The hosts of the rows, in their order."""
        return [row.host for row in rows(watched, now, order=ORDERS[self.order], only=self.only)]

    def draw(self, watched: Watched, now: float, width: int, height: int, what: str = "") -> Text:
        """The screen as text of so many columns and lines; `what` is said of the hosts."""
        body = self._depth(watched, now, width) if self.depth in watched.hosts else self._table(watched, now, width, height - 4)
        silent = sum(watched.is_old(state, now) for state in watched.hosts.values())
        words = [f"{counted(len(watched.hosts), 'host')}{what}", *([f"{silent} silent"] if silent else []), f"by {ORDERS[self.order]}"]
        head = Text(f"gpuprov monitor: {', '.join(words)}", style="bold")
        if self.only or self.typing:
            head.append(f", only {self.only}{'_' if self.typing else ''}")
        lines = [head, *body[: height - 3]]
        lines += [Text()] * (height - 2 - len(lines))
        last = watched.notices[-1] if watched.notices else None
        lines.append(Text(f"{last.host}: {notice_line(last)}" if last else "", style="bold"))
        lines.append(Text(_HELP, style="dim"))
        for line in lines:
            line.plain = inert(line.plain)  # names and words of hosts are in it
            line.truncate(width, overflow="ellipsis")
        return Text("\n").join(lines[:height])

    def _depth(self, watched: Watched, now: float, width: int) -> list[Text]:
        gpus = table([row for row in rows(watched, now) if row.host == self.depth], width)
        history = watched.hosts[self.depth].history
        lines = [f"  GPU {index} {sparkline(list(values))}" for index, values in history.items()]
        return [Text(gpus[0], style="bold"), *map(Text, [*gpus[1:], "", *host_lines(watched, self.depth, now), *lines])]

    def _table(self, watched: Watched, now: float, width: int, height: int) -> list[Text]:
        shown_rows = rows(watched, now, order=ORDERS[self.order], only=self.only)
        head, *lines = table(shown_rows, width)
        self.chosen = max(0, min(self.chosen, len(lines) - 1))
        first = max(0, min(self.chosen - height // 2, len(lines) - height + 1))
        texts = [Text(head, style="bold")]
        for number, (line, row) in enumerate(zip(lines, shown_rows, strict=True)):
            style = "dim" if row.is_old else ""
            texts.append(Text(line, style=f"{style} reverse".strip() if number == self.chosen else style))
        return [texts[0], *texts[1 + first : 1 + first + height - 1]]


class Screen:
    """The terminal while hosts are watched; it is as it was when this ends."""

    def __init__(self, watched: Watched, clock: Callable[[], float] = time.time, what: str = "") -> None:
        self.view = View()
        self._watched, self._clock, self._what = watched, clock, what
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, transient=True)
        self._drawn_at = -_REDRAW_S
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._live.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        with contextlib.suppress(OSError):
            self._live.__exit__(None, None, None)
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def refresh(self) -> bool:
        """Obey the keys that were pressed and draw when it is time; returns whether the user has ended it."""
        now, pressed = self._clock(), self._pressed()
        for key in pressed:
            self.view.press(key, self.view.names(self._watched, now))
        if pressed or time.monotonic() - self._drawn_at >= _REDRAW_S:
            width, height = self._console.size
            self._live.update(self.view.draw(self._watched, now, width, height, self._what), refresh=True)
            self._drawn_at = time.monotonic()
        return self.view.ended

    def _pressed(self) -> list[str]:
        """The keys since the last look; an arrow is one of them."""
        if self._before is None or not select.select([sys.stdin], [], [], 0)[0]:
            return []
        text = os.read(sys.stdin.fileno(), 256).decode(errors="ignore")
        keys = []
        while text:
            length = 3 if text[:3] in _ARROWS else 1
            keys.append(text[:length])
            text = text[length:]
        return keys

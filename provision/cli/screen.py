"""The screen of `gpuprov monitor`: one table for all GPUs, or one host in depth. A key changes what is shown, and nothing else."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from provision.cli import tables
from provision.watch.rows import COLUMNS, ORDERS, SPARE, host_lines, notice_line, rows, sparkline

if TYPE_CHECKING:
    from provision.watch.state import Watched

_REDRAW_S: Final = 0.5
_HELP: Final = "q quit  s sort  / filter  ↑↓ choose  enter one host  esc back"
_ARROWS: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "k": "up", "j": "down", "\r": "enter", "\n": "enter"}


@dataclass(slots=True)
class View:
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

    def draw(self, watched: Watched, now: float, width: int, height: int) -> Text:
        """The screen as text of so many columns and lines."""
        body = self._depth(watched, now) if self.depth in watched.hosts else self._table(watched, now, width, height - 4)
        head = Text(f"gpuprov monitor: {len(watched.hosts)} hosts, by {ORDERS[self.order]}", style="bold")
        if self.only or self.typing:
            head.append(f", only {self.only}{'_' if self.typing else ''}")
        lines = [head, *body[: height - 3]]
        lines += [Text()] * (height - 2 - len(lines))
        last = watched.notices[-1] if watched.notices else None
        lines.append(Text(f"{last.host}: {notice_line(last)}" if last else "", style="bold"))
        lines.append(Text(_HELP, style="dim"))
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Text("\n").join(lines[:height])

    def _depth(self, watched: Watched, now: float) -> list[Text]:
        state = watched.hosts[self.depth]
        lines = [Text(line) for line in host_lines(state, now, watched.notices)]
        for index, values in state.history.items():
            lines.append(Text(f"  GPU {index} {sparkline(list(values))}"))
        return lines

    def _table(self, watched: Watched, now: float, width: int, height: int) -> list[Text]:
        shown_rows = rows(watched, now, order=ORDERS[self.order], only=self.only)
        used = [title for title in COLUMNS if title in {"HOST", "ACTIVE"} or any(row.cells.get(title) for row in shown_rows)]
        cells = [[row.cells.get(title, "")[:60] for title in used] for row in shown_rows]
        spare = [title for title in SPARE if title in used]
        titles, shown, _ = tables.chosen(used, cells, spare=spare, width=width)
        head, *lines = tables.table(titles, shown, width=width).splitlines() or [""]
        self.chosen = max(0, min(self.chosen, len(lines) - 1))
        first = max(0, min(self.chosen - height // 2, len(lines) - height + 1))
        texts = [Text(head, style="bold")]
        for number, (line, row) in enumerate(zip(lines, shown_rows, strict=True)):
            style = "dim" if row.is_old else ""
            texts.append(Text(line, style=f"{style} reverse".strip() if number == self.chosen else style))
        return [texts[0], *texts[1 + first : 1 + first + height - 1]]


class Screen:
    """The terminal while hosts are watched; it is as it was when this ends."""

    def __init__(self, watched: Watched) -> None:
        self.view = View()
        self._watched = watched
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, transient=True)
        self._drawn_at = 0.0
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
        now, pressed = time.time(), self._pressed()
        for key in pressed:
            self.view.press(key, self.view.names(self._watched, now))
        if pressed or now - self._drawn_at >= _REDRAW_S:
            width, height = self._console.size
            self._live.update(self.view.draw(self._watched, now, width, height), refresh=True)
            self._drawn_at = now
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

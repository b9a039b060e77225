"""Plain tables: as many columns as the terminal is wide, all of them elsewhere."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from provision.report.base import inert

if TYPE_CHECKING:
    from provision.launch.place import Attempt  # loads the profile, of which most tables have no need

_NO_TERMINAL: Final = 400
_UNKNOWN: Final = 80  # a terminal that does not know its size
_LEAST: Final = 24  # the narrowest that a cell of sentences is still read


def width_of(stream: TextIO) -> int:
    """The columns of the terminal that a stream goes to; many where it goes elsewhere."""
    return (os.get_terminal_size(stream.fileno()).columns or _UNKNOWN) if stream.isatty() else _NO_TERMINAL


def table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = None, flows: str = "", numbers: Collection[str] = ()
) -> str:
    """The rows under their titles; a cell is text, whatever it looks like.

    Args:
        titles: of the columns.
        rows: a cell for each title.
        width: of the whole; the terminal's by default. Where it is too small, cells are cut.
        flows: the column whose cells take several lines instead.
        numbers: the columns whose cells stand to the right.
    """
    out = io.StringIO()
    Console(file=out, width=width or width_of(sys.stdout)).print(_grid(titles, rows, flows, numbers))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def chosen(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Sequence[str], width: int, flows: str = ""
) -> tuple[list[str], list[list[str]], int]:
    """The columns for which there is room, their cells, and the width that they take: no cell of them is cut.

    Args:
        titles: of all columns.
        rows: a cell for each title.
        spare: the columns that may be left out, the first to go first. The others stay, whatever the width.
        width: for the table.
        flows: the column whose cells may take several lines.
    """
    for count in range(len(spare) + 1):
        columns = [number for number, title in enumerate(titles) if title not in spare[:count]]
        shown = [titles[number] for number in columns]
        cells = [[row[number] for number in columns] for row in rows]
        least = [[cell[:_LEAST] if title == flows else cell for title, cell in zip(shown, row, strict=True)] for row in cells]
        needed = Console(width=_NO_TERMINAL).measure(_grid(shown, least)).maximum
        if needed <= width:
            return shown, cells, width
    return shown, cells, needed


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The rows as RFC 4180 text with a header; an unknown value is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return out.getvalue()


def attempts(rows: Iterable[Attempt]) -> str:
    """The attempts to launch, in order; for standard error."""
    titles = ("CLOUD", "REGION", "ZONE", "TYPE", "MARKET", "OUTCOME", "SECONDS", "SAID")
    cells = [(a.cloud, a.region, a.zone, a.instance_type, a.market, a.outcome, f"{a.seconds:.1f}", a.detail) for a in rows]
    spare = ("SECONDS", "MARKET", "CLOUD", "TYPE", "ZONE")
    shown, cut, width = chosen(titles, cells, spare=spare, width=width_of(sys.stderr), flows="SAID")
    return table(shown, cut, width=width, flows="SAID")


def _grid(titles: Sequence[str], rows: Iterable[Sequence[str]], flows: str = "", numbers: Collection[str] = ()) -> Table:
    grid = Table(box=None, pad_edge=False)
    for title in titles:
        justify: Literal["left", "right"] = "right" if title in numbers else "left"
        grid.add_column(title, no_wrap=title != flows, overflow="fold" if title == flows else "ellipsis", justify=justify)
    for row in rows:
        grid.add_row(*(Text("\n".join(inert(line) for line in value.split("\n"))) for value in row))
    return grid

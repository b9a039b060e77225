"""A table for a terminal, or the same rows as CSV."""

import csv
import io
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PLAIN_WIDTH = 220  # what is piped is not wrapped


def as_text(columns: Sequence[str], rows: Sequence[Sequence[object]], *, color: bool = False) -> str:
    """The rows under their columns, numbers to the right. Output to a pipe is not shortened."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_word(value)) for value in row))
    terminal = sys.stdout.isatty()
    console = Console(
        file=io.StringIO(), width=None if terminal else _PLAIN_WIDTH, force_terminal=color, color_system="standard" if color else None
    )
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().strip("\n").splitlines())


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The rows as RFC 4180 text with a header; an unknown value is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return out.getvalue()


def _is_number(value: object) -> bool:
    """A number, one marked as unsure (`~70`), or no value."""
    return isinstance(value, int | float) or value is None or (isinstance(value, str) and (not value or value.startswith("~")))


def _word(value: object) -> str:
    if value is None:
        return "?"
    return f"{value:g}" if isinstance(value, float) else str(value)

"""A table for a terminal, or the same rows as CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence

__all__ = ["as_csv", "as_text"]

_PLAIN_WIDTH = 220  # what is piped is not wrapped


def as_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The rows under their columns, numbers to the right, nothing shortened when it is piped."""
    from rich import box  # noqa: PLC0415 - only for this
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_word(value)) for value in row))
    terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), width=None if terminal else _PLAIN_WIDTH, force_terminal=terminal)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().strip("\n").splitlines())


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The rows as RFC 4180 text with a header; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return out.getvalue()


def _is_number(value: object) -> bool:
    """A number, one marked as unsure (`~70`), or none."""
    return isinstance(value, int | float) or value is None or (isinstance(value, str) and (not value or value.startswith("~")))


def _word(value: object) -> str:
    if value is None:
        return "?"
    return f"{value:g}" if isinstance(value, float) else str(value)

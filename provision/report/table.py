"""A table for a terminal, or the same rows as CSV."""

import csv
import io
import shutil
import sys
from collections.abc import Sequence

_PLAIN_WIDTH = 220  # what is piped is not wrapped


def as_text(columns: Sequence[str], rows: Sequence[Sequence[object]], *, color: bool = False) -> str:
    """The rows under their columns, numbers to the right. Output to a pipe is not shortened."""
    cells = [columns, *([_word(value) for value in row] for row in rows)]
    numeric = [all(_is_number(row[index]) for row in rows) for index in range(len(columns))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PLAIN_WIDTH
    plain = all(word.isascii() and word.isprintable() and word == word.strip() for row in cells for word in row)
    if not plain or sum(widths) + 3 * len(widths) > room:
        return _wrapped(cells, numeric, room, color=color)
    edges = ["><"[not right] for right in numeric]
    head, *body = (" " + "   ".join(f"{word:{edge}{width}}" for word, edge, width in zip(row, edges, widths, strict=True)) for row in cells)
    rule = " " + "─" * (sum(widths) + 3 * (len(widths) - 1))
    return "\n".join(["", f"\x1b[1m{head}\x1b[0m" if color else head.rstrip(), rule, *map(str.rstrip, body), ""])


def _wrapped(cells: Sequence[Sequence[str]], numeric: Sequence[bool], room: int, *, color: bool) -> str:
    """A table that is wider than its room, or has characters whose width Rich knows."""
    from rich import box, console, table, text  # noqa: PLC0415 - a third of the time of `catalog instances`, which has room

    grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, right in zip(cells[0], numeric, strict=True):
        grid.add_column(text.Text(column), justify="right" if right else "left")
    for row in cells[1:]:
        grid.add_row(*map(text.Text, row))
    screen = console.Console(file=io.StringIO(), width=room, force_terminal=color, color_system="standard" if color else None)
    with screen.capture() as captured:
        screen.print(grid)
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

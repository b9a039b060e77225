"""Plain tables on standard output: cut to the terminal's width, whole elsewhere."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.launch.place import Attempt

__all__ = ["attempts", "table"]

_NO_TERMINAL = 400


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows under their titles; what they hold is text, whatever it looks like."""
    from rich.console import Console  # noqa: PLC0415 - heavy, and --help must be light
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table(box=None, pad_edge=False)
    for title in titles:
        made.add_column(title, no_wrap=True)
    for row in rows:
        made.add_row(*(Text(value) for value in row))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _NO_TERMINAL
    out = io.StringIO()
    Console(file=out, width=width).print(made)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def attempts(rows: Iterable[Attempt]) -> str:
    """What was tried, in order."""
    titles = ("CLOUD", "REGION", "ZONE", "TYPE", "MARKET", "OUTCOME", "SECONDS", "SAID")
    return table(titles, ((a.cloud, a.region, a.zone, a.instance_type, a.market, a.outcome, f"{a.seconds:.1f}", a.said) for a in rows))

"""Plain tables on standard output: cut to the terminal's width, whole elsewhere."""

import io
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from provision.launch.place import Attempt

_NO_TERMINAL = 400


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows under their titles; a cell is text, whatever it looks like."""
    grid = Table(box=None, pad_edge=False)
    for title in titles:
        grid.add_column(title, no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(value) for value in row))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _NO_TERMINAL
    out = io.StringIO()
    Console(file=out, width=width).print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def attempts(rows: Iterable[Attempt]) -> str:
    """The attempts to launch, in order."""
    titles = ("CLOUD", "REGION", "ZONE", "TYPE", "MARKET", "OUTCOME", "SECONDS", "SAID")
    return table(titles, ((a.cloud, a.region, a.zone, a.instance_type, a.market, a.outcome, f"{a.seconds:.1f}", a.detail) for a in rows))

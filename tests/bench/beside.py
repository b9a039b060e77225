"""The peers, measured for a row of the table: each does as its manual advises what the row does, or as near as it can.

`verify`: pytest-testinfra and Ansible ask about 40 things. A launch: `ray up` and `sky launch` of one machine. A no-op `apply`: Ansible and
pyinfra, 40 small tasks that hold. Where PEERS and the variables of tests/bench/verify.py and converge.py do not name one it is left out.
The other rows have no peer that does the same.
"""

import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import launch
from tests.bench.converge import PLAIN_ANSIBLE
from tests.bench.cost import Cost, own
from tests.bench.row import Row

RUNS = 3


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer beside a row.

    Attributes:
        row: the number of the row; where two rows have it (0 and 40 ms, CPU and memory), it was measured as the first of them.
        who: its name, and what it does.
        figure: the median of its runs, in the row's unit; None where it was not measured.
        note: why it was not.
    """

    row: int
    who: str
    figure: float | None
    note: str = ""

    def text(self, row: Row) -> str:
        """A line under the row."""
        if self.figure is None:
            return f"{self.who:<46} left out: {self.note}"
        return f"{self.who:<46} {self.figure:8.2f} {row.unit}  {self.figure / row.figure:6.1f} x ours"


def measured(row: int, commands: Mapping[str, Callable[[], object]], figure: Callable[[Cost], float], runs: int = RUNS) -> list[Peer]:
    """The medians of some commands, after one run of each that warms; `figure` says which part is compared. Ansible is pipelined."""
    found = []
    for who, command in commands.items():
        if who.startswith(PLAIN_ANSIBLE):
            continue
        try:
            command()
            costs = [figure(own(command)) for _ in range(runs)]
        except (AssertionError, OSError) as error:
            found.append(Peer(row, who, None, " ".join(str(error).split())[-200:]))
        else:
            found.append(Peer(row, who, statistics.median(costs)))
    absent = {"TESTINFRA": ("testinfra", {1, 2, 9}), "PYINFRA": ("pyinfra", {8})}
    return found + [
        Peer(row, who, None, f"{variable} names no program of it")
        for variable, (who, rows) in absent.items()
        if row in rows and variable not in os.environ
    ]


def of_launches(bench: launch.Bench) -> list[Peer]:
    """`ray up` and `sky launch` until the cloud has accepted the machine: row 3."""
    folder = os.environ.get("PEERS")
    if not folder:
        return [Peer(3, who, None, "PEERS names no folder with it") for who in launch.CITED]
    lines = [line for line in launch.peer_lines(bench, Path(folder)) if line.what == launch.WARM]
    return [Peer(3, line.who, statistics.median(took.seconds for took in line.took) if line.took else None, line.note) for line in lines]

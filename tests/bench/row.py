"""One row of the table of what the client costs: a figure beside its floor, measured in turn."""

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.bench.cost import Cost

RUNS = int(os.environ.get("RUNS", "5"))


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what was measured beside its floor, both in `unit`, medians of pairs; `ratio` is the median of the pairs' own.

    Attributes:
        name: its number, what was measured, and after the slash what the floor is.
        wall_s, client_cpu_s: of ours: how long it took, and the CPU of the client with its children.
        hosts_cpu_s: the CPU of the hosts meanwhile; None where the row has no hosts.
        floor_cpu_s: the CPU of the floor's own client.
        phases: where the figure's time went, in `unit`, of one more run that was watched (see tests/bench/phases.py).
    """

    name: str
    figure: float
    floor: float
    ratio: float
    unit: str = "s"
    wall_s: float | None = None
    client_cpu_s: float | None = None
    hosts_cpu_s: float | None = None
    floor_cpu_s: float | None = None
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Which row it is."""
        return int(self.name.split()[0])

    @classmethod
    def of(
        cls,
        name: str,
        pairs: list[tuple[Cost, Cost]],
        unit: str = "s",
        figure: Callable[[Cost], float] = lambda cost: cost.wall_s,
        phases: dict[str, float] | None = None,
    ) -> "Row":
        """The row of some pairs of what ours and the floor took; `figure` says which part of it is compared."""
        compared = [(figure(ours), figure(floor)) for ours, floor in pairs]
        hosts = [ours.hosts_cpu_s for ours, _ in pairs if ours.hosts_cpu_s is not None]
        return cls(
            name,
            statistics.median(ours for ours, _ in compared),
            statistics.median(floor for _, floor in compared),
            statistics.median(ours / floor for ours, floor in compared),
            unit,
            statistics.median(ours.wall_s for ours, _ in pairs),
            statistics.median(ours.cpu_s for ours, _ in pairs),
            statistics.median(hosts) if hosts else None,
            statistics.median(floor.cpu_s for _, floor in pairs),
            phases or {},
        )


def pairs(ours: Callable[[], Cost], floor: Callable[[], Cost], runs: int = RUNS) -> list[tuple[Cost, Cost]]:
    """Ours and the floor in turn, after one of each that warms."""
    ours(), floor()
    return [(ours(), floor()) for _ in range(runs)]

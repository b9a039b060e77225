"""One row of the table of what the client costs: a figure beside its floor, measured in turn."""

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass

RUNS = int(os.environ.get("RUNS", "5"))


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what was measured beside its floor, both in `unit`, medians of pairs; `ratio` is the median of the pairs' own."""

    name: str
    figure: float
    floor: float
    ratio: float
    unit: str = "s"

    @classmethod
    def of(cls, name: str, pairs: list[tuple[float, float]], unit: str = "s") -> "Row":
        """The row of some pairs of a figure and its floor."""
        figures, floors = zip(*pairs, strict=True)
        ratio = statistics.median(figure / floor for figure, floor in pairs)
        return cls(name, statistics.median(figures), statistics.median(floors), ratio, unit)


def pairs(ours: Callable[[], float], floor: Callable[[], float], runs: int = RUNS) -> list[tuple[float, float]]:
    """Ours and the floor in turn, after one of each that warms."""
    ours(), floor()
    return [(ours(), floor()) for _ in range(runs)]

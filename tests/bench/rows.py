"""Judging beside its floor, a history by commit, and a picture of what each command computes before it asks anybody.

Run: python -m tests.bench.rows   (RUNS=5)

A figure is judged by its ratio to a floor that is measured in turn with it, so that a busy machine moves both.
"""

import csv
import datetime as dt
import json
import os
import platform
import resource
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provision.verify.checks import CHECKS
from provision.verify.facts import Facts, NotObservedError, parse
from provision.verify.facts.base import Fact
from provision.verify.judge import judge
from tests.bench import picture, verify

HISTORY = Path(__file__).with_name("history.csv")
COLUMNS = ("date", "commit", "machine", "row", "figure", "floor", "ratio", "unit")
WORSE = 1.15  # a ratio that grew by more is shown as a regression
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


def judging(text: str) -> Row:
    """Row 10 for 1,000 facts files. The floor reads each, bounds it, and makes every fact typed once that the checks look at."""
    asked: dict[tuple[type[Fact], str], None] = {}
    original, profile = Facts.read, verify.PROFILE

    def noted(facts: Facts, kind: type[Fact], name: str = "") -> Fact:
        asked[kind, name] = None
        return original(facts, kind, name)

    Facts.read = noted  # type: ignore[assignment,method-assign]
    judge(parse(json.loads(text), "bench"), profile)
    Facts.read = original  # type: ignore[method-assign]

    def floor() -> None:
        facts = parse(json.loads(text), "bench")
        for kind, name in asked:
            try:
                facts.read(kind, name)
            except NotObservedError:
                continue

    def ours() -> None:
        judge(parse(json.loads(text), "bench"), profile)

    return Row.of(f"judge 1,000 facts files, {len(CHECKS)} checks", pairs(lambda: repeated(ours), lambda: repeated(floor)), "CPU s")


def repeated(work: Callable[[], None]) -> float:
    """Seconds of CPU of a thousand times."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for _ in range(1000):
        work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def machine() -> str:
    """What figures are comparable on."""
    return f"{platform.node()}/{os.cpu_count()}c"


def regressions(rows: list[Row], past: list[dict[str, str]]) -> list[str]:
    """A line for each row whose ratio grew since this machine's last line of it."""
    last = {line["row"]: float(line["ratio"]) for line in past if line["machine"] == machine()}
    return [f"REGRESSION {row.name}: {last[row.name]:.2f} -> {row.ratio:.2f} x the floor" for row in rows if grew(row, last)]


def grew(row: Row, last: dict[str, float]) -> bool:
    """Whether a row is further from its floor than noise explains."""
    return row.name in last and row.ratio > last[row.name] * WORSE


def keep(rows: list[Row]) -> None:
    """Show and append the rows."""
    past = list(csv.DictReader(HISTORY.open(newline=""))) if HISTORY.exists() else []
    for row in rows:
        print(f"  {row.name:<44} {row.figure:7.3f} {row.unit:<6} floor {row.floor:7.3f}  {row.ratio:6.2f} x", flush=True)
    print("\n".join(regressions(rows, past)))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    day = dt.datetime.now(dt.UTC).date().isoformat()
    with HISTORY.open("a", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        if not past:
            lines.writerow(COLUMNS)
        for row in rows:
            lines.writerow([day, commit, machine(), row.name, f"{row.figure:.3f}", f"{row.floor:.3f}", f"{row.ratio:.2f}", row.unit])


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of {RUNS}", flush=True)
    text = (Path(__file__).parents[1] / "data/facts/h100-root.json").read_text()
    keep([judging(text)])
    picture.draw(picture.phases(text), Path(__file__).with_name("profile.svg"))


if __name__ == "__main__":
    main()

"""What the client costs, row by row beside its floor; a history by commit; a picture of what each command computes before it asks anybody.

Run: python -m tests.bench.rows [--rows 1,3,10] [--json] [--keep] [NAME]   (RUNS=5; NAME: an instance of `gpuprov up --rehearse`)

A figure is judged by its ratio to a floor that is measured in turn with it, so that a busy machine moves both. Rows 1, 2, 7, 8 and 9 need
the instance, and are left out without it. `--keep` appends the rows to history.csv.
"""

import argparse
import csv
import dataclasses
import datetime as dt
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from provision.verify.checks import CHECKS
from provision.verify.facts import Facts, NotObservedError, load
from provision.verify.facts.base import Fact
from provision.verify.judge import judge
from tests.bench import picture, verify
from tests.bench.host_rows import HostRows
from tests.bench.row import RUNS, Row, pairs

HISTORY = Path(__file__).with_name("history.csv")
WORSE = 1.15  # a ratio that grew by more is shown as a regression


def judging(path: Path) -> Row:
    """Row 10 for 1,000 facts files. The floor reads each, bounds it, and makes every fact typed once that the checks look at."""
    asked: dict[tuple[type[Fact], str], None] = {}
    original, profile = Facts.read, verify.PROFILE

    def noted(facts: Facts, kind: type[Fact], name: str = "") -> Fact:
        asked[kind, name] = None
        return original(facts, kind, name)

    Facts.read = noted  # type: ignore[assignment,method-assign]
    judge(load(path), profile)
    Facts.read = original  # type: ignore[method-assign]

    def floor() -> None:
        facts = load(path)
        for kind, name in asked:
            try:
                facts.read(kind, name)
            except NotObservedError:
                continue

    def ours() -> None:
        judge(load(path), profile)

    return Row.of(
        f"10 judge 1,000 facts files, {len(CHECKS)} checks / parsing", pairs(lambda: repeated(ours), lambda: repeated(floor)), "CPU s"
    )


def repeated(work: Callable[[], None]) -> float:
    """Seconds of CPU of a thousand times."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    before = spent()
    for _ in range(1000):
        work()
    return spent() - before


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


def show(rows: list[Row]) -> None:
    """Print the rows, and those that are further from their floor than the last time on this machine."""
    for row in rows:
        print(f"  {row.name:<52} {row.figure:8.3f} {row.unit:<6} floor {row.floor:8.3f}  {row.ratio:6.2f} x", flush=True)
    with HISTORY.open(newline="") as file:
        past = list(csv.DictReader(file))
    for line in regressions(rows, past):
        print(line)


def keep(rows: list[Row]) -> None:
    """Append the rows to the history."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    day = dt.datetime.now(dt.UTC).date().isoformat()
    with HISTORY.open("a", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        for row in rows:
            lines.writerow([day, commit, machine(), row.name, f"{row.figure:.3f}", f"{row.floor:.3f}", f"{row.ratio:.2f}", row.unit])


def of_clouds(numbers: list[int]) -> list[Row]:
    """The rows that launch, measured in a network of their own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        subprocess.run([sys.executable, "-m", "tests.bench.cloud_rows", str(file), *map(str, numbers)], check=True)
        return [Row(**row) for row in json.loads(file.read_text())]


def main() -> None:
    words = argparse.ArgumentParser(prog="rows")
    words.add_argument("--rows", default=",".join(map(str, range(1, 11))))
    words.add_argument("--json", action="store_true")
    words.add_argument("--keep", action="store_true")
    words.add_argument("name", nargs="?")
    given = words.parse_args()
    numbers = sorted({int(number) for number in given.rows.split(",")})
    if not given.json:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of {RUNS}", flush=True)
    facts = Path(__file__).parents[1] / "data/facts/h100-root.json"
    rows: list[Row] = []
    if of_hosts := [number for number in numbers if number in {1, 2, 7, 8, 9}] if given.name else []:
        hosts = HostRows(given.name)
        rows += [row for number in of_hosts for row in hosts.of(number)]
    if launches := [number for number in numbers if number in {3, 4, 5, 6}]:
        rows += of_clouds(launches)
    if 10 in numbers:
        rows.append(judging(facts))
        picture.draw(picture.phases(facts.read_text()), Path(__file__).with_name("profile.svg"))
    rows.sort(key=lambda row: int(row.name.split()[0]))
    if given.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    else:
        show(rows)
    if given.keep:
        keep(rows)


if __name__ == "__main__":
    main()

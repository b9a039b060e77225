"""What the client costs, row by row beside its floor and its aim; a history by commit; a picture of where the time goes.

Run: python -m tests.bench.rows [--rows 1,3,10] [--json] [--keep] [--peers] [NAME]   (RUNS=5; NAME: an instance of `gpuprov up --rehearse`)

A figure is judged by its ratio to a floor that is measured in turn with it, so that a busy machine moves both. Rows 1, 2, 7, 8 and 9 need
the instance, and are left out without it. The picture is build/bench.svg. `--keep` appends the rows to history.csv, and puts the picture
beside it. `--peers` measures the peers, too, where they are installed (tests/bench/peers.py, PEERS).
"""

import argparse
import csv
import dataclasses
import datetime as dt
import functools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from provision.verify.checks import CHECKS
from provision.verify.facts import Facts, NotObservedError, load
from provision.verify.facts.base import Fact
from provision.verify.judge import judge
from tests.bench import picture, verify
from tests.bench.aims import SOURCE, aim_of
from tests.bench.beside import Peer
from tests.bench.cost import Cost, own
from tests.bench.host_rows import HostRows
from tests.bench.row import RUNS, Row, pairs

T = TypeVar("T")
HISTORY = Path(__file__).with_name("history.csv")
PICTURE, KEPT_PICTURE = Path("build/bench.svg"), Path(__file__).with_name("profile.svg")
WORSE = 1.15  # a ratio that grew by more is shown as a regression
OF_HOSTS, OF_CLOUDS = frozenset({1, 2, 7, 8, 9}), frozenset({3, 4, 5, 6})


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

    found = pairs(lambda: thousand(lambda: judge(load(path), profile)), lambda: thousand(floor))
    read_s = thousand(lambda: load(path)).cpu_s
    row = Row.of(f"10 judge 1,000 facts files, {len(CHECKS)} checks / parsing", found, "CPU s", lambda cost: cost.cpu_s)
    return dataclasses.replace(row, phases={"parse": read_s, "judge": row.figure - read_s})


def thousand(work: Callable[[], object]) -> Cost:
    """What a thousand times take."""

    def all_of_them() -> None:
        for _ in range(1000):
            work()

    return own(all_of_them)


def machine() -> str:
    """What figures are comparable on: the processor's model and how many there are; a container's name says neither."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{model.group(1) if model else platform.machine()}/{os.cpu_count()}c"


def regressions(rows: list[Row], past: list[dict[str, str]]) -> list[str]:
    """A line for each row whose ratio grew since this machine's last line of it."""
    last = {line["row"]: float(line["ratio"]) for line in past if line["machine"] == machine()}
    return [f"REGRESSION {row.name}: {last[row.name]:.2f} -> {row.ratio:.2f} x the floor" for row in rows if grew(row, last)]


def grew(row: Row, last: dict[str, float]) -> bool:
    """Whether a row is further from its floor than noise explains."""
    return row.name in last and row.ratio > last[row.name] * WORSE


def show(rows: list[Row], beside: Sequence[Peer] = ()) -> None:
    """Print the rows beside their aims, the peers under the first row of their number, and what got worse on this machine."""
    print(
        f"{'':<46} {'then':>10} {'now':>14} {'floor':>8} {'':>8} {'aim':>25} {'':>8} {'wall s':>7} {'client':>8} {'hosts':>8}", flush=True
    )
    shown: set[int] = set()
    for row in rows:
        aim = aim_of(row)
        now, met = f"{row.figure:.3f} {row.unit}", "reached" if aim.reached(row) else "MISSED"
        costs = " ".join("-".rjust(wide) if cost is None else f"{cost:{wide}.2f}" for cost, wide in
                         ((row.wall_s, 7), (row.client_cpu_s, 8), (row.hosts_cpu_s, 8)))  # fmt: skip
        print(
            f"{row.name:<46} {aim.then:>10} {now:>14} {row.floor:8.3f} {row.ratio:6.2f} x {aim.to_reach:>25} {met:>8} {costs}", flush=True
        )
        if aim.program:
            print(f"     its floor is in {aim.program}, not in gpuprov")
        for peer in (peer for peer in beside if peer.row == row.number and row.number not in shown):
            print(f"     {peer.text(row)}")
        shown.add(row.number)
    print(SOURCE)
    print("client: CPU s of its process and of those that it waited for, by rusage; hosts: CPU s of theirs, by control group; -: none")
    with HISTORY.open(newline="") as file:
        past = list(csv.DictReader(file))
    for line in regressions(rows, past):
        print(line)


def keep(rows: list[Row]) -> None:
    """Append the rows to the history, with the commit and the machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "provision", "playbooks"], check=False).returncode:
        commit += "-dirty"
    day = dt.datetime.now(dt.UTC).date().isoformat()
    with HISTORY.open("a", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        for row in rows:
            figures = [f"{row.figure:.3f}", f"{row.floor:.3f}", f"{row.ratio:.2f}", row.unit]
            costs = ["" if cost is None else f"{cost:.3f}" for cost in (row.wall_s, row.client_cpu_s, row.hosts_cpu_s)]
            lines.writerow([day, commit, machine(), row.name, *figures, *costs])


def of_clouds(numbers: Sequence[int], *, peers: bool) -> tuple[list[Row], list[Peer]]:
    """The rows that launch, measured in a network of their own, and their peers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        words = [str(file), *(["--peers"] if peers else []), *map(str, numbers)]
        subprocess.run([sys.executable, "-m", "tests.bench.cloud_rows", *words], check=True)
        found = json.loads(file.read_text())
        return [Row(**row) for row in found["rows"]], [Peer(**peer) for peer in found["peers"]]


def told(number: int, work: Callable[[], list[T]]) -> list[T]:
    """What some work on a row gives, after its time was told: where the minutes of this program go."""
    began, found = time.monotonic(), work()
    print(f"   (row {number}: {time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return found


def row_numbers(text: str) -> list[int]:
    """The rows that "1,3,10" names, in order."""
    numbers = sorted({int(number) if number.isdecimal() else 0 for number in text.split(",")})
    if not set(numbers) <= set(range(1, 11)):
        message = f"{text!r} names no rows: 1 to 10, such as 1,3,10"
        raise argparse.ArgumentTypeError(message)
    return numbers


def main() -> None:
    words = argparse.ArgumentParser(prog="rows")
    words.add_argument("--rows", type=row_numbers, default=list(range(1, 11)))
    words.add_argument("--json", action="store_true")
    words.add_argument("--keep", action="store_true")
    words.add_argument("--peers", action="store_true")
    words.add_argument("name", nargs="?")
    given = words.parse_args()
    numbers: list[int] = given.rows
    if not given.json:
        print(f"load average {os.getloadavg()[0]:.1f} on {machine()}; medians of {RUNS}", flush=True)
    rows, beside = list[Row](), list[Peer]()
    if of_hosts := [number for number in numbers if number in OF_HOSTS] if given.name else []:
        hosts = HostRows(given.name)
        for number in of_hosts:
            rows += told(number, functools.partial(hosts.of, number))
            beside += told(number, functools.partial(hosts.peers, number)) if given.peers else []
    if launches := [number for number in numbers if number in OF_CLOUDS]:
        began = time.monotonic()
        launched, of_launches = of_clouds(launches, peers=given.peers)
        print(f"   (rows {', '.join(map(str, launches))}: {time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
        rows, beside = rows + launched, beside + of_launches
    if 10 in numbers:
        rows.append(judging(Path(__file__).parents[1] / "data/facts/h100-root.json"))
    rows.sort(key=lambda row: row.number)
    if given.json:
        print(json.dumps({"rows": [as_data(row) for row in rows], "peers": [dataclasses.asdict(peer) for peer in beside]}, indent=1))
    else:
        show(rows, beside)
    PICTURE.parent.mkdir(exist_ok=True)
    picture.draw(rows, KEPT_PICTURE if given.keep else PICTURE)
    if given.keep:
        keep(rows)


def as_data(row: Row) -> dict[str, object]:
    """A row with its aim."""
    aim = aim_of(row)
    said = {"then": aim.then, "aim": aim.to_reach, "reached": aim.reached(row), "floor_in": aim.program or "gpuprov"}
    return {**dataclasses.asdict(row), **said}


if __name__ == "__main__":
    main()

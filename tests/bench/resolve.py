"""The resolver and the catalogue: one profile, every combination, and `gpuprov catalog instances` beside its libraries' own imports.

Run: python tests/bench/resolve.py [RUNS]
"""

import datetime as dt
import statistics
import subprocess
import sys
import time
from pathlib import Path

TODAY = dt.date(2026, 11, 21)
IMPORTS = "import click, msgspec, rich.console, rich.table, yaml"
ONCE = f"""
import datetime as dt, time
from provision.catalog.resolve import resolve
from provision.profile import load
from provision.profile.lock import stack_request
asked = stack_request(load.load(load.find("v100-train")))
took = []
for _ in range(6):
    started = time.perf_counter()
    resolve(asked, dt.date({TODAY.year}, {TODAY.month}, {TODAY.day}))
    took.append((time.perf_counter() - started) * 1000)
print(took[0], sorted(took[1:])[2])
"""


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    shell = {
        "imports alone": [sys.executable, "-c", IMPORTS],
        "catalog instances": [
            str(Path(sys.executable).parent / "gpuprov"),
            *("catalog", "instances", "--gpu", "t4", "--region", "us-east-1", "--sort", "price"),
        ],
    }
    took: dict[str, list[float]] = {name: [] for name in shell}
    first, later = [], []
    for _ in range(runs):
        for name, argv in shell.items():
            started = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            took[name].append((time.perf_counter() - started) * 1000)
        cold, warm = subprocess.run([sys.executable, "-c", ONCE], check=True, capture_output=True, text=True).stdout.split()
        first.append(float(cold))
        later.append(float(warm))
    print(f"median of {runs} interleaved runs")
    base = statistics.median(took["imports alone"])
    for name, values in took.items():
        print(f"  {name:<18} {statistics.median(values):7.1f} ms   {statistics.median(values) / base:5.2f} x imports alone")
    print(f"  resolve, first     {statistics.median(first):7.1f} ms   after imports, reading the data")
    print(f"  resolve, again     {statistics.median(later):7.1f} ms")


if __name__ == "__main__":
    main()

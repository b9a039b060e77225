"""`gpuprov --help` beside `python -c "import click"` and, where it is installed, `aws --version`: medians of interleaved runs, and ratios.

Run: python tests/bench/startup.py [RUNS]
"""

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import click": [sys.executable, "-c", "import click"],
    "gpuprov --help": [str(Path(sys.executable).parent / "gpuprov"), "--help"],
}
if aws := shutil.which("aws"):
    COMMANDS["aws --version"] = [aws, "--version"]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, argv in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            took[name].append((time.perf_counter() - started) * 1000)
    base = statistics.median(took["import click"])
    print(f"median of {runs} interleaved runs")
    for name, values in took.items():
        print(f"  {name:<16} {statistics.median(values):7.1f} ms   {statistics.median(values) / base:5.2f} x import click")


if __name__ == "__main__":
    main()

"""`gpuprov verify` beside a bare `ssh HOST true` and its slowest single fact: medians of interleaved runs, and the ratio.

Run: python tests/bench/verify.py NAME [RUNS]     (NAME as in `gpuprov ls`, reached as `ssh -F CONFIG gpuprov-NAME`)

Each run opens a new connection: the shared one of our SSH configuration is switched off for all three alike.
"""

import asyncio
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from provision.verify.observe import observe
from provision.workflow.session import Session

SLOWEST = "/opt/gpuprov/venvs/opencv/bin/python -c 'import cv2'"  # measured below as the slowest fact of a host without frameworks


def main() -> None:
    name, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    target = Session.open().target(name)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write(f"Host *\n  ControlMaster no\n  ControlPath none\nInclude {target.config}\n")
        config.flush()
        alone = dataclasses.replace(target, config=Path(config.name))
        ssh = ["ssh", "-F", config.name, target.destination]

        def shell(command: str) -> None:
            subprocess.run([*ssh, command], check=True, capture_output=True, stdin=subprocess.DEVNULL)

        ways: dict[str, Callable[[], object]] = {
            "ssh true": lambda: shell("true"),
            "ssh slowest fact": lambda: shell(SLOWEST),
            "gpuprov observe": lambda: asyncio.run(observe(alone)),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(runs):
            for way, run in ways.items():
                started = time.perf_counter()
                run()
                took[way].append((time.perf_counter() - started) * 1000)
    medians = {way: statistics.median(values) for way, values in took.items()}
    base = medians["ssh slowest fact"]  # it contains a bare `ssh true`
    print(f"median of {runs} interleaved runs, host {name}")
    for way, median in medians.items():
        print(f"  {way:<18} {median:7.1f} ms   {median / base:5.2f} x (ssh true + slowest fact)")


if __name__ == "__main__":
    main()

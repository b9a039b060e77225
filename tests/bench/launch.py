"""Command → RunInstances accepted, on the EC2 API of the embedded cloud: seconds and calls before it, medians.

Run: python tests/bench/launch.py [RUNS]

The clock runs from the start of the `gpuprov` process to the moment at which the API has answered RunInstances, by the API's own call
log. The first run warms the emulator and is shown apart. Peers were measured on an emulator of the same kind in
shared/facts/emulators.md §E: ray up 3.7-4.6 s and 7 calls, sky launch 3.8 s and 17 calls.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from provision.rehearsal import control


def one(home: Path, rehearsal: control.Rehearsal, name: str) -> tuple[float, int]:
    control.ask(rehearsal, "calls", method="DELETE")
    environment = {**os.environ, "GPUPROV_HOME": str(home), "GPUPROV_SSH_CONFIG": str(home / "ssh_config")}
    started = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "provision", "up", "--profile", "t4-train", "--rehearse", "--name", name],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            calls = control.ask(rehearsal, "calls")
            done = [c for c in calls if c["action"] == "RunInstances" and "seconds" in c]
            if done:
                return done[0]["time"] + done[0]["seconds"] - started, calls.index(done[0])
            time.sleep(0.02)
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rehearsal = control.start(home / "rehearsal", hosts=False)
        try:
            cold = one(home, rehearsal, "cold")
            warm = [one(home, rehearsal, f"warm-{number}") for number in range(runs)]
        finally:
            control.stop(home / "rehearsal")
    seconds = [s for s, _ in warm]
    print(f"command -> RunInstances accepted, median of {runs} warm runs: {statistics.median(seconds):.2f} s")
    print(f"  spread {min(seconds):.2f}-{max(seconds):.2f} s")
    print(f"  API calls before it: {sorted({calls for _, calls in warm})}; first run on a cold emulator: {cold[0]:.2f} s")


if __name__ == "__main__":
    main()

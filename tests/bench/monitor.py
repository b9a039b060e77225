"""What watching costs: processor time a second, of our sampler and of others on this host, and of the client for 64 hosts.

`python -m tests.bench.monitor` measures what is there: nvidia-smi, gpustat and nvitop are left out where they are not installed. A figure
is
the processor time of a process and all of its children, divided by the time that it ran; each is taken three times, in turn, and the
median is shown. On a host with a GPU the load is whatever runs there.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from provision.host.ssh import LOCALHOST, Target
from provision.watch.rows import rows
from provision.watch.run import watch
from provision.watch.state import Watched, WatchedHost
from tests.watch.samples import gpu, play_ssh

SECONDS = 20.0
EVERY_S = 2.0
SAMPLER = (
    "import asyncio\nfrom provision.host.ssh import LOCALHOST\nfrom provision.watch.stream import samples\n"
    f"async def main():\n    async for each in samples(LOCALHOST, {EVERY_S}):\n"
    "        print(each.cost_s if hasattr(each, 'cost_s') else 0, flush=True)\n"
    "asyncio.run(main())\n"
)


def of_program(argv: list[str]) -> float:
    """Processor seconds a second of a program that runs for the time, and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(SECONDS)
    os.killpg(process.pid, 15)
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / SECONDS


def of_sampler() -> float:
    """The same of what runs on the host, without the client: the sum that the samples themselves tell, and the start."""
    process = subprocess.Popen([sys.executable, "-c", SAMPLER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    costs: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        costs.append(float(process.stdout.readline()))
    process.terminate()
    process.wait()
    return sum(costs[1:]) / (EVERY_S * max(1, len(costs) - 1))


def of_client(hosts: int) -> float:
    """Processor seconds a second of the client that watches so many hosts of two GPUs and draws a table twice a second; ssh is a script."""
    with tempfile.TemporaryDirectory() as folder:
        before_path = os.environ["PATH"]
        os.environ["PATH"] = f"{play_ssh(Path(folder) / 'bin', gpu(), gpu(uuid='GPU-2'))}:{before_path}"
        targets = [WatchedHost(Target(f"good-{number}", f"good-{number}")) for number in range(hosts)]
        watched, ends = Watched(targets), 0.0
        began, spent = 0.0, 0.0

        def enough(now: float) -> bool:
            nonlocal ends, began, spent
            rows(watched, now)
            heard = all(state.sample is not None for state in watched.hosts.values())
            if heard and not ends:
                began, spent, ends = time.monotonic(), time.process_time(), now + SECONDS
            return bool(ends) and now >= ends

        asyncio.run(watch(targets, EVERY_S, watched.take, enough, tick_s=0.5))
        os.environ["PATH"] = before_path
        return (time.process_time() - spent) / (time.monotonic() - began)


def main() -> None:
    rivals: dict[str, Callable[[], float]] = {"gpuprov's sampler": of_sampler}
    loop = f"while :; do {{}}; sleep {EVERY_S}; done"
    for name, argv in {
        "nvidia-smi in a loop (as watch does)": ["sh", "-c", loop.format("nvidia-smi")],
        "nvidia-smi dmon": ["nvidia-smi", "dmon", "-d", str(int(EVERY_S))],
        "gpustat -i": ["gpustat", "-i", str(EVERY_S)],
        "gpustat in a loop": ["sh", "-c", loop.format("gpustat")],
        "nvitop in a loop": ["sh", "-c", loop.format("nvitop --once")],
    }.items():
        program = argv[0] if argv[0] != "sh" else argv[2].split()[3].rstrip(";")
        if shutil.which(program):
            rivals[name] = lambda argv=argv: of_program(argv)  # type: ignore[misc]
        else:
            print(f"left out: {name}: no {program} here")
    figures: dict[str, list[float]] = {name: [] for name in [*rivals, "gpuprov's client, 64 hosts"]}
    for _ in range(3):
        for name, measure in rivals.items():
            figures[name].append(measure())
        figures["gpuprov's client, 64 hosts"].append(of_client(64))
    print(f"processor time, per cent of a core, every {EVERY_S:g} s, median of 3 ({os.cpu_count()} cores, target {LOCALHOST.name})")
    for name, values in figures.items():
        print(f"  {name:40} {100 * statistics.median(values):7.2f} %   {json.dumps([round(100 * value, 2) for value in values])}")


if __name__ == "__main__":
    main()

"""What watching costs: processor time a second, of our sampler and of others on this host, and of the client and its screen for 64 hosts.

`python -m tests.bench.monitor` measures what is there. gpustat and nvitop come from the folder that PEERS names (`pip install --target
FOLDER gpustat nvitop`), else pip installs them for as long as this runs. What is not there, or fails on this host, is left out with the
reason: a program that ends at once would seem to cost nothing. A figure is the processor time of a process and all of its children,
divided by the time that it ran; each is taken three times, in turn, and the median is shown. On a host with a GPU the load is whatever
runs there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from provision.cli.screen import View
from provision.host.ssh import LOCALHOST, Target
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


class FailsHereError(Exception):
    """A program does not do its work on this host."""


def of_program(argv: list[str], environment: dict[str, str]) -> float:
    """Processor seconds a second of a program that runs for the time, and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=environment)
    time.sleep(SECONDS)
    code = process.poll()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()
    if code is not None:
        msg = f"it ended with {code} instead of going on"
        raise FailsHereError(msg)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / SECONDS


def try_once(argv: list[str], environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=environment, stdin=subprocess.DEVNULL)
    except OSError as error:
        msg = f"no {argv[0]} here"
        raise FailsHereError(msg) from error
    if done.returncode:
        msg = " ".join((done.stderr or done.stdout).split())[:100]
        raise FailsHereError(msg)


@contextlib.contextmanager
def peers() -> Iterator[dict[str, str]]:
    """The environment in which `python -m gpustat` and `python -m nvitop` are found, if they can be had."""
    with tempfile.TemporaryDirectory() as folder:
        where = os.environ.get("PEERS") or folder
        if where == folder:
            pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", folder, "gpustat", "nvitop"]
            subprocess.run(pip, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        yield {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), where]).strip(os.pathsep), "TERM": "xterm"}


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
    """Processor seconds a second of the client that watches so many hosts of two GPUs and draws its screen twice a second; ssh is a script.

    What rich needs to send the screen to a terminal is not in it.
    """
    with tempfile.TemporaryDirectory() as folder:
        before_path = os.environ["PATH"]
        os.environ["PATH"] = f"{play_ssh(Path(folder) / 'bin', gpu(), gpu(uuid='GPU-2'))}:{before_path}"
        targets = [WatchedHost(Target(f"good-{number}", f"good-{number}")) for number in range(hosts)]
        watched, view, ends = Watched(targets, EVERY_S), View(), 0.0
        began, spent = 0.0, 0.0

        def enough(now: float) -> bool:
            nonlocal ends, began, spent
            view.draw(watched, now, 160, 50)
            heard = all(state.sample is not None for state in watched.hosts.values())
            if heard and not ends:
                began, spent, ends = time.monotonic(), time.process_time(), now + SECONDS
            return bool(ends) and now >= ends

        asyncio.run(watch(targets, EVERY_S, watched.take, enough, tick_s=0.5))
        os.environ["PATH"] = before_path
        return (time.process_time() - spent) / (time.monotonic() - began)


def main() -> None:
    figures: dict[str, list[float]] = {}
    every, own, client = f"{EVERY_S:g}", "gpuprov's sampler", "gpuprov's client with its screen, 64 hosts"
    python = [sys.executable, "-m"]
    # What is measured, and one run of the program that shows whether it works here; a loop starts it again and again.
    rivals: dict[str, tuple[list[str], list[str]]] = {
        "nvidia-smi in a loop (as watch does)": ([], ["nvidia-smi"]),
        "nvidia-smi dmon": (["nvidia-smi", "dmon", "-d", every], ["nvidia-smi"]),
        "gpustat -i": ([*python, "gpustat", "-i", every], [*python, "gpustat"]),
        "gpustat in a loop": ([], [*python, "gpustat"]),
        "nvitop in a loop": ([], [*python, "nvitop", "--once"]),
    }
    with peers() as environment:
        for _ in range(3):
            figures.setdefault(own, []).append(of_sampler())
            for name, (argv, once) in list(rivals.items()):
                try:
                    try_once(once, environment)
                    spent = of_program(argv or ["sh", "-c", f'while "$@"; do sleep {every}; done', "sh", *once], environment)
                except FailsHereError as error:
                    print(f"left out: {name}: {error}")
                    del rivals[name]
                else:
                    figures.setdefault(name, []).append(spent)
            figures.setdefault(client, []).append(of_client(64))
    print(f"processor time, per cent of a core, every {EVERY_S:g} s, median ({os.cpu_count()} cores, target {LOCALHOST.name})")
    for name, values in figures.items():
        print(f"  {name:42} {100 * statistics.median(values):7.2f} %   {json.dumps([round(100 * value, 2) for value in values])}")


if __name__ == "__main__":
    main()

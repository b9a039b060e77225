"""Samples of hosts that behave, die, lie, stall and flood; and what is left of it all when the watching ends.

The programs in the place of ssh are scripts of ours: what counts here is what comes out of the pipe. `localhost` runs the real sampler.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from provision.host.ssh import LOCALHOST, Target
from provision.watch import stream
from provision.watch.sample import Sample
from provision.watch.stream import Lost, samples
from tests.waiting import until

from .samples import gpu, play_ssh


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for half a minute here."""
    monkeypatch.setattr(stream, "_BACK_OFF_S", (0.05,))


async def first(target: Target, count: int, interval_s: float = 0.05) -> list[Sample | Lost]:
    items: list[Sample | Lost] = []
    async with contextlib.aclosing(samples(target, interval_s)) as every:
        async for item in every:
            items.append(item)
            if len(items) == count:
                break
    return items


def of(name: str, count: int) -> list[Sample | Lost]:
    return asyncio.run(first(Target(name, name), count))


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = play_ssh(tmp_path / "bin", gpu())
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_this_machine_is_measured_by_the_real_sampler() -> None:
    one, two = asyncio.run(first(LOCALHOST, 2))
    assert isinstance(one, Sample)
    assert isinstance(two, Sample)
    assert (one.number, two.number) == (0, 1)
    assert one.host.cores == os.cpu_count()
    assert two.host.memory_bytes == psutil.virtual_memory().total
    assert (two.host.cpu_ticks or 0) >= (one.host.cpu_ticks or 0) > 0


@pytest.mark.usefixtures("hosts")
def test_banners_between_the_samples_are_passed_over() -> None:
    items = of("good", 3)
    assert [item.number for item in items if isinstance(item, Sample)] == [0, 1, 2]


@pytest.mark.usefixtures("hosts")
def test_a_host_that_dies_is_lost_and_then_watched_again() -> None:
    items = of("dies", 4)
    assert [type(item) for item in items] == [Sample, Sample, Lost, Sample]
    lost = items[2]
    assert isinstance(lost, Lost)
    assert lost.error.code == "host-unreachable"


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("lies", "sent a sample that is not one"),
        ("floods", "sends more than samples can be"),
        ("endless", "sent a line of more than"),
        ("refused", "Connection refused"),
    ],
)
def test_a_host_that_misbehaves_is_lost_with_the_reason(name: str, problem: str) -> None:
    items = of(name, 1 if name == "refused" else 2)
    lost = items[-1]
    assert isinstance(lost, Lost)
    assert problem in f"{lost.error.message} {lost.error.hint} {lost.error.detail}"
    assert lost.error.hint


@pytest.mark.usefixtures("hosts")
def test_a_host_that_stalls_is_lost_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_FIRST_S", 2.0)
    items = of("stalls", 3)
    assert [type(item) for item in items] == [Sample, Sample, Lost]


def test_a_host_without_python3_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    # The command goes to a shell that finds no python3.
    ssh.write_text('#!/bin/bash\nfor last; do :; done\nPATH=/nowhere exec /bin/bash -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (lost,) = of("bare", 1)
    assert isinstance(lost, Lost)
    assert lost.error.message == "bare has no python3"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_whoever_watches_may_be_killed_and_nothing_is_left_on_the_host(end: signal.Signals) -> None:
    program = (
        "import asyncio\nfrom provision.host.ssh import LOCALHOST\nfrom provision.watch.stream import samples\n"
        "async def main():\n    async for each in samples(LOCALHOST, 0.05):\n        print('sample', flush=True)\nasyncio.run(main())\n"
    )
    client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert client.stdout is not None
    client.stdout.readline()
    children = psutil.Process(client.pid).children(recursive=True)
    assert children
    client.send_signal(end)
    client.wait(20)
    client.stdout.close()
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children))

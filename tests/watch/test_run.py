"""Several hosts at once: none waits for another, and all end together."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import psutil
import pytest

from provision.host.ssh import Target
from provision.watch import stream
from provision.watch.run import watch
from provision.watch.sample import Sample
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost
from tests.waiting import LONG_S

from .samples import gpu, play_ssh


def samplers() -> list[psutil.Process]:
    """Children that sample and still run; one that has ended and that nobody has waited for yet does not."""
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in alive if "sample" in " ".join(child.cmdline())]


def test_a_host_that_stalls_keeps_no_other_waiting_and_nothing_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{play_ssh(tmp_path / 'bin', gpu())}:{os.environ['PATH']}")
    monkeypatch.setattr(stream, "_BACK_OFF_S", (0.05,))
    hosts = [WatchedHost(Target(name, name)) for name in ("good", "stalls", "refused", "dies")]
    watched, seen = Watched(hosts), Counter[tuple[str, type]]()

    def take(name: str, item: Sample | Lost, now: float) -> None:
        watched.take(name, item, now)
        seen[name, type(item)] += 1

    asyncio.run(watch(hosts, 0.05, take, lambda _: seen["good", Sample] > 20 and seen["dies", Sample] > 2, tick_s=0.02))
    assert seen["stalls", Sample] == 2
    assert seen["refused", Lost] > 0
    assert seen["dies", Lost] == 1
    assert samplers() == []


def test_hosts_that_are_being_connected_to_are_let_go_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{play_ssh(tmp_path / 'bin', gpu())}:{os.environ['PATH']}")
    (tmp_path / "bin" / "ssh").write_text("#!/bin/sh\nsleep 601\nexit 1\n")

    async def cancelled(rounds: int) -> None:
        task = asyncio.create_task(watch([WatchedHost(Target("h", "h"))], 0.05, lambda *_: None, lambda _: False))
        for _ in range(rounds):  # of the event loop: a moment later in the start each time
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=LONG_S)
        assert task.cancelled()

    for rounds in range(12):
        asyncio.run(cancelled(rounds))
    assert [child for child in psutil.Process().children(recursive=True) if "601" in child.cmdline()] == []

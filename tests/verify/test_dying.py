"""Hosts and connections that break off or hang, seen through the real ssh and a real sshd: bounded, and reported as what they are."""

import asyncio
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from provision.errors import GpuprovError, HostUnreachableError
from provision.host.ssh import Target
from provision.verify.observe import observe
from provision.verify.probe import run as probe

from .sshd import LIAR, Endpoint, Relay, executable, honest, needed

pytestmark = needed


@pytest.mark.parametrize("after", [0, 20, 1500, 2500, 3500, 5000])
def test_a_connection_that_dies_half_way_is_unreachable(host: Endpoint, after: int) -> None:
    def cut(to: socket.socket, data: bytes, seen: int) -> bool:
        to.sendall(data[: max(0, after - seen)])
        return seen + len(data) < after

    relay = Relay(host.port, cut)
    host.reach(relay.port)
    host.program("python3", f"{LIAR}GOOD['facts']['x'] = os.urandom(9000).hex(); frame(packed(GOOD))\n")
    try:
        with pytest.raises(HostUnreachableError) as caught:
            host.look()
    finally:
        relay.close()
    assert caught.value.exit_code == 3
    assert caught.value.hint


@pytest.mark.parametrize("at", [10, 2500, 4500])
def test_a_byte_changed_on_the_way_is_noticed(host: Endpoint, at: int) -> None:
    def change(to: socket.socket, data: bytes, seen: int) -> bool:
        changed = bytearray(data)
        if seen <= at < seen + len(data):
            changed[at - seen] ^= 1
        to.sendall(changed)
        return True

    relay = Relay(host.port, change)
    host.reach(relay.port)
    host.program("python3", f"{LIAR}GOOD['facts']['x'] = os.urandom(9000).hex(); frame(packed(GOOD))\n")
    try:
        with pytest.raises(GpuprovError) as caught:
            host.look(timeout_s=10)
    finally:
        relay.close()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("how", ["exec sleep 60", "kill -9 $PPID; sleep 60", 'setsid sleep 8 & echo "left one behind"', "kill -9 $$"])
def test_a_login_that_hangs_or_dies_is_bounded(host: Endpoint, how: str) -> None:
    host.login(how)
    started = time.monotonic()
    with pytest.raises(GpuprovError) as caught:
        host.look(timeout_s=3)
    assert time.monotonic() - started < 6
    assert caught.value.exit_code == 3


def test_an_ssh_that_is_killed_and_one_that_leaves_a_child_with_its_pipes_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for text in ("kill -9 $$", "setsid sleep 8 & exit 0", "exit 255"):
        executable(tmp_path / "ssh", f"#!/bin/sh\n{text}\n")
        started = time.monotonic()
        with pytest.raises(GpuprovError) as caught:
            asyncio.run(observe(Target("gone", "gone"), timeout_s=3))
        assert time.monotonic() - started < 6
        assert caught.value.exit_code == 3


def test_a_tool_that_hangs_or_floods_costs_its_own_fact(host: Endpoint) -> None:
    sleeping = f"sleep 61.{host.port}"
    host.program("gcc", f"#!/bin/sh\nsetsid {sleeping} & exec {sleeping}\n")
    host.program("make", "#!/bin/sh\nexec yes\n")
    host.program("git", "#!/bin/sh\nsleep 7 & echo git version 2.39.2\n")
    started = time.monotonic()
    facts = host.look(timeout_s=15)
    assert time.monotonic() - started < 15
    assert "12 s" in facts.raw["tool_gcc"]["unknown"]
    assert "printed more than" in facts.raw["tool_make"]["unknown"]
    assert facts.tool("git") is not None  # what a child left behind holds open is not waited for
    assert honest(facts)
    left = subprocess.run(["pgrep", "-fx", sleeping], capture_output=True, text=True, check=False).stdout.split()
    assert len(left) <= 1  # the one that left its session on purpose


def test_a_fact_that_hangs_where_nothing_can_end_it_is_late_by_its_own_deadline_alone() -> None:
    def stuck() -> None:
        time.sleep(20)

    vars(stuck)["deadline_s"] = 0.3
    started = time.monotonic()
    told = probe.gather({"stuck": stuck, "fine": lambda: 1}, 30)  # type: ignore[no-untyped-call]
    assert time.monotonic() - started < 5
    assert told["fine"] == {"value": 1}
    assert "not observed within" in told["stuck"]["unknown"]

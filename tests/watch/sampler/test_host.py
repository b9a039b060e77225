"""What the sampler reads of the host itself, on this machine's own /proc."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from provision.watch.stream import SAMPLER
from tests.waiting import until


@pytest.fixture
def host() -> Any:
    """The sampler's module, as it is on the host."""
    spec = importlib.util.spec_from_file_location("host", SAMPLER / "host.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_counters_agree_with_those_of_psutil(host: Any) -> None:
    read, disk = host.HostReader().sample(), psutil.disk_usage("/")
    assert read["memory_bytes"] == psutil.virtual_memory().total
    assert read["root_bytes"] == pytest.approx(disk.total)
    assert read["cpu_ticks"] == pytest.approx(sum(psutil.cpu_times()[:8]) * os.sysconf("SC_CLK_TCK"), rel=0.01)
    links = psutil.net_io_counters(pernic=True)
    assert read["network_received_bytes"] <= sum(each.bytes_recv for name, each in links.items() if name != "lo")


def test_a_process_has_its_user_and_its_words_and_one_that_is_gone_is_none(host: Any) -> None:
    reader = host.HostReader()
    with subprocess.Popen([sys.executable, "-c", "input()", "a word"], stdin=subprocess.PIPE) as child:
        until(lambda: "a word" in reader.process(child.pid)["command"])
        assert reader.process(child.pid)["user"] == psutil.Process(child.pid).username()
        child.communicate(b"\n")
    assert reader.process(child.pid) is None


@pytest.mark.parametrize(
    ("line", "container"),
    [
        ("0::/system.slice/docker-0123456789ab0123456789ab0123456789ab0123456789ab0123456789abcdef.scope", "0123456789ab"),
        ("0::/user.slice/user-1000.slice/libpod-aaaaaaaaaaaa0123456789ab.scope/container", "aaaaaaaaaaaa"),
        ("0::/kubepods.slice/cri-containerd-bbbbbbbbbbbb0123.scope", "bbbbbbbbbbbb"),
        ("0::/user.slice/user-1000.slice/session-1.scope", None),
    ],
)
def test_a_container_is_known_by_its_control_group(host: Any, line: str, container: str | None) -> None:
    match = host.CONTAINER.search(line)
    assert (match.group(1) if match else None) == container


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("nvme0n1", True),
        ("nvme0n1p1", False),
        ("sda", True),
        ("sda1", False),
        ("vda", True),
        ("xvdb", True),
        ("loop0", False),
        ("dm-0", False),
    ],
)
def test_bytes_are_counted_once_at_the_whole_disk(host: Any, name: str, *, whole: bool) -> None:
    assert bool(host.WHOLE_DISK.match(name)) is whole

"""`monitor` beyond its screen: which hosts, when it ends and with which exit code, and the page for Prometheus over HTTP."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from provision.errors import EXIT_OK, UsageError
from provision.host.ssh import Target
from provision.watch import stream
from provision.watch.idle import Occupation
from provision.watch.state import Watched, WatchedHost
from provision.workflow.monitor import MonitorRequest, MonitorResult, run, served
from tests.watch.samples import IDLE, gpu, play_ssh, sample

QUIET = {**IDLE, "memory_used_bytes": 0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BACK_OFF_S", (0.1,))


def watch(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, readings: dict[str, Any], **request: Any) -> MonitorResult:
    monkeypatch.setenv("PATH", f"{play_ssh(folder / 'bin', gpu(**readings))}:{os.environ['PATH']}")
    hosts = tuple(WatchedHost(Target(name, name)) for name in names)
    return run(MonitorRequest(hosts, 0.05, **request), Watched(hosts), [], lambda: False)


def test_it_ends_when_every_host_has_been_idle_for_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = watch(tmp_path, monkeypatch, "good-1", "good-2", readings=QUIET, idle_s=1.0, for_s=60)
    assert {verdict.occupation for verdict in result.idle.values()} == {Occupation.IDLE}
    assert result.exit_code == EXIT_OK


def test_the_page_is_served_while_it_lasts_and_not_after() -> None:
    before = set(threading.enumerate())
    watched = Watched([WatchedHost(Target("a", "a"))])
    watched.take("a", sample(gpu()), 1e12)
    with served(watched, ("127.0.0.1", 0)) as port:
        answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10)
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "gpuprov_up" in answer.text
        assert requests.get(f"http://127.0.0.1:{port}/other", timeout=10).status_code == 404
    assert not [thread for thread in set(threading.enumerate()) - before if "serve_forever" in thread.name]
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10)


def test_an_address_that_is_taken_is_an_error_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(UsageError, match="cannot listen on") as caught, served(Watched([]), taken.getsockname()):
            pass
        assert "free port" in caught.value.hint

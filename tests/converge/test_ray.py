"""The role for a Ray cluster on a real host: its unit, its user and its undo. Ray is a small stand-in from an index of the test's own."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.catalog import overlay
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.profile.own import from_file
from provision.rehearsal import rootfs
from provision.verify.finding import Finding
from tests.waiting import until
from tests.wheel_index import Index

from .conftest import Host, Lab

pytestmark = pytest.mark.rehearsal

PORT = 6379
TASK = "ray: Put the host into the Ray cluster, now and at boot"
VENV = "/opt/gpuprov/venvs/pytorch"
# What `ray start --block` does, without Ray: a head listens, and a process by the name of raylet is connected to it while both live.
STAND_IN = """
import ctypes, os, re, socket, sys, time

def main():
    words = " ".join(sys.argv[1:])
    folder = os.path.join("/tmp", "ray")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "said"), "w") as said:
        said.write(" ".join([words, os.environ["HOME"], os.environ["RAY_USAGE_STATS_ENABLED"], os.getcwd()]))
    host, port = (re.search("--address=([^:]+):", words) or [0, "127.0.0.1"])[1], int(re.search("(?:--port=|:)([0-9]+)", words)[1])
    server = socket.create_server(("", port)) if "--head" in words else None
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b"raylet")
        connected = socket.create_connection((host, port), timeout=5)
        connected.settimeout(None)
        sys.exit(bool(connected.recv(1)))
    accepted = server.accept() if server else None
    os.wait()
    sys.exit(1)
"""


@pytest.fixture(scope="module")
def index(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    packages: dict[str, dict[str, tuple[str, ...]]] = {"torch": {"2.10.0": ()}, "ray": {"2.60.0": ()}}
    made = Index(tmp_path_factory.mktemp("index"), packages, lab.gateway, {"ray": STAND_IN})
    yield made
    made.close()


class Cluster:
    """The host with profiles that differ in `stack.ray` alone."""

    def __init__(self, lab: Lab, profile: Profile, index: Index, folder: Path) -> None:
        self.lab, self.profile, self.index, self.folder = lab, profile, index, folder

    def host(self, ray: dict[str, Any] | None) -> Host:
        plain = self.profile.dump()
        plain["stack"] |= {"frameworks": {"pytorch": "2.10.0"}, "extras": [], "python": {"requirements": "requirements.txt"}}
        plain["stack"] |= {"ray": ray} if ray else {}
        plain["sources"]["wheels"] = {"url": self.index.url}
        asked = Profile.model_validate(plain)
        lock = build(asked, dt.date(2026, 11, 21), system=rootfs.system(), own=from_file(asked, self.folder / "x.yml"))
        return Host(self.lab, asked, lock, self.folder)


@pytest.fixture
def cluster(lab: Lab, profile: Profile, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("GPUPROV_OVERLAY", str(tmp_path / "overlay.json"))
    refreshed = overlay.Part("wheels", dt.datetime(2026, 11, 21, tzinfo=dt.UTC), "a test")
    overlay.write(overlay.Overlay(parts=[refreshed], wheels={"torch-2.10.0-cp311": f"{index.pins['torch 2.10.0']}\n"}))
    (tmp_path / "requirements.txt").write_text("ray\n")
    return Cluster(lab, profile, index, tmp_path)


def ray(host: Host) -> Finding:
    return host.findings()["ray"]


def starts(lab: Lab) -> str:
    return lab.shell("systemctl show --property=InvocationID gpuprov-ray.service")


def test_a_head_lives_starts_again_with_a_new_environment_and_is_taken_back(lab: Lab, cluster: Cluster) -> None:
    host = cluster.host({"head": "self"})
    before = host.before()
    assert ray(host).observed == "there is no gpuprov-ray.service"
    host.converge("first", ("ray",))  # with the environment that it is started from
    found = ray(host)
    assert (found.outcome, found.observed) == ("pass", "a raylet runs, and the head listens on port 6379"), found
    words = "start --block --head --port=6379 --dashboard-host=127.0.0.1 --disable-usage-stats"
    assert lab.shell("cd /tmp && cat ray/said") == f"{words} /var/lib/gpuprov-ray 0 /var/lib/gpuprov-ray"
    assert lab.shell("cd /tmp && stat -c '%U %a' ray /var/lib/gpuprov-ray").split("\n") == ["gpuprov-ray 777", "gpuprov-ray 700"]
    assert lab.shell("getent passwd gpuprov-ray").rpartition(":")[2] in {"/usr/sbin/nologin", "/sbin/nologin"}
    assert lab.shell("id -nG gpuprov-ray") == "gpuprov-ray", "no group gives it sudo"
    event_log = "import ray, os; print(ray.__version__, os.environ['RAY_event_log_reporter_enabled'])"
    assert lab.shell(f'with-ray python -c "{event_log}"') == "2.60.0 0"
    assert host.converge("second", ("ray",)).changed_tasks == ()

    was = starts(lab)
    lab.shell(f"sudo touch {VENV}/bin/ray")
    assert host.converge("new environment", ("ray",)).changed_tasks == (TASK,)
    assert starts(lab) != was
    lab.shell("sudo systemctl stop gpuprov-ray.service")
    assert lab.shell("systemctl is-failed gpuprov-ray.service", check=False) == "inactive", "its end is no failure"
    assert ray(host).observed == "not active"
    assert host.converge("stopped", ("ray",)).changed_tasks == (TASK,)
    assert ray(host).outcome == "pass"
    lab.reboot()
    until(lambda: ray(host).outcome == "pass")

    host.undo("undo")
    assert lab.shell("getent passwd gpuprov-ray; getent group gpuprov-ray; cd /tmp; ls -d ray /var/lib/gpuprov-ray", check=False) == ""
    differs = set(before.splitlines()) ^ set(host.state().splitlines())
    assert {line for line in differs if not re.search(r" /etc/(passwd|shadow|group|gshadow)-?( |$)", line)} == set()


def test_a_worker_waits_for_its_head_and_leaves_with_the_key_of_the_profile(lab: Lab, cluster: Cluster) -> None:
    host = cluster.host({"head": lab.gateway})
    lab.shell("cd /tmp && sudo install -d -o ubuntu -m 777 ray")  # somebody's own
    with contextlib.closing(socket.socket()) as head:
        head.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        head.bind((lab.gateway, PORT))
        head.listen()
        host.converge("first", ("ray",))
        found = ray(host)
        assert (found.outcome, found.observed) == ("pass", f"a raylet runs, connected to {lab.gateway} at port 6379"), found
    # The connections of the stand-in end with the socket; those that were never accepted are reset.
    until(lambda: ray(host).outcome == "fail")
    with socket.create_server((lab.gateway, PORT)):
        until(lambda: ray(host).outcome == "pass")

        left = cluster.host(None)
        stayed = ray(left)
        assert (stayed.outcome, stayed.role) == ("fail", "ray"), stayed
        left.converge("left", ("ray",))
        assert ray(left).outcome == "not-applicable"
    assert lab.shell("getent passwd gpuprov-ray", check=False) == ""
    assert lab.shell("cd /tmp && stat -c %U ray") == "ubuntu"
    assert left.converge("again", ("ray",)).changed_tasks == ()
    left.undo("undo")

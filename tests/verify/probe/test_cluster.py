"""What the probe sees of a Ray cluster: the kernel's tables, processes and names as a test writes them, and real sockets."""

import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

# As the kernel of a head wrote it, for the user 5: Ray's GCS on port 6379, and connections in IPv6's form (2026-11-25, Ray 2.60.0).
HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000"
LISTENS = f"   1: 00000000000000000000000000000000:18EB 00000000000000000000000000000000:0000 0A {REST}     5        0 1 1 0 0\n"
CONNECTED = f"  10: 0000000000000000FFFF0000020200C0:BC98 0000000000000000FFFF0000020200C0:18EB 01 {REST}     5        0 345259 1 0\n"
OVER_V4 = f"   2: 0B00000A:BC98 0500000A:18EB 01 {REST}     5        0 345259 1 0\n"


@pytest.fixture
def proc(probe: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc without processes and sockets, of a host whose user gpuprov-ray has the number 5."""
    folder = tmp_path / "proc"
    (folder / "net").mkdir(parents=True)
    for name in ("tcp", "tcp6"):
        (folder / "net" / name).write_text(HEADING)
    process(folder, 1, "systemd", uid=0)
    monkeypatch.setattr(probe.cluster, "PROC", str(folder))
    monkeypatch.setattr(probe.cluster.pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid={"gpuprov-ray": 5}[name]))
    return folder


def process(folder: Path, pid: int, name: str, *, uid: int = 5, state: str = "S (sleeping)") -> None:
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "status").write_text(f"Name:\t{name}\nUmask:\t0000\nState:\t{state}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


def table(folder: Path, *lines: str, name: str = "tcp6") -> None:
    (folder / "net" / name).write_text(HEADING + "".join(lines))


def starts(probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, words: str) -> dict[str, Any]:
    """The fact of a host whose unit starts Ray with these words."""
    state = {"exists": True, "enabled": True, "active": True, "command": f"/opt/gpuprov/venvs/pytorch/bin/ray start --block {words}"}
    monkeypatch.setattr(probe.cluster, "unit", lambda name: {"gpuprov-ray.service": state}[name])
    seen: dict[str, Any] = probe.cluster.ray()
    assert seen.pop("unit") == state
    return seen


def test_a_head_listens_and_its_raylet_lives(probe: SimpleNamespace, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(proc, 20486, "raylet")
    table(proc, LISTENS, CONNECTED)
    seen = starts(probe, monkeypatch, "--head --port=6379 --dashboard-host=127.0.0.1 --disable-usage-stats")
    assert seen == {"port": 6379, "head": [], "raylet": True, "listens": True, "connected": ["192.0.2.2"]}


@pytest.mark.skipif(sys.byteorder != "little", reason="the tables are those of a little-endian machine")
def test_a_worker_is_connected_to_the_head_s_port(probe: SimpleNamespace, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(proc, 7, "raylet")
    table(proc, OVER_V4, OVER_V4.replace("0500000A:18EB", "0600000A:2710"), name="tcp")
    seen = starts(probe, monkeypatch, "--address=10.0.0.5:6379 --disable-usage-stats")
    assert seen == {"port": 6379, "head": ["10.0.0.5"], "raylet": True, "listens": False, "connected": ["10.0.0.5"]}


@pytest.mark.parametrize(
    "line",
    [
        CONNECTED.replace("     5  ", "     6  "),  # another user's
        CONNECTED.replace(" 01 ", " 06 "),  # TIME_WAIT
        CONNECTED.replace(":18EB", ":18EC"),
        "  10: broken\n",
    ],
)
def test_another_connection_is_not_ray_s(probe: SimpleNamespace, proc: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    table(proc, line, LISTENS.replace("     5  ", "     6  "))
    seen = starts(probe, monkeypatch, "--address=192.0.2.2:6379 --disable-usage-stats")
    assert (seen["connected"], seen["listens"], seen["raylet"]) == ([], False, False)


@pytest.mark.parametrize(("name", "changed"), [("gcs_server", {}), ("raylet", {"uid": 1000}), ("raylet", {"state": "Z (zombie)"})])
def test_another_process_is_no_raylet_that_lives(probe: SimpleNamespace, proc: Path, name: str, changed: dict[str, Any]) -> None:
    process(proc, 7, name, **changed)
    assert probe.cluster.raylet_lives(5) is False


def test_where_processes_of_others_are_hidden_nothing_is_said_of_the_raylet(probe: SimpleNamespace, proc: Path) -> None:
    (proc / "1" / "status").unlink()
    with pytest.raises(probe.run.Unknown, match="processes of others"):
        probe.cluster.raylet_lives(5)
    process(proc, 7, "raylet")
    assert probe.cluster.raylet_lives(5) is True


def test_without_the_kernel_s_table_nothing_is_said_and_without_ipv6_s_the_rest_is(probe: SimpleNamespace, proc: Path) -> None:
    table(proc, OVER_V4, name="tcp")
    (proc / "net" / "tcp6").unlink()
    assert len(probe.cluster.sockets(5)[1]) == 1
    (proc / "net" / "tcp").unlink()
    with pytest.raises(probe.run.Unknown, match="net/tcp"):
        probe.cluster.sockets(5)


def test_a_name_is_looked_up_on_the_host(probe: SimpleNamespace, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert proc
    known = {"head-1": [(0, 0, 0, "", ("10.0.0.5", 0)), (0, 0, 0, "", ("10.0.0.5", 0)), (0, 0, 0, "", ("10.0.0.4", 0))]}

    def look_up(host: str, _port: None, **_more: int) -> Any:
        if host not in known:
            raise socket.gaierror
        return known[host]

    monkeypatch.setattr(probe.cluster.socket, "getaddrinfo", look_up)
    assert starts(probe, monkeypatch, "--address=head-1:6379")["head"] == ["10.0.0.4", "10.0.0.5"]
    assert starts(probe, monkeypatch, "--address=head-2:6379")["head"] is None


def test_a_host_without_the_unit_and_its_user_is_in_no_cluster(probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"exists": False, "enabled": False, "active": False, "command": ""}
    monkeypatch.setattr(probe.cluster, "unit", lambda _: nothing)
    monkeypatch.setattr(probe.cluster, "USER", "nobody-has-this-name")
    assert probe.cluster.ray() == {"unit": nothing, "port": None, "head": [], "raylet": False, "listens": False, "connected": []}


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_tables_of_this_machine_show_a_real_connection(probe: SimpleNamespace, family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1"
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind((host, 0))
        server.listen()
        port = server.getsockname()[1]
        assert port in probe.cluster.sockets(os.geteuid())[0]
        assert ("127.0.0.1", port) not in probe.cluster.sockets(os.geteuid())[1]
        client.connect((host, port))
        assert ("127.0.0.1", port) in probe.cluster.sockets(os.geteuid())[1]

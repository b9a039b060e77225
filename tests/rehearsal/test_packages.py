"""The package proxies, before they are started."""

import configparser
import socket
from pathlib import Path

import pytest

from provision.rehearsal import packages as module
from provision.rehearsal.packages import _DOWNLOAD_S, Packages, _free_ports, _Wheels


def test_a_host_is_not_sent_to_proxies_that_do_not_run(tmp_path: Path) -> None:
    assert Packages(tmp_path / "cache", tmp_path / "logs").host_files() == {}


def test_a_port_that_is_in_use_is_not_taken() -> None:
    first, second = _free_ports("127.0.0.1")
    assert first < second < 32_768
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert first not in _free_ports("127.0.0.1")


def test_pip_on_a_host_waits_as_long_as_its_proxy_downloads(tmp_path: Path) -> None:
    """The proxy answers when it has the whole wheel; pip's own limit of 15 s ends a large one over a slow line."""
    packages = Packages(tmp_path / "cache", tmp_path / "logs")
    packages.start("127.0.0.1")
    try:
        pip = configparser.ConfigParser()
        pip.read_string(packages.host_files()["etc/pip.conf"])
    finally:
        packages.close()
    assert pip.getint("global", "timeout") == _DOWNLOAD_S


def test_what_one_rehearsal_fetched_the_next_one_has(tmp_path: Path) -> None:
    first = _Wheels(tmp_path)
    _put(first.folder / "files" / "a.whl", b"a")
    _put(first.folder / "files" / "b.whl.proxpi-partial", b"half")
    first.close()
    second = _Wheels(tmp_path)
    assert (second.folder / "files" / "a.whl").read_bytes() == b"a"
    assert not list(second.folder.rglob("b.whl*"))
    second.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proxpi", "proxpi.lock"]


def test_a_rehearsal_touches_no_file_of_another_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_GB", 0)  # whoever ends keeps nothing
    running, other = _Wheels(tmp_path), _Wheels(tmp_path)
    _put(running.folder / "files" / "a.whl.proxpi-partial", b"half")
    _put(other.folder / "files" / "b.whl", b"b")
    other.close()
    third = _Wheels(tmp_path)
    assert (running.folder / "files" / "a.whl.proxpi-partial").exists()
    assert not list((tmp_path / "proxpi").rglob("*.whl"))
    third.close()
    running.close()


def test_the_folder_of_a_killed_rehearsal_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    _put(tmp_path / "proxpi-killed" / "files" / "a.whl", b"a")
    (tmp_path / "proxpi-killed.lock").touch()
    _Wheels(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proxpi", "proxpi.lock"]


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)

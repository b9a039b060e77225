"""The package proxies, before they are started."""

import configparser
import socket
from pathlib import Path

from provision.rehearsal.packages import _DOWNLOAD_S, Packages, _free_ports


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

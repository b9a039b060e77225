"""The inventory and the ssh options that Ansible gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from provision.converge import connection
from provision.host.ssh import LOCALHOST, Target

RUN = Path("/run/r")


def target(folder: Path, *lines: str) -> Target:
    config = folder / "config"
    config.write_text("\n".join(["Host lab", " User ubuntu", *lines]) + "\n")
    return Target("lab", "lab", config)


def host(target_: Target, run_dir: Path = RUN) -> dict[str, Any]:
    hosts: dict[str, Any] = json.loads(connection.inventory(target_, run_dir))["all"]["hosts"]
    assert list(hosts) == [target_.name]
    return {key: value["__ansible_unsafe"] if isinstance(value, dict) else value for key, value in hosts[target_.name].items()}


def test_the_user_is_the_one_of_the_ssh_configuration(tmp_path: Path) -> None:
    assert connection.user_of(target(tmp_path)) == "ubuntu"


def test_the_local_user_becomes_root_unless_it_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("LOGNAME", "ada")
    assert connection.user_of(LOCALHOST) == "ada"
    assert host(LOCALHOST) == {"ansible_become": True, "ansible_connection": "local"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert host(LOCALHOST)["ansible_become"] is False


def test_host_keys_are_checked_and_one_connection_is_shared(tmp_path: Path) -> None:
    arguments = host(target(tmp_path))["ansible_ssh_common_args"]
    assert arguments.startswith(f"-F {tmp_path}/config -o BatchMode=yes -o StrictHostKeyChecking=yes")
    assert f"ControlPath={RUN}/%C" in arguments


@pytest.mark.parametrize(("line", "folder"), [(" ControlMaster auto", RUN), ("", Path("/run") / ("long" * 12))])
def test_a_shared_connection_of_the_user_is_kept_and_no_socket_path_is_too_long(tmp_path: Path, line: str, folder: Path) -> None:
    assert "ControlPath" not in host(target(tmp_path, line), folder)["ansible_ssh_common_args"]

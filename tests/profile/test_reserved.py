"""What a profile may not take; through `load`, as every command reads one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.errors import ProfileInvalidError
from provision.profile import load

from .test_load import with_

ED25519 = base64.b64encode(b"\x00\x00\x00\x0bssh-ed25519" + b"\x00\x00\x00 " + b"k" * 32).decode()


def complaint(folder: Path, key: str, value: Any) -> str:
    """What is said of a profile with another value; empty when it holds."""
    path = folder / "p.yml"
    path.write_text(yaml.safe_dump(with_(key, value)))
    try:
        load.load(path)
    except ProfileInvalidError as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    "mount",
    [
        *("/home", "/home/ubuntu", "/home/ubuntu/.ssh", "/var", "/var/lib", "/var/lib/dpkg", "/tmp", "/opt", "/opt/", "/opt/gpuprov"),
        *("/snap", "/lib32", "/libx32/y", "/root", "/usr/local", "/run/user", "/opt/nvidia"),
    ],
)
def test_a_disk_never_hides_the_system_or_a_home(tmp_path: Path, mount: str) -> None:
    assert "disks.data.mount" in complaint(tmp_path, "disks.data.mount", mount)


@pytest.mark.parametrize("mount", ["/data", "/mnt", "/mnt/data", "/srv/sets", "/opt/datasets", "/homes", "/var/lib/docker", "/scratch"])
def test_a_disk_may_be_anywhere_else(tmp_path: Path, mount: str) -> None:
    assert complaint(tmp_path, "disks.data.mount", mount) == ""


@pytest.mark.parametrize(
    "name", ["root", "www-data", "_apt", "sudo", "syslog", "wheel", "docker", "systemd-network", "nvidia-persistenced"]
)
def test_a_login_is_no_account_of_the_system(tmp_path: Path, name: str) -> None:
    assert f"{name} is an account of the system" in complaint(tmp_path, "users", [{"name": name}])


def test_a_user_occurs_once(tmp_path: Path) -> None:
    assert "ada occurs twice" in complaint(tmp_path, "users", [{"name": "ada"}, {"name": "bob"}, {"name": "ada"}])
    assert complaint(tmp_path, "users", [{"name": "ada"}, {"name": "bob"}]) == ""


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (f"ssh-rsa {ED25519}", "says ssh-rsa and holds another type of key"),
        (f"ssh-ed25519 {ED25519[:-3]}", "not base64"),
        (f"ssh-ed25519 {ED25519} ada@lab", ""),
    ],
)
def test_a_key_is_of_the_type_that_it_says(tmp_path: Path, key: str, said: str) -> None:
    said_of = complaint(tmp_path, "users", [{"name": "ada", "ssh_keys": [key]}])
    assert said in said_of
    assert bool(said) == bool(said_of)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://mirror.example:99999/apt", "ports end at 65535"),
        ("https://mirror.example:0/apt", "ports begin at 1"),
        ("https://mirror.example/a/../b", "'..'"),
        ("http://169.254.169.254/latest", "metadata"),
        ("http://0.0.0.0/apt", "not a mirror's address"),
        ("https://mirror.example:65535/apt", ""),
        ("http://10.0.0.5/apt", ""),
    ],
)
def test_a_mirror_is_at_an_address_that_can_be_one(tmp_path: Path, url: str, said: str) -> None:
    said_of = complaint(tmp_path, "sources", {"wheels": {"url": url}})
    assert said in said_of
    assert bool(said) == bool(said_of), said_of


def test_a_purpose_can_be_seen(tmp_path: Path) -> None:
    assert "shows nothing" in complaint(tmp_path, "purpose", "\u3164\u2800")
    assert complaint(tmp_path, "purpose", "\u3164x") == ""


def test_a_profile_is_not_called_as_this_machine(tmp_path: Path) -> None:
    assert "localhost is this machine" in complaint(tmp_path, "name", "localhost")

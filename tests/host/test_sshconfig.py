"""The include file: `ssh gpuprov-NAME` as OpenSSH itself reads it, and the user's own configuration left alone."""

import stat
import subprocess
from pathlib import Path

import pytest

from provision.host.sshconfig import SshHome

KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43,)


@pytest.fixture
def user_config(tmp_path: Path) -> Path:
    path = tmp_path / "dot-ssh" / "config"
    path.parent.mkdir()
    path.write_text("Host jump\n  User me\n")
    return path


def resolved(config: Path, host: str) -> dict[str, str]:
    out = subprocess.run(["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


def test_openssh_reads_the_entry_through_the_users_own_configuration(tmp_path: Path, user_config: Path) -> None:
    home = SshHome(tmp_path / "home with space", user_config)
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    for config in (user_config, home.target("a").config):
        assert config is not None
        seen = resolved(config, "gpuprov-a")
        assert (seen["hostname"], seen["user"], seen["stricthostkeychecking"]) == ("10.0.0.7", "ubuntu", "true")
        assert resolved(config, "jump")["user"] == "me"


def test_removing_the_last_entry_gives_the_users_file_back_to_the_byte(tmp_path: Path, user_config: Path) -> None:
    before = user_config.read_bytes()
    home = SshHome(tmp_path / "home", user_config)
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    home.add("b", address="10.0.0.8", login="ubuntu", keys=KEYS)
    home.add("a", address="10.0.0.9", login="ubuntu", keys=KEYS)
    assert user_config.read_text().count("Include") == 1
    assert resolved(user_config, "gpuprov-a")["hostname"] == "10.0.0.9"
    home.remove("a")
    assert home.knows("b")
    assert not home.knows("a")
    home.remove("b")
    assert user_config.read_bytes() == before
    assert home.known_hosts.read_text() == ""


def test_what_is_private_can_be_entered_by_its_owner_only(tmp_path: Path, user_config: Path) -> None:
    home = SshHome(tmp_path / "home", user_config)
    assert home.public_key().startswith("ssh-ed25519 ")
    assert home.public_key() == home.public_key()
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.folder / "id_ed25519").stat().st_mode) == 0o600


def test_a_user_without_any_configuration_gets_a_private_one(tmp_path: Path) -> None:
    config = tmp_path / "new" / ".ssh" / "config"
    config.parent.parent.mkdir()
    SshHome(tmp_path / "home", config).add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600

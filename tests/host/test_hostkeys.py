"""Host keys: read from what a console really prints, kept so that exactly they are known."""

import subprocess
from pathlib import Path

from provision.host import hostkeys

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
BLOCK = (
    "<14>Nov 21 03:00:00 cloud-init: #############\r\n"
    "-----BEGIN SSH HOST KEY KEYS-----\r\n"
    f"ssh-ed25519 {KEY} root@host\r\n"
    f"ecdsa-sha2-nistp256 AAAAE2VjZHNh{'B' * 120}= root@host\r\n"
    "-----END SSH HOST KEY KEYS-----\r\n"
)


def test_the_keys_between_cloud_inits_markers_are_read() -> None:
    keys = hostkeys.parse_console(f"boot\r\n{BLOCK}login: ")
    assert keys[0] == f"ssh-ed25519 {KEY}"
    assert keys[1].startswith("ecdsa-sha2-nistp256 AAAAE2VjZHNh")


def test_no_block_or_half_a_block_is_no_key() -> None:
    assert hostkeys.parse_console("") == ()
    assert hostkeys.parse_console(BLOCK.split("-----END", maxsplit=1)[0]) == ()
    assert hostkeys.parse_console(f"ssh-ed25519 {KEY} outside the markers") == ()


def test_the_last_block_wins_because_a_console_keeps_earlier_boots() -> None:
    older = BLOCK.replace(KEY, KEY[:-1] + "Z")
    assert hostkeys.parse_console(older + BLOCK)[0].endswith(KEY)


def test_remembering_replaces_and_forgetting_removes_one_alias_only(tmp_path: Path) -> None:
    known_hosts = tmp_path / "known_hosts"
    hostkeys.remember(known_hosts, "gpuprov-a", ["ssh-ed25519 OLD"])
    hostkeys.remember(known_hosts, "gpuprov-ab", ["ssh-ed25519 OTHER"])
    hostkeys.remember(known_hosts, "gpuprov-a", ["ssh-ed25519 NEW", "ssh-rsa NEW"])
    assert known_hosts.read_text() == "gpuprov-ab ssh-ed25519 OTHER\ngpuprov-a ssh-ed25519 NEW\ngpuprov-a ssh-rsa NEW\n"
    hostkeys.forget(known_hosts, "gpuprov-a")
    assert known_hosts.read_text() == "gpuprov-ab ssh-ed25519 OTHER\n"


def test_the_public_part_of_a_fresh_private_key_is_what_ssh_keygen_says(tmp_path: Path) -> None:
    private = hostkeys.fresh_private_key()
    file = tmp_path / "key"
    file.write_text(private)
    file.chmod(0o600)
    said = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True).stdout
    assert hostkeys.public_of(private) == " ".join(said.split()[:2])
    assert hostkeys.parse_lines(said) == (hostkeys.public_of(private),)
    assert private != hostkeys.fresh_private_key()


def test_a_text_that_is_no_private_key_stays_what_it_is() -> None:
    assert hostkeys.public_of("<the host key>") == "<the host key>"

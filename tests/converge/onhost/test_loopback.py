"""The login of a host on itself: the key is one line among the user's, for one observation, and root follows nothing in her home."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.converge.onhost.loopback import over_ssh
from provision.errors import HostUnreachableError

NOBODY = 65534
THEIRS = "ssh-ed25519 AAAAtheirs ada@laptop"


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of a user without rights; she can reach it, which she cannot below the folder of the tests."""
    if os.geteuid() != 0:
        pytest.fail("it is root that must follow nothing")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        entry = pwd.struct_passwd(("ada", "x", NOBODY, NOBODY, "", str(home), "/bin/sh"))
        monkeypatch.setattr(pwd, "getpwnam", {"ada": entry}.__getitem__)
        yield home


@pytest.mark.parametrize("before", [None, "", THEIRS, f"{THEIRS}\n", f"# mine\n\n{THEIRS}\n"])
def test_the_key_is_there_meanwhile_and_the_users_own_stay(user: Path, tmp_path: Path, before: str | None) -> None:
    keys = user / ".ssh" / "authorized_keys"
    if before is not None:
        keys.parent.mkdir()
        keys.write_text(before)
        for path in (keys.parent, keys):
            os.chown(path, NOBODY, NOBODY)
    with over_ssh("ada", tmp_path):
        *own, line = keys.read_text().splitlines()
        assert own == (before or "").splitlines()
        assert line.startswith('from="127.0.0.1",no-port-forwarding')
        assert line.endswith((tmp_path / "id.pub").read_text().strip())
        states = [path.stat() for path in (keys.parent, keys)]
        assert [(state.st_uid, state.st_gid) for state in states] == [(NOBODY, NOBODY)] * 2
        assert states[1].st_mode & 0o777 == 0o600
    assert keys.read_text().splitlines() == (before or "").splitlines()
    assert [path.name for path in keys.parent.iterdir()] == ["authorized_keys"]


def test_a_link_in_her_home_leads_root_nowhere(user: Path, tmp_path: Path) -> None:
    theirs = tmp_path.parent / "roots"
    theirs.mkdir()
    (theirs / "authorized_keys").write_text(f"{THEIRS}\n")
    theirs.chmod(0o755)
    (user / ".ssh").symlink_to(theirs)
    with pytest.raises(HostUnreachableError, match="ada cannot write her own keys"), over_ssh("ada", tmp_path):
        pytest.fail("a key was written through her link")
    assert [path.name for path in theirs.iterdir()] == ["authorized_keys"]
    assert (theirs / "authorized_keys").read_text() == f"{THEIRS}\n"
    assert (theirs.stat().st_uid, theirs.stat().st_mode & 0o777) == (0, 0o755)


def test_keys_that_cannot_be_read_are_not_lost(user: Path, tmp_path: Path) -> None:
    keys = user / ".ssh" / "authorized_keys"
    keys.parent.mkdir()
    os.chown(keys.parent, NOBODY, NOBODY)
    keys.write_text(f"{THEIRS}\n")
    keys.chmod(0o600)  # root's: the user can replace it, and not read it
    with pytest.raises(HostUnreachableError, match="ada cannot write her own keys"), over_ssh("ada", tmp_path):
        pytest.fail("it was replaced unread")
    assert keys.read_text() == f"{THEIRS}\n"

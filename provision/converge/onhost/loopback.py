"""A login on this host over its own SSH, for as long as it is observed: what a user's session gets is seen only in a user's session.

The key exists for one observation, works from this host alone, and expires by itself where nobody lives to take it away. The host keys
are read from the host's own files, so none is accepted unseen.
"""

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.paths import read_bounded

_ADDRESS: Final = "127.0.0.1"
_LASTS_S: Final = 1800
_MOST: Final = 1 << 20
_HOST_KEYS: Final = Path("/etc/ssh")


@contextmanager
def over_ssh(login: str, folder: Path) -> Iterator[Target]:
    """This host, as a user of it reaches it; afterwards the key is gone.

    Args:
        login: the user.
        folder: for the key; only root can enter it.

    Raises:
        HostUnreachableError: there is no such user, or no key can be made.
    """
    try:
        user = pwd.getpwnam(login)
    except KeyError as error:
        msg = f"this host has no user {login!a}, as whom it observes itself"
        raise HostUnreachableError(msg, hint="see whether the image makes another first user") from error
    key, known = folder / "id", folder / "known_hosts"
    for old in (key, key.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuprov-member", "-f", str(key)], check=True)
    public = read_bounded(key.with_suffix(".pub"), _MOST).decode().strip()
    host_keys = (read_bounded(path, _MOST).decode().split()[:2] for path in sorted(_HOST_KEYS.glob("ssh_host_*_key.pub")))
    known.write_text("".join(f"{_ADDRESS} {' '.join(words)}\n" for words in host_keys))
    config = folder / "ssh_config"
    config.write_text(
        f"Host member\n  HostName {_ADDRESS}\n  User {login}\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n"
    )
    keys = Path(user.pw_dir) / ".ssh" / "authorized_keys"
    until = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + _LASTS_S))
    limits = f'from="{_ADDRESS}",no-port-forwarding,no-agent-forwarding,no-X11-forwarding,expiry-time="{until}"'
    _allow(keys, user, f"{limits} {public}\n")
    try:
        yield Target("this member", "member", config)
    finally:
        _forbid(keys, public)
        key.unlink(missing_ok=True)


def _allow(keys: Path, user: pwd.struct_passwd, line: str) -> None:
    """Add a line to the user's keys, on a line of its own."""
    if not keys.parent.exists():
        keys.parent.mkdir(mode=0o700)
        os.chown(keys.parent, user.pw_uid, user.pw_gid)
    held = read_bounded(keys, _MOST) if keys.exists() else b""
    _replace(keys, held + (b"" if held.endswith(b"\n") or not held else b"\n") + line.encode(), user.pw_uid, user.pw_gid)


def _forbid(keys: Path, public: str) -> None:
    """Take a key away; every other line stays as it is."""
    lines = read_bounded(keys, _MOST).splitlines(keepends=True)
    state = keys.stat()
    _replace(keys, b"".join(line for line in lines if public.encode() not in line), state.st_uid, state.st_gid)


def _replace(path: Path, content: bytes, uid: int, gid: int) -> None:
    """Write a file whole, for its owner alone."""
    beside = path.with_name(f".{path.name}.gpuprov")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
        os.fchown(file.fileno(), uid, gid)
    beside.replace(path)

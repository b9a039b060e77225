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
_REWRITE: Final = """
set -eu
umask 077
cd "$1"
[ -d .ssh ] || mkdir .ssh
new=$(mktemp .ssh/.gpuprov-XXXXXX)
trap 'rm -f "$new"' EXIT
{ if [ -f .ssh/authorized_keys ]; then grep -vF -- "$2" .ssh/authorized_keys || [ $? -eq 1 ]; fi; printf %s "$3"; } >"$new"
mv -fT "$new" .ssh/authorized_keys
"""


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
    until = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + _LASTS_S))
    limits = f'from="{_ADDRESS}",no-port-forwarding,no-agent-forwarding,no-X11-forwarding,expiry-time="{until}"'
    _rewrite(user, public, f"{limits} {public}\n")
    try:
        yield Target("this member", "member", config)
    finally:
        _rewrite(user, public)
        key.unlink(missing_ok=True)


def _rewrite(user: pwd.struct_passwd, public: str, line: str = "") -> None:
    """Put a line in the place of those with this key, as the user: in a home, root would follow whatever link its owner puts there."""
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    words = ["/bin/sh", "-c", _REWRITE, "sh", user.pw_dir, public, line]
    done = subprocess.run(
        words, check=False, cwd="/", user=user.pw_uid, group=user.pw_gid, extra_groups=groups, capture_output=True, text=True
    )
    if done.returncode:
        msg = f"{user.pw_name} cannot write her own keys on this host: {done.stderr.strip()[-200:]!a}"
        raise HostUnreachableError(
            msg, hint=f"on the host, look at `ls -la {user.pw_dir}/.ssh`: all of it must be a file or folder of hers"
        )

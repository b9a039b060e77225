"""Replaces the host key that a machine was given with user data by keys that the machine makes itself, at the first contact.

Until then whoever could read the user data can pose as the machine. The new keys come over the connection that the given key secured, and
are accepted beside it before the machine shows them, so that a client that dies in between can go on. A connection that was open is closed:
what follows is said over one that the new keys secure.
"""

import asyncio
import shlex
from collections.abc import Callable, Sequence
from typing import Final

from provision.clouds.userdata import FIRST_KEY
from provision.errors import HostUnreachableError
from provision.host import hostkeys
from provision.host.ssh import Target, execute
from provision.host.sshconfig import SshHome

_NEW: Final = "/etc/ssh/gpuprov-new"
# Its new public key, the same when it is asked again; where it has no given key any more, the one that it shows.
_MAKE: Final = f"""
test -e {FIRST_KEY} || exec cat /etc/ssh/ssh_host_ed25519_key.pub
umask 077
if ! test -d {_NEW}; then
  rm -rf {_NEW}.part && mkdir {_NEW}.part
  ssh-keygen -q -t ed25519 -N '' -C '' -f {_NEW}.part/ssh_host_ed25519_key && mv {_NEW}.part {_NEW} || exit 1
fi
cat {_NEW}/ssh_host_ed25519_key.pub
"""
# The keys first and the mark last, so that whoever finds the mark does all of it again. sshd reads its keys anew at a reload, which ends
# no connection and which nothing waits for: the host itself looks until it shows the new one.
_SHOW: Final = f"""
set -e
test -e {FIRST_KEY} || exit 0
install -m 600 {_NEW}/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key
install -m 644 {_NEW}/ssh_host_ed25519_key.pub /etc/ssh/ssh_host_ed25519_key.pub
sync
systemctl reload ssh 2>/dev/null || systemctl reload sshd
new=$(cut -d ' ' -f 2 {_NEW}/ssh_host_ed25519_key.pub)
tries=0
until ssh-keyscan -T 2 -t ed25519 127.0.0.1 2>/dev/null | grep -qF "$new"; do
  tries=$((tries + 1))
  test $tries -lt 50
  sleep 0.2
done
rm -rf {_NEW} {FIRST_KEY}
"""
_TIMEOUT_S: Final = 60.0

Publish = Callable[[Sequence[str]], None]


def rotate(ssh: SshHome, name: str, accepted: Sequence[str], publish: Publish) -> None:
    """Rotate the given host key of a machine away. Where that was done, or begun, by a client that died, the rest is done.

    Args:
        ssh: knows how it is reached.
        name: of the machine.
        accepted: the keys that are accepted now, among them the given one while it is the machine's.
        publish: told of the new keys twice: before the machine shows them, and after it showed them.

    Raises:
        HostUnreachableError: the machine made no key.
        HostKeyChangedError: it shows others than those that it made.
    """
    target = ssh.target(name)
    keys = hostkeys.parse_lines(_run(target, _MAKE))
    if not keys:
        raise _failed(target, "it has no key of its own")
    ssh.accept(name, tuple(dict.fromkeys((*accepted, *keys))))
    publish(keys)
    _run(target, _SHOW)
    ssh.accept(name, keys)
    ssh.close(name)
    _run(target, "true")
    publish(keys)


def _failed(target: Target, detail: str) -> HostUnreachableError:
    msg = f"the host key of {target.name} could not be rotated"
    return HostUnreachableError(msg, hint="run the same command again", detail=detail)


def _run(target: Target, script: str) -> str:
    """Run a script as root, and return what it wrote.

    Raises:
        HostUnreachableError: it failed.
    """
    done = asyncio.run(execute(target, f"sudo -n sh -c {shlex.quote(script)}", timeout_s=_TIMEOUT_S))
    if done.exit_code:
        raise _failed(target, done.stderr.decode(errors="replace").strip()[:300])
    return done.stdout.decode(errors="replace")

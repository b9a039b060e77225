"""Removes from a host what is its own, before its disk becomes an image that others start from.

What is removed, and why: systemd's "Building Images Safely" (systemd.io/BUILDING_IMAGES), `cloud-init clean`
(docs.cloud-init.io, "cli: clean"), and what gpuprov itself leaves on a host. Then the host looks for what must not be left, and names it.
A machine that was cleaned is of no other use: nobody can log in any more, and its next boot is a first boot.
"""

import asyncio
import json
import shlex
from collections.abc import Sequence
from typing import Final

from provision.clouds.baked import ImageFailedError
from provision.host.ssh import Target, execute

RECORD: Final = "/var/lib/gpuprov/baked.json"
"""On a host that started from an image of ours: what the image was made of."""
_TIMEOUT_S: Final = 600.0
_MOST_NAMED: Final = 10
# A failure is no excuse to go on, so `set -e`; what a system does not have, `rm -rf` and `find` pass over.
_SCRIPT: Final = r"""
set -eu
inside() { for folder in "$@"; do if test -d "$folder"; then find "$folder" -xdev -mindepth 1 -delete; fi; done; }

# What writes by itself: the journal goes to memory, and the seed of the random numbers is not saved at the power-off.
for unit in rsyslog.service systemd-random-seed.service unattended-upgrades.service apt-daily.timer apt-daily-upgrade.timer; do
  systemctl stop "$unit" 2>/dev/null || true
done
journalctl --relinquish-var 2>/dev/null || true

# What a boot decides for this machine alone.
rm -rf /var/lib/cloud/* /run/cloud-init /etc/netplan/50-cloud-init.yaml /etc/network/interfaces.d/50-cloud-init*
rm -rf /etc/udev/rules.d/70-persistent-net.rules /var/lib/dhcp/* /var/lib/dhclient/* /var/lib/NetworkManager/*.lease
rm -rf /var/lib/systemd/random-seed /var/lib/systemd/credential.secret /var/lib/systemd/timers/* /var/lib/dbus/machine-id
rm -rf /var/lib/docker/engine-id /etc/docker/key.json /var/lib/ubuntu-advantage/private /boot/efi/loader/random-seed
rm -rf "$@"
: > /etc/machine-id
sed -i "s/\b$(hostname)\b/localhost/g" /etc/hosts
echo localhost > /etc/hostname

# What gpuprov left: the deadline of this machine, the ledger of what roles changed, the program of a fleet's member.
rm -rf /etc/systemd/system/gpuprov-deadline.* /etc/systemd/system/gpuprov-member.* /etc/motd.d/gpuprov-deadline
rm -rf /etc/systemd/system/*.wants/gpuprov-deadline.* /etc/systemd/system/*.wants/gpuprov-member.*
rm -rf /var/lib/gpuprov /var/lib/gpuprov-member /var/cache/gpuprov /etc/gpuprov /etc/ssh/gpuprov-first-key /etc/ssh/gpuprov-new*

# Homes become what a new account's is. Roles keep nothing in them.
getent passwd | while IFS=: read -r name _ uid _ _ home _; do
  case $home in "" | / | /bin | /dev | /etc | /proc | /sys | /usr | /usr/* | /var) continue ;; esac
  rm -rf "$home/.ssh"
  if test "$uid" -eq 0 || { test "$uid" -ge 1000 && test "$uid" -lt 65534; }; then
    test -d "$home" || continue
    if test -L "$home"; then echo "$home is a link, and root follows none in a home" >&2; exit 1; fi
    # Root's until it is full again: a program of the user's that still runs puts no link where root writes.
    chown root: "$home"
    chmod go-w "$home"
    inside "$home"
    cp -a /etc/skel/. "$home/"
    chown -R "$name:" "$home"
  fi
done
rm -rf /etc/ssh/ssh_host_* /etc/ssh/authorized_keys*

inside /tmp /var/tmp /var/crash /var/spool/mail /var/mail /var/spool/cron/crontabs /var/lib/apt/lists /var/cache/dnf /var/cache/yum
rm -rf /var/cache/apt/archives/*.deb /var/cache/apt/*.bin
find /var/log -xdev -type f -delete
inside /var/log/journal

mkdir -m 755 /var/lib/gpuprov
cat > /var/lib/gpuprov/baked.json
sync
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /usr \) -prune -o -type f \( \
  -name 'authorized_keys*' -o -name 'ssh_host_*_key*' -o -name 'id_rsa*' -o -name 'id_ed25519*' -o -name 'id_ecdsa*' \
  -o -name '.*_history' -o -name '.netrc' -o -name '.git-credentials' -o -name 'application_default_credentials.json' \
  -o -path '*/.kube/*' -o -path '*/.docker/config.json' \) -print
"""


def clean(target: Target, record: dict[str, str], agents: Sequence[str]) -> None:
    """Remove what is this host's own, and leave a record of what the image is made of.

    Args:
        target: a host that nobody uses, and that is only powered off afterwards.
        record: plain words, which everybody on a machine of the image can read.
        agents: the files and folders in which the cloud's agents keep what is this machine's own.

    Raises:
        ImageFailedError: something could not be removed, or something is left that looks like a secret.
    """
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    command = f"sudo -n sh -c {shlex.join([_SCRIPT, 'clean', *agents])}"
    done = asyncio.run(execute(target, command, stdin=text.encode(), timeout_s=_TIMEOUT_S))
    if done.exit_code:
        msg = f"{target.name} could not be cleaned, so no image was made of it"
        last = done.stderr.decode(errors="replace").strip().splitlines()[-5:]
        raise ImageFailedError(msg, hint=_HINT, detail="\n".join(last))
    left = done.stdout.decode(errors="replace").splitlines()
    if left:
        named = f"{', '.join(left[:_MOST_NAMED])}{f' and {len(left) - _MOST_NAMED} more' if len(left) > _MOST_NAMED else ''}"
        msg = f"{target.name} still has what looks like keys or histories, so no image was made of it: {named}"
        raise ImageFailedError(msg, hint=_HINT)


_HINT: Final = (
    "the same command starts again with another machine; if it ends so again, look at what the base image brings (`image:` of the place)"
)

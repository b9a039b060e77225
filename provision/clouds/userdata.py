"""Cloud-init user data for the first boot: the same bytes for the same order, because EC2 compares them under a client token."""

import datetime as dt
import json
from importlib import resources
from typing import Final

from provision.structs import Struct, asdict, replace

_SERVICE = """[Unit]
Description=End this machine at the deadline of its gpuprov profile
[Service]
Type=oneshot
ExecStart=/usr/bin/systemctl poweroff
"""
_TIMER = """[Unit]
Description=The deadline of the gpuprov profile
[Timer]
OnCalendar={at}
Persistent=true
[Install]
WantedBy=timers.target
"""
# pam_motd shows the files of this folder at a login (its manual page), on EL too (github.com/cockpit-project/cockpit/pull/9195). sshd shows
# none where there is a command, such as that of scp or rsync (check_quietlogin of github.com/openssh/openssh-portable, session.c).
MOTD: Final = "/etc/motd.d/gpuprov-deadline"
_MOTD: Final = "This machine ends by {at}.\nHere: nvidia-smi. Where it was launched: gpuprov verify, extend, stop, down.\n"

AHEAD: Final = "gpuprov-ahead"
"""The unit that downloads at the first boot."""
_INTO: Final = "/run/gpuprov-ahead"
# `bootcmd` comes before `write_files`.
_WRITE: Final = f'mkdir -p -m 700 {_INTO} && printf %s "$1" > {_INTO}/ahead.py && printf %s "$2" > {_INTO}/asked.json'
# docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html: 16 KB before it is encoded. Other clouds take more.
_MOST: Final = 16 * 1024

FIRST_KEY: Final = "/etc/ssh/gpuprov-first-key"
"""On a host that was given its first host key: there until the key is rotated."""

DONE: Final = "/var/lib/gpuprov/first-boot"
"""On a host without cloud-init whose first boot was done by a script."""


class PackageSource(Struct):
    """A repository of apt, with the one key that it is trusted by: a keyring of the image, or a key to fetch and its fingerprint."""

    name: str
    url: str
    suite: str
    components: tuple[str, ...] = ()
    keyring: str | None = None
    key: str | None = None
    fingerprint: str | None = None


class Downloads(Struct):
    """What a machine downloads at its first boot, before it answers SSH (`ahead.py`).

    Attributes:
        wheels: (name, SHA-256) of each wheel.
        index: the package index that they are in.
        packages: of apt, as it takes them; none on a system with another package manager.
        repositories: where apt finds them beside the system's own.
        environment: the variables that lead to a proxy.
        least_free_gb: where the disk has less, nothing begins. The set-up asks for room before it changes anything, 45 GB for every role
            (`converge/variables.py`), and these downloads, which it would make itself, must not take that room.
    """

    wheels: tuple[tuple[str, str], ...]
    index: str
    packages: tuple[str, ...] = ()
    repositories: tuple[PackageSource, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    least_free_gb: int = 70


def user_data(
    *, deadline: dt.datetime, authorized_key: str = "", login: str = "", host_key: str = "", downloads: Downloads | None = None
) -> str:
    """A `#cloud-config` document.

    The deadline is a timer on the host because EC2 has none of its own; with the shutdown behaviour *terminate* a power-off ends the
    instance. The timer is persistent, so that a machine that was stopped when its deadline passed ends at its next start.

    Args:
        deadline: an aware time; its UTC form goes into the timer.
        authorized_key: the OpenSSH public key that may log in as the image's first user; empty where the cloud itself installs it.
        login: a first user to make, where the image has none but root, whose password is locked then; empty where the image has one.
        host_key: the OpenSSH private key that the host shows first; empty where it makes its own. Whoever can ask the metadata service
            can read it, so it is rotated at the first contact (`host/rotate.py`).
        downloads: what begins before SSH answers; without its wheels, or not at all, where EC2 would not take the document with them.
    """
    at = deadline.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    timer = _TIMER.format(at=at)
    files = [
        {"path": "/etc/systemd/system/gpuprov-deadline.service", "permissions": "0644", "content": _SERVICE},
        {"path": "/etc/systemd/system/gpuprov-deadline.timer", "permissions": "0644", "content": timer},
        {"path": MOTD, "permissions": "0644", "content": _MOTD.format(at=at)},
    ]
    commands = [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", "gpuprov-deadline.timer"]]
    document: dict[str, object] = {"ssh_pwauth": False, "disable_root": True, "write_files": files, "runcmd": commands}
    if host_key:
        # cloud-init makes no other key beside one that it is given (cloudinit/config/cc_ssh.py).
        document |= {"ssh_deletekeys": True, "ssh_keys": {"ed25519_private": host_key}}
        files.append({"path": FIRST_KEY, "permissions": "0600", "content": "given by user data\n"})
    if login:
        rights = {"sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "lock_passwd": True}
        document["users"] = [{"name": login, "ssh_authorized_keys": [authorized_key.strip()], **rights}]
        commands.append(["passwd", "--lock", "root"])
    elif authorized_key:
        # So there is no key pair to import, tag and remove.
        document["ssh_authorized_keys"] = [authorized_key.strip()]
    for part in (downloads, replace(downloads, wheels=())) if downloads else ():
        text = _written({**document, "bootcmd": _begin(part)})
        if len(text.encode()) <= _MOST:
            return text
    return _written(document)


def program() -> str:
    """What a machine runs at its first boot to download ahead: part of the document."""
    return resources.files("provision.clouds").joinpath("ahead.py").read_text()


def _written(document: dict[str, object]) -> str:
    # JSON is YAML, and json.dumps cannot produce anything that cloud-init would read as more than data.
    return "#cloud-config\n" + json.dumps(document, indent=1, sort_keys=True) + "\n"


def _begin(downloads: Downloads) -> list[list[str]]:
    """The commands that begin the downloads, once for an instance; a reviewer reads the program in them.

    `bootcmd` runs when the network is up, and sshd starts after it: cloud-init.service has `Before=sshd.service`. Without the default
    dependencies the unit does not wait for the system's other early units, which sshd waits for as well.
    Source: docs.cloud-init.io/en/latest/reference/modules.html, Bootcmd.
    """
    asked = {**asdict(downloads), "environment": dict(downloads.environment)}
    early = ("DefaultDependencies=no", "Conflicts=shutdown.target", "Before=shutdown.target")
    unit = ["systemd-run", "--quiet", "--no-block", "--collect", f"--unit={AHEAD}", *(f"--property={each}" for each in early)]
    python = ["/usr/bin/python3", "-I", f"{_INTO}/ahead.py", f"{_INTO}/asked.json"]
    written = ["sh", "-c", _WRITE, "sh", program(), json.dumps(asked, sort_keys=True)]
    return [written, ["cloud-init-per", "instance", AHEAD, *unit, "--", *python]]

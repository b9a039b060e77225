"""Cloud-init user data for the first boot: the same bytes for the same order, because EC2 compares them under a client token."""

import datetime as dt
import json
from typing import Final

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


FIRST_KEY: Final = "/etc/ssh/gpuprov-first-key"
"""On a host that was given its first host key: there until the key is rotated."""


def user_data(*, deadline: dt.datetime, authorized_key: str = "", login: str = "", host_key: str = "") -> str:
    """A `#cloud-config` document.

    The deadline is a timer on the host because EC2 has none of its own; with the shutdown behaviour *terminate* a power-off ends the
    instance. The timer is persistent, so that a machine that was stopped when its deadline passed ends at its next start.

    Args:
        deadline: an aware time; its UTC form goes into the timer.
        authorized_key: the OpenSSH public key that may log in as the image's first user; empty where the cloud itself installs it.
        login: a first user to make, where the image has none but root, whose password is locked then; empty where the image has one.
        host_key: the OpenSSH private key that the host shows first; empty where it makes its own. Whoever can ask the metadata service
            can read it, so it is rotated at the first contact (`host/rotate.py`).
    """
    at = deadline.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    timer = _TIMER.format(at=at)
    files = [
        {"path": "/etc/systemd/system/gpuprov-deadline.service", "permissions": "0644", "content": _SERVICE},
        {"path": "/etc/systemd/system/gpuprov-deadline.timer", "permissions": "0644", "content": timer},
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
    # JSON is YAML, and json.dumps cannot produce anything that cloud-init would read as more than data.
    return "#cloud-config\n" + json.dumps(document, indent=1, sort_keys=True) + "\n"

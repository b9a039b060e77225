"""How Ansible reaches the host: the same OpenSSH configuration and options as every other connection of gpuprov."""

import getpass
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, Final

from provision.converge import inert
from provision.host.ssh import Target

# A socket's path may have 104 characters on the strictest system; ssh's digest and its suffix while it binds take 58 of them.
_SOCKET_FOLDER_CHARS: Final = 46


def user_of(target: Target) -> str:
    """The user that commands on the host run as before sudo."""
    if target.is_local:
        return "root" if os.geteuid() == 0 else getpass.getuser()
    return _settings(target).get("user", getpass.getuser())


def inventory(target: Target, run_dir: Path) -> str:
    """An inventory of this host; none of its words is a template for Ansible."""
    return json.dumps({"all": {"hosts": {target.name: inert.inert(_host(target, run_dir))}}}, indent=2)


def _host(target: Target, run_dir: Path) -> dict[str, Any]:
    host: dict[str, Any] = {"ansible_become": user_of(target) != "root"}
    if target.is_local:
        return host | {"ansible_connection": "local"}
    return host | {
        "ansible_connection": "ssh",
        "ansible_host": target.destination,
        "ansible_ssh_common_args": shlex.join(_options(target, run_dir)),
        "ansible_ssh_args": "",
    }


def renew(target: Target) -> None:
    """Make the next command open its own connection: a shared one keeps the environment and groups of its first login."""
    if not target.is_local:
        # `stop`, unlike `exit`, lets commands that still use the connection finish. It may well fail: often there is no such connection.
        _ssh(target, "-O", "stop")


def _options(target: Target, run_dir: Path) -> list[str]:
    """Our options, and a shared connection where the user's configuration has none."""
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3"]
    if _settings(target).get("controlmaster", "false") == "false" and len(str(run_dir)) < _SOCKET_FOLDER_CHARS:
        # It ends by itself soon after the last task.
        options += ["ControlMaster=auto", "ControlPersist=15", f"ControlPath={run_dir}/%C"]
    return [*_config(target), *(part for option in options for part in ("-o", option))]


def _settings(target: Target) -> dict[str, str]:
    """OpenSSH's settings for this host, from all of its configuration files."""
    return dict(line.partition(" ")[::2] for line in _ssh(target, "-G").splitlines())


def _ssh(target: Target, *arguments: str) -> str:
    """The output of an ssh command that runs nothing on the host."""
    argv = ["ssh", *_config(target), *arguments, "--", target.destination]
    return subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def _config(target: Target) -> list[str]:
    return ["-F", str(target.config)] if target.config else []

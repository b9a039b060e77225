"""An inventory (https://docs.ansible.com/ansible/latest/inventory_guide/intro_inventory.html): each host with its pinned host key."""

import shlex
from typing import Any, Final

from provision.engines.base import EngineHost, HostPool, yaml_text

# Ansible has variables for the others.
_OPTIONS: Final = (
    "HostKeyAlias",
    "UserKnownHostsFile",
    "GlobalKnownHostsFile",
    "StrictHostKeyChecking",
    "UpdateHostKeys",
    "IdentitiesOnly",
    "ProxyJump",
    "ProxyCommand",
)


def render(pool: HostPool) -> dict[str, str]:
    """One group of the pool's name with all hosts."""
    group = pool.name.replace("-", "_")  # Ansible takes no other names of groups
    hosts = {host.name: _variables(host) for host in pool.hosts}
    return {"inventory.yml": pool.header() + yaml_text({"all": {"children": {group: {"hosts": hosts}}}})}


def _variables(host: EngineHost) -> dict[str, Any]:
    given = dict(host.entry)
    options = [part for key in _OPTIONS if key in given for part in ("-o", f"{key}={_quoted(key, given[key])}")]
    return {
        "ansible_host": host.ssh("HostName"),
        "ansible_user": host.ssh("User"),
        "ansible_ssh_private_key_file": host.ssh("IdentityFile"),
        "ansible_ssh_common_args": shlex.join(options),
        "ansible_python_interpreter": host.python,
    }


def _quoted(key: str, value: str) -> str:
    """The value as ssh reads it after the shell's quotes are gone: a path may have spaces, a command is the rest of the line."""
    return f'"{value}"' if key.endswith("KnownHostsFile") else value

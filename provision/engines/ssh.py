"""Entries for ssh_config (ssh_config(5)): the same address, key and pinned host key that gpuprov itself uses."""

from typing import Final

from provision.engines.base import HostPool

# How gpuprov shares its connections is its own affair.
_OWN: Final = frozenset({"ControlMaster", "ControlPath", "ControlPersist"})
_PATHS: Final = frozenset({"IdentityFile", "UserKnownHostsFile"})


def render(pool: HostPool) -> dict[str, str]:
    """One entry a host, under its name."""
    blocks = [pool.header()]
    for host in pool.hosts:
        pairs = [(key, f'"{value}"' if key in _PATHS else value) for key, value in host.entry if key not in _OWN]
        blocks.append(f"Host {host.name}\n" + "".join(f"  {key} {value}\n" for key, value in pairs))
    return {"ssh_config": "\n".join(blocks)}

"""A fleet for `dstack apply -f` (https://dstack.ai/docs/reference/dstack.yml/fleet/): hosts that dstack reaches by ssh."""

from typing import Any

from provision.engines.base import EngineHost, HostPool, yaml_text
from provision.errors import UsageError


def render(pool: HostPool) -> dict[str, str]:
    """One fleet; several hosts are a cluster, which is connected by their private addresses."""
    hidden = [host.name for host in pool.hosts if not host.direct]
    if hidden:
        msg = f"dstack cannot reach {', '.join(hidden)} the way that ssh goes"
        raise UsageError(msg, hint="name hosts that are reached directly; dstack knows one jump host with a key of its own")
    hosts = [_host(host, address) for host, address in zip(pool.hosts, pool.private_addresses, strict=True)]
    placement = "cluster" if len(hosts) > 1 else "any"
    note = "The dstack server takes any host key, and `dstack apply` sends it the private key."
    data = {"type": "fleet", "name": pool.name, "placement": placement, "ssh_config": {"hosts": hosts}}
    return {"fleet.dstack.yml": pool.header(note) + yaml_text(data)}


def _host(host: EngineHost, address: str) -> dict[str, Any]:
    return {
        "hostname": host.ssh("HostName"),
        "user": host.ssh("User"),
        "identity_file": host.ssh("IdentityFile"),
        "internal_ip": address,
    }

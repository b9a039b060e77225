"""A pool for ~/.sky/ssh_node_pools.yaml (https://docs.skypilot.co/en/latest/reservations/existing-machines.html).

A host is the alias that gpuprov has in the user's ssh configuration: SkyPilot takes address, login, key and the way from there. It knows no
other way to a host behind a hop.
"""

from provision.engines.base import HostPool, yaml_text
from provision.host.sshconfig import alias_of


def render(pool: HostPool) -> dict[str, str]:
    """One pool."""
    note = "SkyPilot goes on when a host shows another key than the known one. It reads ~/.ssh/config, which includes gpuprov's entries."
    return {"ssh_node_pools.yaml": pool.header(note) + yaml_text({pool.name: {"hosts": [alias_of(host.name) for host in pool.hosts]}})}

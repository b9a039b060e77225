"""A host file of Open MPI (https://docs.open-mpi.org/en/main/launching-apps/scheduling.html): an address a line, and how many processes."""

from provision.engines.base import HostPool


def render(pool: HostPool) -> dict[str, str]:
    """One process for each GPU, or for each CPU of hosts without one."""
    addresses = pool.private_addresses
    note = "A slot is a GPU." if all(host.gpus for host in pool.hosts) else "A slot is a GPU, or a CPU of a host without one."
    lines = [f"{address} slots={host.gpus or host.machine.cpus}\n" for address, host in zip(addresses, pool.hosts, strict=True)]
    return {"hosts.txt": pool.header(note) + "".join(lines)}

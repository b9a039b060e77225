"""Nodes for slurm.conf (https://slurm.schedmd.com/slurm.conf.html) and their GPUs for gres.conf (https://slurm.schedmd.com/gres.conf.html)."""

from collections.abc import Sequence
from itertools import groupby

from provision.engines.base import EngineHost, HostPool


def render(pool: HostPool) -> dict[str, str]:
    """`nodes.conf` for an `Include` of slurm.conf, and `gres.conf` where there are GPUs."""
    addresses = pool.private_addresses
    nodes = [_node(host, address) for host, address in zip(pool.hosts, addresses, strict=True)]
    gpus = [_gpus(host) for host in pool.hosts if host.gpus]
    names = ",".join(host.name for host in pool.hosts)
    kinds = "GresTypes=gpu\n" if gpus else ""
    head = pool.header("Include it in slurm.conf. CPUs and RealMemory (MiB) are what the kernel of each host has.")
    files = {"nodes.conf": f"{head}{kinds}{''.join(nodes)}PartitionName={pool.name} Nodes={names} State=UP\n"}
    return files | ({"gres.conf": pool.header("It is the same on each host.") + "".join(gpus)} if gpus else {})


def _node(host: EngineHost, address: str) -> str:
    machine = host.machine
    gres = f" Gres=gpu:{host.gpu_model}:{host.gpus}" if host.gpus else ""
    where = f"NodeName={host.name} NodeHostname={machine.hostname.partition('.')[0]} NodeAddr={address}"
    return f"{where} CPUs={machine.cpus} RealMemory={machine.memory_mib}{gres} State=UNKNOWN\n"


def _gpus(host: EngineHost) -> str:
    return f"NodeName={host.name} Name=gpu Type={host.gpu_model} File=/dev/nvidia{_range(host.gpu_nodes)}\n"


def _range(numbers: Sequence[int]) -> str:
    """Numbers in Slurm's form: 0, [0-7], [0,2-3]."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    text = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return text if len(numbers) == 1 else f"[{text}]"

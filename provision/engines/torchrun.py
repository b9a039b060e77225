"""The command of torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html) that is the same on each host."""

from typing import Final

from provision.engines.base import HostPool

_PORT: Final = 29500  # torchrun's own default


def render(pool: HostPool) -> dict[str, str]:
    """A script that gets the program and its arguments; as many processes a host as torchrun's `auto` would start there."""
    addresses = pool.private_addresses
    processes = pool.common("GPUs (CPUs where there is none)", [host.gpus or host.machine.cpus for host in pool.hosts])
    words = [
        "torchrun",
        f"--nnodes={len(pool.hosts)}",
        f"--nproc-per-node={processes}",
        "--rdzv-backend=c10d",
        f"--rdzv-id={pool.name}",
        f"--rdzv-endpoint={addresses[0]}:{_PORT}",
    ]
    note = f"Run it on each host: sh torchrun.sh train.py. They meet at port {_PORT} of {pool.hosts[0].name}."
    return {"torchrun.sh": "#!/bin/sh\n" + pool.header(note) + f'exec {" ".join(words)} "$@"\n'}

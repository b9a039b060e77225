"""The command of torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html) that is the same on each host."""

from typing import Final

from provision.engines.base import HostPool

_PORT: Final = 29500  # torchrun's own default


def render(pool: HostPool) -> dict[str, str]:
    """A script that gets the program and its arguments; as many processes a host as torchrun's `auto` would start there.

    It runs the PyTorch that was proven, which is on nobody's PATH, as `with-pytorch` does.
    """
    addresses = pool.private_addresses
    processes = pool.common("GPUs (CPUs where there is none)", [host.gpus or host.machine.cpus for host in pool.hosts])
    home = pool.common("the environment of PyTorch", [host.pytorch for host in pool.hosts])
    words = [
        "python -m torch.distributed.run",
        f"--nnodes={len(pool.hosts)}",
        f"--nproc-per-node={processes}",
        "--rdzv-backend=c10d",
        f'--rdzv-id="${{RDZV_ID:-{pool.name}}}"',
        f"--rdzv-endpoint={addresses[0]}:{_PORT}",
    ]
    notes = (
        f"Run it on each host: sh torchrun.sh train.py. They meet at port {_PORT} of {pool.hosts[0].name}.",
        "A run beside another one, such as one that hangs, has a name of its own: RDZV_ID=second sh torchrun.sh train.py.",
    )
    return {"torchrun.sh": f'#!/bin/sh\n{pool.header(*notes)}export PATH="{home}/bin:$PATH"\nexec {" ".join(words)} "$@"\n'}

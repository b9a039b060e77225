"""Verified hosts in the words of the engines that run workloads on them: Ray, Slurm, SkyPilot, dstack, MPI, torchrun, Ansible, ssh.

A format is pure: it reads what was observed on proven hosts, and a value that was not observed is an error, never a guess. gpuprov
schedules nothing and installs no engine.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Final

from provision.engines.base import HostPool
from provision.structs import Struct


class EngineFormat(Struct):
    """One format.

    Attributes:
        title: what it is.
        file: its one file; None where it is a folder.
        caution: what the engine does that gpuprov would not do, in one line; empty where there is nothing to say.
        module: where `render(pool) -> {path: text}` is.
    """

    title: str
    file: str | None
    module: str
    caution: str = ""

    def render(self, pool: HostPool) -> dict[str, str]:
        """The files by their path, the same text for equal pools.

        Raises:
            HostUnprovenError: a value that the engine needs was not observed.
            UsageError: the hosts do not go together in this engine.
        """
        function: Callable[[HostPool], dict[str, str]] = importlib.import_module(self.module).render
        return function(pool)


ENGINES: Final[Mapping[str, EngineFormat]] = {
    "ray": EngineFormat(
        "a cluster file for `ray up`",
        "cluster.yaml",
        f"{__name__}.ray",
        "`ray up` copies the private key to the head, which connects to the workers without looking at their host keys: "
        "--to ray-start does neither",
    ),
    "ray-start": EngineFormat(
        "a script that starts and stops Ray on the hosts over gpuprov's own connections", "ray.sh", f"{__name__}.ray_start"
    ),
    "slurm": EngineFormat("nodes.conf to include in slurm.conf, and gres.conf", None, f"{__name__}.slurm"),
    "skypilot": EngineFormat(
        "a pool for ~/.sky/ssh_node_pools.yaml",
        "ssh_node_pools.yaml",
        f"{__name__}.skypilot",
        "SkyPilot goes on when a host shows another key than the known one (StrictHostKeyChecking=no)",
    ),
    "dstack": EngineFormat(
        "a fleet for `dstack apply -f`",
        "fleet.dstack.yml",
        f"{__name__}.dstack",
        "the dstack server takes any host key (AutoAddPolicy), and gets the private key",
    ),
    "mpi": EngineFormat("a host file for Open MPI", "hosts.txt", f"{__name__}.mpi"),
    "torchrun": EngineFormat("the command that is run on each host", "torchrun.sh", f"{__name__}.torchrun"),
    "ansible": EngineFormat("an inventory", "inventory.yml", f"{__name__}.ansible"),
    "ssh": EngineFormat("entries for ssh_config", "ssh_config", f"{__name__}.ssh"),
}
"""Name → format; a test compares it with the folder."""

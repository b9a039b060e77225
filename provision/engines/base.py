"""What a format is given: proven hosts, each with what was observed on it and how it is reached."""

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from provision.clouds.base import is_address
from provision.errors import EXIT_UNKNOWN, GpuprovError, UsageError, counted
from provision.structs import Struct
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import GpuFacts, devices
from provision.verify.facts.stack import FrameworkFacts
from provision.verify.facts.system import MachineFacts, Python3Facts

_NODE: Final = re.compile(r"/dev/nvidia([0-9]{1,3})")
T = TypeVar("T")


class HostUnprovenError(GpuprovError, code="host-unproven", exit_code=EXIT_UNKNOWN):
    """A host of which it is not proven, or no longer, that its profile holds; or a value that was not observed on it."""


class EngineHost(Struct):
    """One proven host.

    Attributes:
        name: of the machine.
        entry: what ssh is told of it: ssh_config's keywords and values.
        facts: what was observed when it was proven.
        gpu_model: the catalog's name of the card; a check compared it with what the driver says.
        place: (cloud, region).
        verified_at: when it was proven.
        sha256: of the evidence.
        gpu_excused: whether the GPU part was left out of the proof.
    """

    name: str
    entry: tuple[tuple[str, str], ...]
    facts: Facts
    gpu_model: str
    place: tuple[str, str]
    verified_at: dt.datetime
    sha256: str
    gpu_excused: bool

    def ssh(self, keyword: str) -> str:
        """What ssh is told under a keyword; HostUnprovenError where it is told nothing."""
        for key, value in self.entry:
            if key == keyword:
                return value
        msg = f"its entry in ssh_config has no {keyword}"
        raise self._unproven(msg)

    @property
    def direct(self) -> bool:
        """Whether it is reached without a hop in between."""
        return not {"ProxyJump", "ProxyCommand"} & {key for key, _ in self.entry}

    @property
    def machine(self) -> MachineFacts:
        """Name, size and address of the host."""
        return self._observed(lambda: self.facts.read(MachineFacts))

    @property
    def python(self) -> str:
        """Where its python3 is."""
        return self._path(self._observed(lambda: self.facts.read(Python3Facts)).path, "python3")

    @property
    def pytorch(self) -> str:
        """The environment in which its PyTorch computed when it was proven."""
        framework = self._observed(lambda: self.facts.read(FrameworkFacts, "pytorch"))
        return self._path(framework.home if framework.build and not framework.build.error else None, "PyTorch")

    @property
    def private_address(self) -> str:
        """Where the other hosts of its network find it."""
        text = self.machine.address
        address = ipaddress.ip_address(text) if text and is_address(text) else None
        if address is None or not address.is_private or address.is_loopback or address.is_link_local:
            msg = f"its own address is {text or 'unknown'}, which is not one of a private network"
            raise self._unproven(msg)
        return str(address)

    @property
    def gpus(self) -> int:
        """How many GPUs its driver lists; 0 where nothing speaks for one."""
        if not self._observed(lambda: self.facts.read(GpuFacts)).exists:
            return 0
        if self.gpu_excused:
            msg = "it has a GPU that --without-gpu left out of the proof"
            raise self._unproven(msg)
        listed = self._observed(lambda: devices(self.facts))
        if any(device.mig.value == 1 for device in listed.values()):
            msg = "MIG splits its GPUs, so that their number says nothing"
            raise self._unproven(msg)
        return len(listed)

    @property
    def gpu_nodes(self) -> tuple[int, ...]:
        """The numbers of its GPUs' device files, as many as it has GPUs."""
        nodes = self._observed(lambda: self.facts.read(GpuFacts)).nodes
        numbers = tuple(sorted(int(found[1]) for node in nodes if (found := _NODE.fullmatch(node))))
        if len(numbers) != self.gpus:
            msg = f"it has {counted(self.gpus, 'GPU')} and {counted(len(numbers), 'device file')}"
            raise self._unproven(msg)
        return numbers

    def _observed(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except NotObservedError as reason:
            raise self._unproven(str(reason)) from reason

    def _path(self, path: str | None, of: str) -> str:
        if path is None or not re.fullmatch(r"/[A-Za-z0-9/._+-]{1,200}", path):
            msg = f"where its {of} is was not observed"
            raise self._unproven(msg)
        return path

    def _unproven(self, why: str) -> HostUnprovenError:
        return HostUnprovenError(f"{self.name}: {why}", hint=f"`gpuprov verify {self.name}` observes it again, or leave the host out")


class HostPool(Struct):
    """Proven hosts under one name; the first is the head where an engine has one.

    Attributes:
        config: the file for `ssh -F` with all their entries.
    """

    name: str
    hosts: tuple[EngineHost, ...]
    config: Path

    @property
    def private_addresses(self) -> tuple[str, ...]:
        """Where the hosts find each other.

        Raises:
            HostUnprovenError: one has no private address.
            UsageError: they have no network in common, or two have the same address.
        """
        if len({host.place for host in self.hosts}) > 1:
            places = ", ".join(sorted({" ".join(host.place) for host in self.hosts}))
            msg = f"these hosts are in several networks: {places}"
            raise UsageError(msg, hint="name hosts of one region; the engine connects them by their private addresses")
        addresses = tuple(host.private_address for host in self.hosts)
        if len(set(addresses)) < len(addresses):
            twice = next(address for address in addresses if addresses.count(address) > 1)
            msg = f"two hosts say that their address is {twice}"
            raise UsageError(msg, hint="name hosts of one network; the engine connects them by their private addresses")
        return addresses

    def common(self, what: str, values: Sequence[T]) -> T:
        """The value that all hosts have; UsageError where they differ and the engine takes one for all."""
        if len(set(values)) > 1:
            pairs = ", ".join(f"{host.name} {value}" for host, value in zip(self.hosts, values, strict=True))
            msg = f"the hosts differ in {what}: {pairs}"
            raise UsageError(msg, hint="name hosts that are alike; this engine takes one value for all of them")
        return values[0]

    def header(self, *notes: str) -> str:
        """Comment lines: what proves the hosts, and notes for the reader."""
        proofs = [
            f"{host.name}: verified {host.verified_at.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
            f"{', without its GPU part' if host.gpu_excused else ''}, evidence sha256:{host.sha256}"
            for host in self.hosts
        ]
        return "".join(f"# {line}\n" for line in ("Written by `gpuprov export`. It holds no secret.", *proofs, *notes))


def yaml_text(data: Any) -> str:
    """Data as YAML, in its own order, a key a line."""
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=False, width=10_000, allow_unicode=False))

"""Two rehearsal hosts with real sshd on one real network, which know each other by name. Nothing is set up on them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provision import paths
from provision.host import hostkeys
from provision.host.reach import wait_ready
from provision.host.ssh import Target, execute
from provision.host.sshconfig import SshHome
from provision.rehearsal import rootfs
from provision.rehearsal.aws.launch import disk_link
from provision.rehearsal.hosts import HostPark, HostSpec
from provision.rehearsal.network import HostNetwork
from provision.verify.facts import Facts
from provision.verify.observe import observe
from tests.waiting import until


@dataclass
class Pair:
    """The hosts, and how a test changes them."""

    park: HostPark
    home: SshHome
    addresses: dict[str, str]

    def target(self, name: str) -> Target:
        return self.home.target(name)

    def run(self, name: str, command: str, *, stdin: bytes = b"", timeout_s: float = 60) -> str:
        done = asyncio.run(execute(self.target(name), command, stdin=stdin, timeout_s=timeout_s))
        assert done.exit_code == 0, (done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout.decode()

    def facts(self, name: str) -> Facts:
        return asyncio.run(observe(self.target(name)))


@contextmanager
def pair(folder: Path, names: tuple[str, str], home: SshHome | None = None) -> Iterator[Pair]:
    """The two hosts by these names, their own being `host-NAME`; they end with the block."""
    home = home or SshHome(folder / "ssh", folder / "ssh_config")
    park = HostPark(folder / "hosts", rootfs=rootfs.build(paths.cache_dir(), lambda _: None), network=HostNetwork(folder / "hosts"))
    try:
        keys = (home.public_key(),)
        addresses = {name: park.create(HostSpec(f"i-{name}", f"host-{name}", authorized_keys=keys, disk_link=disk_link)) for name in names}
        made = Pair(park, home, addresses)
        lines = "".join(f"{address} host-{name}\\n" for name, address in addresses.items())
        for name, address in addresses.items():
            shown = until(lambda name=name: hostkeys.parse_console(park.console(f"i-{name}")))  # type: ignore[misc]
            home.add(name, address=address, login=rootfs.LOGIN, keys=shown)
            asyncio.run(wait_ready(home.target(name), timeout_s=240))
            made.run(name, f"sudo sed -i '/host-/d' /etc/hosts && printf '{lines}' | sudo tee -a /etc/hosts >/dev/null")
        yield made
    finally:
        for name in names:
            home.close(name)
        park.close()

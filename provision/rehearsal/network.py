"""One bridge for one rehearsal, with a subnet of its own: hosts and this machine reach each other, and nobody else.

There is no route out, no forwarding and no name server. The bridge carries the folder it belongs to as its alias, so that a sweep only
touches what that folder's rehearsal made.
"""

import itertools
import json
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from provision.errors import RehearsalFailedError
from provision.rehearsal.programs import run

_SUBNETS: Final = 200
_FIRST_HOST: Final = 10
_LAST_HOST: Final = 250
_TCP: Final = 6  # by number: its name stands in /etc/protocols, which a minimal system lacks
_LAST_SERVICE: Final = 32_767  # above it are the ports from which a host itself connects: ip(7), ip_local_port_range
_PREFIX: Final = "gprov"
_LINKS: Final = Path("/sys/class/net")


def _ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run("ip", *words, check=check)


def _links() -> list[dict[str, Any]]:
    return list(json.loads(_ip("-json", "link", "show").stdout or "[]"))


class HostNetwork:
    """A bridge, made by the constructor for the folder that it belongs to."""

    def __init__(self, owner: Path) -> None:
        self.number = self._claim(owner)
        self.bridge = f"{_PREFIX}{self.number}"
        self.gateway = f"10.77.{self.number}.1"
        self._next = itertools.cycle(range(_FIRST_HOST, _LAST_HOST))
        self._addresses: set[str] = set()
        _ip("address", "add", f"{self.gateway}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")

    @staticmethod
    def _claim(owner: Path) -> int:
        """The first number whose bridge could be made: the kernel makes a name once, so two rehearsals never share one."""
        routes = _ip("-4", "route", "show").stdout
        reason = ""
        for number in range(_SUBNETS):
            if f"10.77.{number}." in routes:
                continue
            link = _ip("link", "add", f"{_PREFIX}{number}", "type", "bridge", check=False)
            if link.returncode == 0:
                _ip("link", "set", f"{_PREFIX}{number}", "alias", str(owner))
                return number
            reason = link.stderr.strip()
            if not (_LINKS / f"{_PREFIX}{number}").exists():  # refused for another reason than that the name is in use
                break
        msg = "no network bridge could be made for the rehearsal hosts"
        raise RehearsalFailedError(msg, hint="run as root (sudo), on a kernel with bridge and veth support", detail=reason)

    def take_address(self) -> str:
        """An address that no host of this rehearsal has."""
        for _ in range(_FIRST_HOST, _LAST_HOST):
            address = f"10.77.{self.number}.{next(self._next)}"
            if address not in self._addresses:
                self._addresses.add(address)
                return address
        msg = "all addresses of the rehearsal are taken"
        raise RehearsalFailedError(msg, hint="remove instances with `gpuprov down`")

    def give_back(self, address: str) -> None:
        """Let another host have the address."""
        self._addresses.discard(address)

    def plug(self, pid: int, address: str, *, timeout_s: float = 10) -> None:
        """Give the network namespace of a process a card with an address, and put its other end on the bridge.

        The process makes its namespace itself; until it has, it shares ours, and a card must not land there.
        """
        ours, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + timeout_s
        while Path(f"/proc/{pid}/ns/net").readlink() == ours:
            if time.monotonic() > deadline:
                msg = "a rehearsal host did not make its network namespace"
                raise RehearsalFailedError(msg, hint="see the rehearsal's log; `gpuprov rehearse stop` cleans up")
            time.sleep(0.005)
        outer = f"gpv{self.number}-{address.rsplit('.', 1)[1]}"
        _ip("link", "delete", outer, check=False)
        _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _ip("link", "set", outer, "master", self.bridge, "up")
        inside = ["nsenter", "--target", str(pid), "--net", "ip"]
        for words in (
            ["link", "set", "lo", "up"],
            ["address", "add", f"{address}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
        ):
            run(*inside, *words)

    def admit(self, pid: int, rules: Iterable[tuple[str, str]] | None) -> None:
        """Let the TCP services of a process's network answer these networks alone.

        It is done by routes, for which iproute2 is enough (rules with ports: Linux 4.17): an answer to anybody else has none. That is what
        services below port 32768 send; ICMP, UDP and what the host itself begins are not held.

        Args:
            pid: the process; its namespace must be there.
            rules: ports, as `22` or `1-1024`, and the IPv4 network that reaches them; None for everybody.
        """
        plain = [f"rule add pref {number} lookup {table}" for number, table in ((32766, "main"), (32767, "default"))]
        named = [f"rule add pref 100 ipproto {_TCP} sport {ports} to {network} lookup main" for ports, network in rules or ()]
        others = [] if rules is None else [f"rule add pref 200 ipproto {_TCP} sport 1-{_LAST_SERVICE} blackhole"]
        lines = ["rule flush", *named, *others, *plain]  # before the plain ones, so that nobody gets through meanwhile
        run("nsenter", "--target", str(pid), "--net", "ip", "-4", "-batch", "-", told="\n".join(lines) + "\n")

    def close(self) -> None:
        """Remove the bridge; the cards went with their hosts."""
        _ip("link", "delete", self.bridge, check=False)


def owners() -> list[Path]:
    """The folders of all rehearsals that have a bridge on this machine."""
    return [Path(link["ifalias"]) for link in _links() if link["ifname"].startswith(_PREFIX) and link.get("ifalias")]


def present(owner: Path) -> list[str]:
    """The names of this folder's bridges, and of what is plugged into them."""
    links = _links()
    bridges = [link["ifname"] for link in links if link["ifname"].startswith(_PREFIX) and link.get("ifalias") == str(owner)]
    return [*(link["ifname"] for link in links if link.get("master") in bridges), *bridges]


def sweep(owner: Path) -> None:
    """Remove the bridges that an earlier rehearsal of this folder left, with what is plugged into them."""
    for name in present(owner):
        _ip("link", "delete", name, check=False)

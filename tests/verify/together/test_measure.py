"""Two real hosts with real sshd on a real network: what they are to each other, and each way in which they may not be."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

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
from provision.verify.finding import Report
from provision.verify.fleet import Expectation, HostVerification
from provision.verify.judge import judge
from provision.verify.observe import observe
from provision.workflow.verify import judge_together
from tests.verify import good
from tests.waiting import until

pytestmark = pytest.mark.rehearsal
NAMES = ("a", "b")


@dataclass
class Pair:
    """Two hosts, and how a test changes them."""

    park: HostPark
    home: SshHome
    addresses: dict[str, str]

    def target(self, name: str) -> Target:
        return self.home.target(name)

    def run(self, name: str, command: str) -> str:
        done = asyncio.run(execute(self.target(name), command, timeout_s=60))
        assert done.exit_code == 0, done.stderr
        return done.stdout.decode()

    def facts(self, name: str) -> Facts:
        return asyncio.run(observe(self.target(name)))

    def verdicts(self) -> list[HostVerification]:
        made = []
        for name in NAMES:
            facts = self.facts(name)
            made.append(HostVerification(Expectation(self.target(name), good.PROFILE), judge(facts, good.PROFILE, host=name), facts))
        return made

    def together(self) -> dict[str, tuple[str, str]]:
        report: Report = judge_together(self.verdicts(), 30)
        return {finding.check: (finding.outcome, finding.observed) for finding in report.findings}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("together")
    park = HostPark(folder / "hosts", rootfs=rootfs.build(paths.cache_dir(), lambda _: None), network=HostNetwork(folder / "hosts"))
    home = SshHome(folder / "ssh", folder / "ssh_config")
    keys = (home.public_key(),)
    addresses = {name: park.create(HostSpec(f"i-{name}", f"host-{name}", authorized_keys=keys, disk_link=disk_link)) for name in NAMES}
    made = Pair(park, home, addresses)
    try:
        for name, address in addresses.items():
            shown = until(lambda name=name: hostkeys.parse_console(park.console(f"i-{name}")))  # type: ignore[misc]
            home.add(name, address=address, login=rootfs.LOGIN, keys=shown)
            asyncio.run(wait_ready(home.target(name), timeout_s=240))
        lines = "".join(f"{address} host-{name}\n" for name, address in addresses.items())
        for name in NAMES:
            made.run(name, f"sudo sed -i '/host-/d' /etc/hosts && printf '{lines}' | sudo tee -a /etc/hosts >/dev/null")
        yield made
    finally:
        for name in NAMES:
            home.close(name)
        park.close()


def test_a_host_says_its_name_size_address_and_mtu(pair: Pair) -> None:
    from provision.verify.facts.system import MachineFacts

    seen = pair.facts("a").read(MachineFacts)
    assert (seen.hostname, seen.address, seen.interface, seen.mtu) == ("host-a", pair.addresses["a"], "eth0", 1500)
    assert (seen.cpus, seen.memory_mib) == (
        int(pair.run("a", "nproc --all")),
        int(pair.run("a", "awk '/MemTotal/ {print $2}' /proc/meminfo")) >> 10,
    )


def test_two_hosts_of_one_network_hold_together(pair: Pair) -> None:
    found = pair.together()
    assert {check: outcome for check, (outcome, _) in found.items()} == {
        "same-lock": "unknown",  # these were set up by nobody
        "clocks-agree": "pass",
        "names-resolve": "pass",
        "ports-open": "pass",
        "mtu": "pass",
        "rdma": "not-applicable",
        "all-reduce": "not-applicable",
    }
    assert found["mtu"][1] == "1500 bytes"
    # Nothing stays on the hosts.
    assert "python3 -IB" not in pair.run("a", "ps -eo args")
    assert "gpuprov" not in pair.run("b", "ls /tmp")


def test_a_name_that_leads_elsewhere_or_nowhere_is_a_failure(pair: Pair) -> None:
    line = f"{pair.addresses['b']} host-b"
    pair.run("a", f"sudo sed -i 's/^{line}$/10.9.9.9 host-b/' /etc/hosts")
    try:
        assert pair.together()["names-resolve"] == ("fail", f"a finds host-b at 10.9.9.9, not at {pair.addresses['b']}")
        pair.run("a", "sudo sed -i '/host-b/d' /etc/hosts")
        assert pair.together()["names-resolve"] == ("fail", f"a finds host-b at no address, not at {pair.addresses['b']}")
    finally:
        pair.run("a", f"sudo sed -i '/host-b/d' /etc/hosts && echo '{line}' | sudo tee -a /etc/hosts")
    pair.run("b", "sudo sed -i '1i 127.0.1.1 host-b' /etc/hosts")
    try:
        outcome, observed = pair.together()["names-resolve"]
        assert (outcome, observed.startswith("b: the own name is a loopback address")) == ("warn", True)
    finally:
        pair.run("b", "sudo sed -i '/127.0.1.1/d' /etc/hosts")


def test_hosts_that_do_not_reach_each_other_are_named_with_what_is_shut(pair: Pair) -> None:
    way = f"prohibit {pair.addresses['a']}"
    pair.run("b", f"sudo ip route add {way}")
    try:
        found = pair.together()
    finally:
        pair.run("b", f"sudo ip route delete {way}")
    assert found["ports-open"][0] == "fail"
    assert (
        "a does not reach port 22, high TCP ports, UDP of b; b does not reach port 22, high TCP ports, UDP of a" in found["ports-open"][1]
    )
    assert (found["clocks-agree"][0], found["mtu"][0]) == ("unknown", "unknown")


def test_a_clock_that_is_wrong_is_named_with_how_much(pair: Pair) -> None:
    """The hosts share the kernel's clock, so python's is moved on one of them."""
    path = pair.run("b", "python3 -c 'import sysconfig; print(sysconfig.get_path(\"stdlib\"))'").strip() + "/sitecustomize.py"
    code = "import time\nreal = time.time\ntime.time = lambda: real() + 0.4\n"
    pair.run("b", f"printf '{code.encode('unicode_escape').decode()}' | sudo tee {path}")
    try:
        outcome, observed = pair.together()["clocks-agree"]
    finally:
        pair.run("b", f"sudo rm {path}")
    assert outcome == "fail"
    assert re.search(r"b is \+(39\d|40\d) ms from a; a is -(39\d|40\d) ms from b", observed), observed


def test_interfaces_and_ways_with_another_mtu_are_failures(pair: Pair) -> None:
    pair.run("b", "sudo ip link set eth0 mtu 1400")
    try:
        assert pair.together()["mtu"] == ("fail", "a 1500, b 1400")
    finally:
        pair.run("b", "sudo ip link set eth0 mtu 1500")
    shown = subprocess.run(
        ["ip", "-json", "link", "show", "master", pair.park.network.bridge], capture_output=True, text=True, check=True
    ).stdout
    cable = json.loads(shown)[-1]["ifname"]
    subprocess.run(["ip", "link", "set", cable, "mtu", "1400"], check=True)
    try:
        outcome, observed = pair.together()["mtu"]
    finally:
        subprocess.run(["ip", "link", "set", cable, "mtu", "1500"], check=True)
    assert (outcome, observed.startswith("packets of 1500 bytes are lost: ")) == ("fail", True), observed


def test_a_host_that_answers_nonsense_leaves_its_part_unknown(pair: Pair) -> None:
    pair.run("b", "printf '#!/bin/sh\\necho no\\n' | sudo tee /usr/local/bin/python3 >/dev/null && sudo chmod 755 /usr/local/bin/python3")
    try:
        verdicts = []
        for name in NAMES:  # the facts are from before
            facts = good.facts(machine__address=pair.addresses[name], machine__mtu=1500)
            verdicts.append(HostVerification(Expectation(pair.target(name), good.PROFILE), judge(facts, good.PROFILE, host=name), facts))
        report = judge_together(verdicts, 20)
    finally:
        pair.run("b", "sudo rm /usr/local/bin/python3")
    outcomes = {finding.check: (finding.outcome, finding.observed) for finding in report.findings}
    assert outcomes["ports-open"][0] == outcomes["clocks-agree"][0] == outcomes["names-resolve"][0] == "unknown"
    assert report.exit_code() == 3

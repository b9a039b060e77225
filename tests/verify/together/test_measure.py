"""Two real hosts with real sshd on a real network: what they are to each other, and each way in which they may not be."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tests.pair
from provision.verify.facts.system import MachineFacts
from provision.verify.fleet import Expectation, HostVerification
from provision.verify.judge import Selection, judge
from provision.workflow.verify import judge_together
from tests.pair import Pair
from tests.verify import good

pytestmark = pytest.mark.rehearsal
NAMES = ("a", "b")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with tests.pair.pair(tmp_path_factory.mktemp("together"), NAMES) as made:
        yield made


def together(pair: Pair) -> dict[str, tuple[str, str]]:
    verdicts = []
    for name in NAMES:
        facts = pair.facts(name)
        verdicts.append(HostVerification(Expectation(pair.target(name), good.PROFILE), judge(facts, good.PROFILE, host=name), facts))
    report = judge_together(verdicts, Selection(), 30, python=str)
    return {finding.check: (finding.outcome, finding.observed) for finding in report.findings}


@contextmanager
def small_packets_to(pair: Pair, name: str) -> Iterator[None]:
    """Our own connection has packets that pass every MTU of this test: it is not what is measured, and must not hang by its lengths."""
    route = [pair.addresses[name], "dev", pair.park.network.bridge]
    subprocess.run(["ip", "route", "add", *route, "mtu", "1300"], check=True)
    pair.home.close(name)  # a connection keeps the size with which it was opened
    try:
        yield
    finally:
        subprocess.run(["ip", "route", "delete", *route], check=True)
        pair.home.close(name)


def test_a_host_says_its_name_size_address_and_mtu(pair: Pair) -> None:
    seen = pair.facts("a").read(MachineFacts)
    assert (seen.hostname, seen.address, seen.interface, seen.mtu) == ("host-a", pair.addresses["a"], "eth0", 1500)
    assert (seen.cpus, seen.memory_mib) == (
        int(pair.run("a", "nproc --all")),
        int(pair.run("a", "awk '/MemTotal/ {print $2}' /proc/meminfo")) >> 10,
    )


def test_two_hosts_of_one_network_hold_together(pair: Pair) -> None:
    found = together(pair)
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
        assert together(pair)["names-resolve"] == ("fail", f"a finds host-b at 10.9.9.9, not at {pair.addresses['b']}")
        pair.run("a", "sudo sed -i '/host-b/d' /etc/hosts")
        assert together(pair)["names-resolve"] == ("fail", f"a finds host-b at no address, not at {pair.addresses['b']}")
    finally:
        pair.run("a", f"sudo sed -i '/host-b/d' /etc/hosts && echo '{line}' | sudo tee -a /etc/hosts")
    pair.run("b", "sudo sed -i '1i 127.0.1.1 host-b' /etc/hosts")
    try:
        outcome, observed = together(pair)["names-resolve"]
        assert (outcome, observed.startswith("b: the own name is a loopback address")) == ("warn", True)
    finally:
        pair.run("b", "sudo sed -i '/127.0.1.1/d' /etc/hosts")


def test_hosts_that_do_not_reach_each_other_are_named_with_what_is_shut(pair: Pair) -> None:
    way = f"prohibit {pair.addresses['a']}"
    pair.run("b", f"sudo ip route add {way}")
    try:
        found = together(pair)
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
        outcome, observed = together(pair)["clocks-agree"]
    finally:
        pair.run("b", f"sudo rm {path}")
    assert outcome == "fail"
    assert re.search(r"b is \+(39\d|40\d) ms from a; a is -(39\d|40\d) ms from b", observed), observed


def test_interfaces_and_ways_with_another_mtu_are_failures(pair: Pair) -> None:
    with small_packets_to(pair, "b"):
        pair.run("b", "sudo ip link set eth0 mtu 1400")
        try:
            assert together(pair)["mtu"] == ("fail", "a 1500, b 1400")
        finally:
            pair.run("b", "sudo ip link set eth0 mtu 1500")
        shown = subprocess.run(
            ["ip", "-json", "link", "show", "master", pair.park.network.bridge], capture_output=True, text=True, check=True
        ).stdout
        cable = json.loads(shown)[-1]["ifname"]
        subprocess.run(["ip", "link", "set", cable, "mtu", "1400"], check=True)
        try:
            outcome, observed = together(pair)["mtu"]
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
        report = judge_together(verdicts, Selection(), 20, python=str)
    finally:
        pair.run("b", "sudo rm /usr/local/bin/python3")
    outcomes = {finding.check: (finding.outcome, finding.observed) for finding in report.findings}
    assert outcomes["ports-open"][0] == outcomes["clocks-agree"][0] == outcomes["names-resolve"][0] == "unknown"
    assert report.exit_code() == 3

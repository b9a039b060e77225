"""Judge a group of hosts: pure, from what each host said of itself and of the others."""

import contextlib
import functools
import ipaddress
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from provision.structs import Struct
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import GpuFacts
from provision.verify.facts.health import GspFacts
from provision.verify.facts.system import KernelFacts, MachineFacts, RdmaFacts, RdmaPort
from provision.verify.finding import Finding, Outcome, Report
from provision.verify.together.measure import HostAnswer, PeerAnswer
from provision.verify.together.sums import SumAnswer, SumFigures

CLOCK_S: Final = 0.05
"""How far clocks may be apart: a choice of gpuprov. The logs of several hosts can be read as one below it."""

SLOW: Final = 0.8
"""A host is slow whose usual sum with one other host is below this share of the median over all hosts: a choice of gpuprov."""

Answers = Mapping[str, HostAnswer | str]
Sums = Mapping[str, SumAnswer | str]
_FEWEST: Final = 3
_LINK_UP, _DISABLED = "5:", "3:"  # of phys_state
_DMA_BUF_FROM: Final = (5, 12)


class GroupHost(Struct):
    """One host of the group, with the digest of its lock (None without one) and its facts (None where it was not observed)."""

    name: str
    lock: str | None
    facts: Facts | None

    def machine(self) -> MachineFacts:
        """Size and address of the host; NotObservedError where they are not known."""
        if self.facts is None:
            msg = "the host was not observed"
            raise NotObservedError(msg)
        return self.facts.read(MachineFacts)


class _Judged(Struct):
    outcome: Outcome
    observed: str


def judge_group(hosts: Sequence[GroupHost], answers: Answers, sums: Sums | None = None, *, observed_at: str) -> Report:
    """One finding for each property of the group. What a host did not say is unknown.

    Args:
        hosts: the group.
        answers: what each found of the others.
        sums: what each measured of sums over several hosts; None where the tier leaves them out.
        observed_at: when, as ISO 8601 in UTC.
    """
    checks: tuple[tuple[str, str, str, str, Callable[[Sequence[GroupHost], Answers], _Judged]], ...] = (
        ("same-lock", "all hosts have one lock", "one digest", "set them up from one profile and lock: `gpuprov apply HOST`", _same_lock),
        ("clocks-agree", "the clocks agree", f"at most {CLOCK_S * 1000:g} ms apart", "see `chronyc tracking` on each host", _clocks),
        (
            "names-resolve",
            "each host finds the others by name",
            "the address of the other",
            "give the names to the network's name server, or to /etc/hosts",
            _names,
        ),
        (
            "ports-open",
            "the hosts reach each other",
            "TCP on port 22 and on high ports, UDP",
            "let the group's firewall rule name the group itself as its source, for all ports",
            _ports,
        ),
        ("mtu", "whole packets arrive", "one MTU, end to end", "give all interfaces and the network between them one MTU", _mtu),
        (
            "rdma",
            "RDMA devices work",
            "the same devices on all hosts",
            "see `ibstat` or `fi_info -p efa` on each host, and the group's firewall rule",
            _rdma,
        ),
        (
            "all-reduce",
            "an all-reduce over all hosts is fast",
            "measured in pairs and together",
            "look at the slow host's cable, its RDMA devices and what else runs there; nccl-tests (`gpuprov export --to mpi`) says more",
            functools.partial(_all_reduce, sums=sums),
        ),
    )
    findings = []
    for check, title, expected, hint, judge in checks:
        try:
            found = judge(hosts, answers)
        except NotObservedError as reason:
            found = _Judged("unknown", str(reason))
        told = "" if found.outcome in {"pass", "not-applicable"} else hint
        findings.append(Finding(check, title, found.outcome, expected, found.observed, told))
    names = ", ".join(host.name for host in hosts)
    return Report(f"together: {len(hosts)} hosts", "the group", tuple(findings), notes=(f"the hosts: {names}",), observed_at=observed_at)


def _same_lock(hosts: Sequence[GroupHost], _answers: Answers) -> _Judged:
    without = [host.name for host in hosts if host.lock is None]
    if without:
        return _Judged("unknown", f"the lock is not known: {', '.join(without)}")
    digests = {host.name: str(host.lock)[:12] for host in hosts}
    if len(set(digests.values())) == 1:
        return _Judged("pass", f"sha256:{next(iter(digests.values()))}…")
    return _Judged("fail", ", ".join(f"{name} {digest}" for name, digest in digests.items()))


def _pairs(hosts: Sequence[GroupHost], answers: Answers) -> Iterator[tuple[str, GroupHost, PeerAnswer]]:
    """Who asked, who was asked, and the answer; NotObservedError at the first that is missing."""
    for host in hosts:
        said = answers.get(host.name, "it was not asked")
        if isinstance(said, str):
            msg = f"{host.name}: {said}"
            raise NotObservedError(msg)
        for other in hosts:
            if other is host:
                continue
            if other.name not in said.peers:
                msg = f"{host.name} did not say what it found of {other.name}"
                raise NotObservedError(msg)
            yield host.name, other, said.peers[other.name]


def _clocks(hosts: Sequence[GroupHost], answers: Answers) -> _Judged:
    apart = [(one, other.name, peer.clock) for one, other, peer in _pairs(hosts, answers)]
    told = [(one, other, clock) for one, other, clock in apart if clock is not None]
    wrong = [
        f"{other} is {clock.ahead_s * 1000:+.0f} ms from {one}"
        for one, other, clock in told
        if abs(clock.ahead_s) - clock.error_s > CLOCK_S
    ]
    if wrong:
        return _Judged("fail", "; ".join(wrong))
    unsure = [f"{one} and {other}" for one, other, clock in apart if clock is None or abs(clock.ahead_s) + clock.error_s > CLOCK_S]
    if unsure:
        return _Judged("unknown", f"the clocks of {', '.join(unsure)} could not be compared")
    return _Judged("pass", f"at most {max(abs(clock.ahead_s) + clock.error_s for _, _, clock in told) * 1000:.1f} ms apart")


def _names(hosts: Sequence[GroupHost], answers: Answers) -> _Judged:
    wrong = []
    for one, other, peer in _pairs(hosts, answers):
        machine = other.machine()
        if machine.address not in peer.resolved:
            wrong.append(f"{one} finds {machine.hostname} at {', '.join(peer.resolved) or 'no address'}, not at {machine.address}")
    if wrong:
        return _Judged("fail", "; ".join(wrong))
    looped = [name for name, said in answers.items() if isinstance(said, HostAnswer) and any(map(_is_loopback, said.own))]
    if looped:
        return _Judged("warn", f"{', '.join(looped)}: the own name is a loopback address, which engines announce to the others")
    return _Judged("pass", f"{len(hosts)} names, from each host")


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _ports(hosts: Sequence[GroupHost], answers: Answers) -> _Judged:
    closed = []
    for one, other, peer in _pairs(hosts, answers):
        ways = {"port 22": bool(peer.ssh), "high TCP ports": peer.clock is None, "UDP": not peer.small}
        if any(ways.values()):
            closed.append(f"{one} does not reach {', '.join(way for way, shut in ways.items() if shut)} of {other.name}")
    return _Judged("fail", "; ".join(closed)) if closed else _Judged("pass", "from each host to each")


def _mtu(hosts: Sequence[GroupHost], answers: Answers) -> _Judged:
    sizes = {host.name: host.machine().mtu for host in hosts}
    if len(set(sizes.values())) > 1:
        return _Judged("fail", ", ".join(f"{name} {size}" for name, size in sizes.items()))
    pairs = [(one, other.name, peer.large) for one, other, peer in _pairs(hosts, answers)]
    lost = [f"{one} to {other}" for one, other, large in pairs if large is False]
    if lost:
        return _Judged("fail", f"packets of {next(iter(sizes.values()))} bytes are lost: {', '.join(lost)}")
    if any(large is None for _, _, large in pairs):
        return _Judged("unknown", "small packets do not come through, so that large ones say nothing")
    return _Judged("pass", f"{next(iter(sizes.values()))} bytes")


def _bad_ports(ports: Sequence[RdmaPort]) -> Iterator[str]:
    """Ports that ought to work: without a subnet manager, that were up, or none of which is; one that was never up may have no cable."""
    idle = not any(port.active for port in ports)
    for port in (port for port in ports if not port.active):
        if port.phys_state.startswith(_LINK_UP):
            yield f"{port.name} is {port.state}: the link is up, and no subnet manager has set it up"
        elif not port.phys_state.startswith(_DISABLED) and (idle or port.errors.get("link_downed")):
            yield f"{port.name} is {port.state}, {port.phys_state}: look at its cable and at the switch"


def _doubtful_ports(host: Facts, rdma: RdmaFacts) -> Iterator[str]:
    """What makes RDMA slower: a port below others of its model, errors that come now, and no path to the memory of GPUs."""
    working = [port for port in rdma.ports if port.active]
    for port in working:
        best = max(other.gb_s for other in working if (other.kind, other.link_layer) == (port.kind, port.link_layer))
        if port.gb_s < best:
            yield f"{port.name} runs at {port.gb_s:g} Gb/s, and another of its model at {best:g}"
        if port.grown:
            yield f"{port.name} has errors that grow: {', '.join(f'{name} {port.errors[name]}' for name in port.grown)}"
    # Either way opens the memory of GPUs to a network card: docs/sources/verification.md §2.8. EFA's driver has one of its own.
    kernel = tuple(map(int, re.findall(r"\d{1,4}", host.read(KernelFacts).release)[:2]))
    direct = host.read(GspFacts).modules == "open" and kernel >= _DMA_BUF_FROM
    if rdma.peermem != "loaded" and not direct and any(port.kind.startswith("mlx") for port in working):
        todo = "`sudo modprobe nvidia_peermem`" if rdma.peermem else "the driver was built without it for this kernel"
        yield f"no nvidia_peermem, so that data of GPUs goes through the host's memory: {todo}"


def _rdma(hosts: Sequence[GroupHost], answers: Answers) -> _Judged:
    devices = {host.name: len(host.machine().rdma) for host in hosts}
    if not any(devices.values()):
        return _Judged("not-applicable", "no host has an RDMA device")
    if len(set(devices.values())) > 1:
        return _Judged("fail", ", ".join(f"{name} has {count}" for name, count in devices.items()))
    bad, doubtful, ports = list[str](), list[str](), list[RdmaPort]()
    for name, observed in ((host.name, host.facts) for host in hosts if host.facts):
        with contextlib.suppress(NotObservedError):  # an older probe
            seen = observed.read(RdmaFacts)
            ports += seen.ports
            bad += [f"{name}: {words}" for words in _bad_ports(seen.ports)]
            doubtful += [f"{name}: {words}" for words in _doubtful_ports(observed, seen)]
    if bad:
        return _Judged("fail", "; ".join(bad))
    said = {name: answer.efa for name, answer in answers.items() if isinstance(answer, HostAnswer)}
    broken = [name for name, works in said.items() if works is False]
    others = ports and not any(port.kind.startswith("efa") for port in ports)  # libfabric finds an EFA where there is one
    if broken and not others:
        return _Judged("fail", f"libfabric finds no EFA on {', '.join(broken)}")
    if doubtful:
        return _Judged("warn", "; ".join(doubtful))
    if others:
        return _Judged("pass", f"{next(iter(devices.values()))} on each host, {sum(port.active for port in ports)} active in all")
    if len(said) < len(hosts) or None in said.values():
        return _Judged("unknown", "there is no fi_info on each host, so it is unknown whether the devices work")
    return _Judged("pass", f"{next(iter(devices.values()))} on each host")


def _all_reduce(hosts: Sequence[GroupHost], _answers: Answers, *, sums: Sums | None) -> _Judged:
    for host in hosts:
        if host.facts is None:
            msg = f"{host.name} was not observed"
            raise NotObservedError(msg)
    if not any(host.facts.read(GpuFacts).exists for host in hosts if host.facts):
        return _Judged("not-applicable", "no host has a GPU")
    if sums is None:
        return _Judged("not-applicable", "not measured: --tier perf measures it, and keeps the GPUs busy for some seconds")
    figures = {host.name: _figures(host.name, sums) for host in hosts}
    wrong = [name for name, each in figures.items() if not each.right]
    if wrong:
        return _Judged("fail", f"the sum is wrong on {', '.join(wrong)}")
    together = min(each.together for each in figures.values())
    # The higher of two middles: with three hosts it is the better pair, so that one slow host does not make the two others slow.
    usual = {name: statistics.median_high(each.pairs.values()) if each.pairs else 0.0 for name, each in figures.items()}
    told = f"{together:.3g} GB/s over all, {min(usual.values()):.3g} to {max(usual.values()):.3g} GB/s in pairs"
    if len(hosts) < _FEWEST:
        return _Judged("unknown", f"{told}; the sums are right, and two hosts do not show whether one of them is slow")
    middle = statistics.median(usual.values())
    slow = [
        f"{name} reaches {each:.3g} GB/s with the others, {each / middle:.0%} of what is usual here"
        for name, each in usual.items()
        if each < SLOW * middle
    ]
    return _Judged("fail", f"{'; '.join(slow)}; {told}") if slow else _Judged("pass", told)


def _figures(name: str, sums: Sums) -> SumFigures:
    """What a host measured; NotObservedError where it did not."""
    said = sums.get(name, "it was not asked")
    if isinstance(said, str) or said.figures is None:
        msg = f"{name}: {said if isinstance(said, str) else said.why}"
        raise NotObservedError(msg)
    return said.figures

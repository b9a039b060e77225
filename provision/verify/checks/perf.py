"""Acceptance: what each GPU does under load, against a sourced figure and against the GPUs beside it; and when it is low, why.

The gates are data (catalog/data/gpus.yaml, `acceptance`); the rules are those of docs/sources/verification.md §2.5 and §3b.
A GPU that somebody else uses proves nothing either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from provision.catalog import read
from provision.catalog.records.gpus import GpuRecord, Healthy
from provision.catalog.roofline import has_nvml_name
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, failed, not_asked, passed, require_gpu, unknown, warned
from provision.verify.facts import Facts
from provision.verify.facts.perf import PartFacts, PerfDeviceFacts, PerfFacts
from provision.verify.finding import Outcome

__all__ = ["CHECKS"]

# Bits of nvmlClocksEventReasons (nvml.h). Idle, application clocks, sync boost and display hold nothing back under load.
_HELD: Final = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake"}
_HARDWARE: Final = 0x8 | 0x40 | 0x80
_HEAT: Final = 0x20
# A reason that shows in fewer samples is a flicker: DCGM fails a suite for "0.0 seconds" of it (DCGM #242).
_FLICKER: Final = 0.10
# A product in bf16 is off by 0.0016 on an H200 (tests/data/facts/h200-perf.json); one wrong tile among 64 x 64 values is far above this.
_OFF: Final = 0.01
# Clocks of host and card differ by less; a figure above the card's own maximum by more is no measurement.
_ABSURD: Final = 1.05
_BUSY: Final = 10  # per cent: what a listing of processes from within a container does not show
# GB/s a lane and direction after encoding, by generation (PCI Express Base Specification).
_LANE: Final = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
_WORST: Final[tuple[Outcome, ...]] = ("fail", "unknown", "warn", "pass")

_LOW = "see what held it back; if it stays so on an idle host, hand the machine back and launch another"
_COMPARE = "compare with a host of the same kind that is known to be well"
_AGAIN = "stop what else uses the GPU, and measure again with --tier perf"


@dataclass(frozen=True, slots=True)
class _One:
    """What one GPU showed."""

    outcome: Outcome
    said: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _Gate:
    """What a rate is held to: the least that passes and the least that does not fail, the most that can be true; None where unknown."""

    expected: str
    warn: float | None = None
    fail: float | None = None
    most: float | None = None


def _measured(facts: Facts) -> PerfFacts:
    require_gpu(facts)
    return facts.read(PerfFacts)


def _table(perf: PerfFacts, profile: Profile) -> tuple[GpuRecord, Healthy]:
    """The card of the profile, and its healthy figures where all GPUs are that card in the form that the figures are of."""
    card = read.gpu(profile.gpu.model)
    if all(has_nvml_name(card, device.name) for device in perf.devices):
        return card, read.gpus().acceptance.healthy.get(card.model, Healthy())
    return card, Healthy()


def _shares(what: str, healthy: float | None, most: float | None) -> _Gate:
    gates = read.gpus().acceptance
    if healthy is None:
        return _Gate(f"{what}; no healthy figure is known to hold it to", most=most)
    warn, fail = gates.warn_share * healthy, gates.fail_share * healthy
    return _Gate(f"{what}: at least {warn:.4g} of a healthy {healthy:g}", warn, fail, most)


def _others(device: PerfDeviceFacts) -> str:
    """Who else used the GPU; empty when nobody did."""
    if device.others.during:
        return ", ".join(device.others.during)
    if not device.others.before and (device.others.busy_before or 0) >= _BUSY:
        return f"somebody unseen ({device.others.busy_before} % busy before)"
    return ""


def _why(device: PerfDeviceFacts) -> str:
    """The state of a GPU under load: what explains a low figure."""
    load = device.load
    held = [name for bit, name in _HELD.items() if _share(device, bit) > _FLICKER]
    parts = [
        f"SM {load.sm_mhz} of {load.max_sm_mhz} MHz" if load.sm_mhz is not None else "",
        f"{load.power_w:.0f} of {load.power_limit_w or 0:.0f} W" if load.power_w is not None else "",
        f"{load.temperature_c} C" if load.temperature_c is not None else "",
        f"held by {', '.join(held)}" if held else ("held by nothing" if load.reasons is not None else "reasons not readable"),
        f"link {load.link_generation} x{load.link_width} of {load.max_link_generation} x{load.max_link_width}" if load.link_width else "",
    ]
    return ", ".join(part for part in parts if part)


def _share(device: PerfDeviceFacts, bits: int) -> float:
    """The largest share of samples in which one of some reasons was set."""
    return max((share for bit, share in (device.load.reasons or {}).items() if int(bit) & bits), default=0.0)


def _against(gate: _Gate, rate: float, best: float) -> tuple[Outcome, list[str]]:
    """A rate against its gate and the best of the GPUs beside it."""
    gates = read.gpus().acceptance
    outcome: Outcome = "pass"
    said = []
    if gate.most is not None and rate > gate.most * _ABSURD:
        return "unknown", [f"more than the {gate.most:g} that it can do"]
    if gate.warn is None or gate.fail is None:
        outcome = "unknown"
    elif rate < gate.fail:
        outcome = "fail"
    elif rate < gate.warn:
        outcome = "warn"
    if rate < gates.sibling_share * best:
        said.append(f"{100 * (1 - rate / best):.0f} % below the best GPU beside it")
        beside: Outcome = "fail" if rate < gates.fail_share * best else "warn"
        outcome = min(outcome, beside, key=_WORST.index)
    return outcome, said


def _each(
    perf: PerfFacts,
    *,
    part: Callable[[PerfDeviceFacts], PartFacts],
    rate: Callable[[PerfDeviceFacts], float | None],
    figure: Callable[[PerfDeviceFacts], str],
    gate: Callable[[PerfDeviceFacts], _Gate],
    wrong: Callable[[PerfDeviceFacts], bool],
) -> list[_One]:
    """Every GPU of a check by itself and against the others, of which only those count that nobody else used."""
    alone = [(rate(d), gate(d).most) for d in perf.devices if not _others(d) and not wrong(d)]
    undisturbed = [r for r, most in alone if r is not None and (most is None or r <= most * _ABSURD)]
    found = []
    for number, device in enumerate(perf.devices):
        value, other = rate(device), _others(device)
        if wrong(device):
            found.append(
                _One("fail", f"GPU {number}: WRONG result ({_why(device)})", "the GPU or its memory is broken: hand the machine back")
            )
        elif value is None:
            reason = part(device)
            said = f"{reason.reason}: {reason.unknown}" if reason.reason else "no figure"
            found.append(_One("unknown", f"GPU {number} not measured, {said}", "see the reason, and measure again with --tier perf"))
        elif other:
            found.append(_One("unknown", f"GPU {number}: {figure(device)}, also used by {other} ({_why(device)})", _AGAIN))
        else:
            outcome, said_beside = _against(gate(device), value, max(undisturbed, default=value))
            words = ", ".join([figure(device), *said_beside])
            hint = _LOW if outcome in {"fail", "warn"} else _COMPARE
            found.append(_One(outcome, f"GPU {number}: {words}" + ("" if outcome == "pass" else f" ({_why(device)})"), hint))
    return found


def _together(expected: str, found: Sequence[_One]) -> Verdict:
    """The worst of all GPUs, with the words of each."""
    worst = min(found, key=lambda one: _WORST.index(one.outcome))
    observed = "; ".join(one.said for one in found)
    if worst.outcome == "pass":
        return passed(expected, observed)
    return {"fail": failed, "unknown": unknown, "warn": warned}[worst.outcome](expected, observed, worst.hint)


def _gemm(facts: Facts, profile: Profile) -> Verdict:
    """The fastest 20 ms against the table, whose figures are of so short runs; the sustained rate may fall to the share that fails."""
    perf = _measured(facts)
    card, healthy = _table(perf, profile)
    precision = perf.devices[0].gemm.precision or "?"
    gate = _shares(f"TFLOPS of a product in {precision}", healthy.tensor_tflops, card.peaks.get(precision))
    found = _each(
        perf,
        part=lambda d: d.gemm,
        rate=lambda d: d.gemm.tflops,
        figure=lambda d: f"{d.gemm.tflops:.4g} TFLOPS, sustained {d.gemm.sustained_tflops or 0:.4g}",
        gate=lambda _: gate,
        wrong=lambda d: d.gemm.tflops is not None and (d.gemm.error is None or d.gemm.error > _OFF),
    )
    sustained = [d.gemm.sustained_tflops for d in perf.devices if d.gemm.sustained_tflops is not None and not _others(d)]
    return _together(gate.expected, [_held_back(one, d, gate, sustained) for one, d in zip(found, perf.devices, strict=True)])


def _held_back(one: _One, device: PerfDeviceFacts, gate: _Gate, sustained: Sequence[float]) -> _One:
    """The same with what five seconds of load show: a rate that falls, and what slowed the clocks."""
    rate = device.gemm.sustained_tflops
    if one.outcome == "fail" or device.gemm.tflops is None or _others(device):
        return one
    if rate is None:
        return _One("unknown", f"{one.said}; no sustained rate", "see `gpuprov probe HOST --tier perf`")
    slowed = ""
    outcome: Outcome = "pass"
    if (gate.fail is not None and rate < gate.fail) or _share(device, _HARDWARE) > _FLICKER:
        outcome, slowed = "fail", "does not hold it"
    elif _share(device, _HEAT) > _FLICKER or rate < read.gpus().acceptance.sibling_share * max(sustained):
        outcome, slowed = "warn", "does not hold it as well as it should"
    if _WORST.index(outcome) >= _WORST.index(one.outcome):
        return one
    return _One(outcome, f"{one.said}; {slowed} ({_why(device)})", _LOW)


def _memory(facts: Facts, profile: Profile) -> Verdict:
    perf = _measured(facts)
    card, healthy = _table(perf, profile)
    gate = _shares("GB/s of a copy in memory", healthy.memory_gb_s, card.bandwidth_gb_s)
    found = _each(
        perf,
        part=lambda d: d.memory,
        rate=lambda d: d.memory.gb_s,
        figure=lambda d: f"{d.memory.gb_s:.5g} GB/s",
        gate=lambda _: gate,
        wrong=lambda d: d.memory.gb_s is not None and d.memory.right is not True,
    )
    return _together(gate.expected, found)


def _copies(facts: Facts, profile: Profile) -> Verdict:
    """A floor, not a share: what is healthy depends on the host, so it is of the link as negotiated, unless one is known of the card."""
    perf = _measured(facts)
    _, healthy = _table(perf, profile)
    share = read.gpus().acceptance.link_share
    known = healthy.copies_floor_gb_s
    expected = f"GB/s to and from the host: at least {f'{known:g}' if known else f'{share:.0%} of the link'}"

    def slower(device: PerfDeviceFacts) -> float | None:
        rates = (device.copies.to_device_gb_s, device.copies.to_host_gb_s)
        return None if None in rates else min(rate for rate in rates if rate is not None)

    def gate(device: PerfDeviceFacts) -> _Gate:
        link = _LANE.get(device.load.link_generation or 0, 0.0) * (device.load.link_width or 0)
        # A hypervisor may show a link that is not there; what was measured is.
        believed = link > 0 and max(device.copies.to_device_gb_s or 0, device.copies.to_host_gb_s or 0) <= link * _ABSURD
        floor = known or (share * link if believed else None)
        return _Gate(expected, floor, floor)

    found = _each(
        perf,
        part=lambda d: d.copies,
        rate=slower,
        figure=lambda d: f"{d.copies.to_device_gb_s:.4g} GB/s to it, {d.copies.to_host_gb_s:.4g} back",
        gate=gate,
        wrong=lambda d: slower(d) is not None and d.copies.right is not True,
    )
    return _together(expected, found)


def _all_reduce(facts: Facts, profile: Profile) -> Verdict:
    perf = _measured(facts)
    count = len(perf.devices)
    if count == 1:
        return not_asked("there is one GPU")
    card, healthy = _table(perf, profile)
    gate = _shares(f"a right sum over {count} GPUs, GB/s of its bus", healthy.all_reduce_gb_s.get(count), None)
    found = perf.all_reduce
    orders = ", ".join(f"{name}={value}" for name, value in found.environment.items())
    states = "; ".join(f"GPU {number}: {_why(device)}" for number, device in enumerate(perf.devices))
    why = f" ({f'ordered {orders}; ' if orders else ''}{states})"
    if found.bus_gb_s is None:
        return unknown(
            gate.expected, f"not measured, {found.reason}: {found.unknown}", "see the reason, and measure again with --tier perf"
        )
    if found.right is not True:
        return failed(gate.expected, f"WRONG sum{why}", "a GPU or a link between them is broken: hand the machine back")
    rate = f"right, {found.bus_gb_s:.4g} GB/s"
    others = [f"GPU {number} also used by {_others(device)}" for number, device in enumerate(perf.devices) if _others(device)]
    if others or found.gpus != count:
        return unknown(gate.expected, f"{rate}; {'; '.join(others) or f'over {found.gpus} of {count} GPUs'}{why}", _AGAIN)
    if card.model in read.gpus().acceptance.all_reduce_reported:
        return passed("a right sum over all GPUs; its rate is the host's", rate)
    outcome, _ = _against(gate, found.bus_gb_s, found.bus_gb_s)
    hint = _LOW if outcome != "unknown" else _COMPARE
    return _together(gate.expected, [_One(outcome, rate + ("" if outcome == "pass" else why), hint)])


def _check(check_id: str, title: str, judge: Callable[[Facts, Profile], Verdict]) -> Check:
    return Check(check_id, title, judge, needs_gpu=True, tier="perf")


CHECKS = (
    _check("gemm", "every GPU computes as fast as a healthy one", _gemm),
    _check("memory-bandwidth", "the memory of every GPU is as fast as a healthy one's", _memory),
    _check("host-copies", "copies between host and GPU are as fast as the link", _copies),
    _check("all-reduce", "all GPUs sum together, rightly and fast", _all_reduce),
)

"""Acceptance: what each GPU does under load, against a sourced figure and against the GPUs beside it; and when it is low, why.

The gates are data (catalog/data/gpus.yaml, `acceptance`); the rules are those of docs/sources/verification.md §2.5, §3b and §6.8.
A GPU that another process uses proves nothing either way.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from provision.catalog import read
from provision.catalog.records.gpus import GpuRecord, Healthy
from provision.catalog.roofline import has_nvml_name
from provision.profile.model import Profile
from provision.structs import Struct, replace
from provision.verify.checks.base import (
    AGAIN,
    BROKEN,
    COMPARE,
    MEASURE,
    WORST,
    Check,
    Heard,
    Verdict,
    fails,
    gpu_count,
    not_applicable,
    over_all,
    passes,
    together,
    unknown,
    unless,
    warns,
)
from provision.verify.facts import Facts
from provision.verify.facts.gpu import require_gpu
from provision.verify.facts.perf import ABSURD, FLICKER, LANE, OFF, FleetFacts, PartFacts, PerfDeviceFacts, PerfFacts, Reason
from provision.verify.finding import Outcome

# Bits of nvmlClocksEventReasons (nvml.h).
_HARDWARE: Final = 0x8 | 0x40 | 0x80
_HEAT: Final = 0x20
_NEARLY: Final = 0.9  # of the power limit; DCGM's targeted power passes from 0.75 of it on

_ENDLESS: Final[frozenset[Reason]] = frozenset({"timeout"})
_UNREACHED: Final[frozenset[Reason]] = frozenset({"lost"})
_HANGS = (
    "a path between GPUs hangs, mostly that of PCIe: where `NCCL_P2P_DISABLE=1 all_reduce_perf -g 2` of nccl-tests ends, switch off the "
    "bridges' ACS (`lspci -vvv | grep ACSCtl`), and boot with iommu=pt"
)
_UNTRAINED = "reseat the card, look at riser and retimer, and set the slot's speed in the firmware; on a cloud machine hand it back"
_LOW = "see what held it back; if an idle host stays slow, hand the machine back and launch another"


class _Gate(Struct):
    """The gates of a rate: the least that passes, the least that does not fail, the most that can be true; None where unknown."""

    expected: str
    warn: float | None = None
    fail: float | None = None
    most: float | None = None


def _perf(facts: Facts) -> PerfFacts:
    require_gpu(facts)
    return facts.read(PerfFacts)


class _Reference(Struct):
    """What is known of the card of the profile.

    Attributes:
        alike: whether all GPUs of the host are that card in that form.
        fleet: the figures that the fleet measured itself, of how many hosts; the others are the catalogue's.
    """

    card: GpuRecord
    healthy: Healthy
    alike: bool
    fleet: frozenset[float] = frozenset()
    hosts: int = 0

    def gate(self, what: str, healthy: float | None, most: float | None, share: float) -> _Gate:
        """The gates of a rate by its healthy figure, or by the share that healthy cards reach of the datasheet's `most`."""
        gates = read.gpus().acceptance
        if healthy is not None:
            whose = f"this fleet's {self.hosts} measured hosts' median of" if healthy in self.fleet else "a healthy"
            whose = f"{whose} {healthy:g}"
        else:
            if most is None or not self.alike:
                return _Gate(f"{what}; the catalog has no figure of this card to compare it with", most=most)
            healthy = share * most
            whose = f"{healthy:.4g}, {share:.0%} of the datasheet's {most:g}"
        warn, fail = gates.warn_share * healthy, gates.fail_share * healthy
        return _Gate(f"{what}: at least {warn:.4g} of {whose}", warn, fail, most)

    @property
    def is_capped(self) -> bool:
        """Whether the card's power limit is lower than what its clocks take."""
        return self.card.power_w is not None and self.card.power_w <= read.gpus().acceptance.datasheet.capped_w

    def floor(self, gate: _Gate, device: PerfDeviceFacts) -> float | None:
        """The least sustained rate; None for a capped card that draws all it may, and of which no settled figure is known."""
        if self.healthy.settled_tflops is not None:
            return read.gpus().acceptance.fail_share * self.healthy.settled_tflops
        return None if self.is_capped and _draws_all(device) else gate.fail


def _reference(facts: Facts, perf: PerfFacts, profile: Profile) -> _Reference:
    """The fleet's own figures where there are some; what it did not measure is the catalogue's."""
    card = read.gpu(profile.gpu.model)
    alike = all(has_nvml_name(card, device.name) for device in perf.devices if device.name)
    healthy = read.gpus().acceptance.healthy.get(card.model, Healthy()) if alike else Healthy()
    if FleetFacts.name not in facts.raw:
        return _Reference(card, healthy, alike)
    fleet = facts.read(FleetFacts)
    if fleet.gpu != card.model or not alike:
        return _Reference(card, healthy, alike)
    own = Healthy(
        tensor_tflops=fleet.tensor_tflops or healthy.tensor_tflops,
        settled_tflops=fleet.settled_tflops or healthy.settled_tflops,
        memory_gb_s=fleet.memory_gb_s or healthy.memory_gb_s,
        copies_floor_gb_s=read.gpus().acceptance.link_share * fleet.copies_gb_s if fleet.copies_gb_s else healthy.copies_floor_gb_s,
        all_reduce_gb_s={**healthy.all_reduce_gb_s, **fleet.all_reduce_gb_s},
    )
    figures = (fleet.tensor_tflops, fleet.memory_gb_s, *fleet.all_reduce_gb_s.values())
    return _Reference(card, own, alike, frozenset(figure for figure in figures if figure is not None), fleet.hosts)


def _why(device: PerfDeviceFacts) -> str:
    """The state of a GPU under load: what explains a low figure."""
    load = device.load
    held = load.held_down_by
    parts = [
        f"SM {load.sm_mhz} of {load.max_sm_mhz} MHz" if load.sm_mhz is not None else "",
        f"{load.power_w:.0f} of {load.power_limit_w or 0:.0f} W" if load.power_w is not None else "",
        f"{load.temperature_c} C" if load.temperature_c is not None else "",
        f"held by {', '.join(held)}" if held else ("held by nothing" if load.reasons is not None else "reasons not readable"),
        f"link {load.link_generation} x{load.link_width} of {load.max_link_generation} x{load.max_link_width}" if load.link_width else "",
    ]
    return ", ".join(part for part in parts if part)


def _against(gate: _Gate, rate: float, best: float) -> tuple[Outcome, list[str]]:
    """A rate against its gate and the best of the GPUs beside it."""
    gates = read.gpus().acceptance
    outcome: Outcome = "pass"
    words = []
    if gate.most is not None and rate > gate.most * ABSURD:
        return "unknown", [f"more than the {gate.most:g} that it can do"]
    if gate.warn is None or gate.fail is None:
        outcome = "unknown"
    elif rate < gate.fail:
        outcome = "fail"
    elif rate < gate.warn:
        outcome = "warn"
    if rate < gates.sibling_share * best:
        words.append(f"{100 * (1 - rate / best):.0f} % below the best GPU beside it")
        beside: Outcome = "fail" if rate < gates.fail_share * best else "warn"
        outcome = min(outcome, beside, key=WORST.index)
    return outcome, words


def _each(
    perf: PerfFacts,
    *,
    part: Callable[[PerfDeviceFacts], PartFacts],
    rate: Callable[[PerfDeviceFacts], float | None],
    figure: Callable[[PerfDeviceFacts], str],
    gate: Callable[[PerfDeviceFacts], _Gate],
    wrong: Callable[[PerfDeviceFacts], bool],
) -> list[Verdict]:
    """Every GPU by itself and against the best of the others; GPUs with other users do not count as such."""
    alone = [(rate(d), gate(d).most) for d in perf.devices if not d.others.users and not wrong(d)]
    undisturbed = [r for r, most in alone if r is not None and (most is None or r <= most * ABSURD)]
    results = []
    for number, device in perf.numbered.items():
        value, other = rate(device), device.others.users
        if wrong(device):
            results.append(fails("", f"GPU {number}: WRONG result ({_why(device)})", BROKEN))
        elif value is None:
            reason = part(device)
            why = f"{reason.reason}: {reason.unknown}" if reason.reason else "no figure"
            results.append(unknown("", f"GPU {number} not measured, {why}", MEASURE))
        elif other:
            results.append(unknown("", f"GPU {number}: {figure(device)}, also used by {other} ({_why(device)})", AGAIN))
        else:
            outcome, comparison = _against(gate(device), value, max(undisturbed, default=value))
            words = ", ".join([figure(device), *comparison])
            hint = _LOW if outcome in {"fail", "warn"} else COMPARE
            results.append(Verdict(outcome, "", f"GPU {number}: {words}" + ("" if outcome == "pass" else f" ({_why(device)})"), hint))
    return results


def _gemm(facts: Facts, profile: Profile) -> Verdict:
    """The fastest 20 ms against the figure of runs as short; the sustained rate may fall to the share that fails."""
    perf = _perf(facts)
    reference, sheet = _reference(facts, perf, profile), read.gpus().acceptance.datasheet
    precision = next((device.gemm.precision for device in perf.devices if device.gemm.precision), "?")
    share = sheet.tensor_capped if reference.is_capped else sheet.tensor
    peak = reference.card.peaks.get(precision)
    gate = reference.gate(f"TFLOPS of a product in {precision}", reference.healthy.tensor_tflops, peak, share)
    results = _each(
        perf,
        part=lambda d: d.gemm,
        rate=lambda d: d.gemm.tflops,
        figure=lambda d: f"{d.gemm.tflops:.4g} TFLOPS, sustained {d.gemm.sustained_tflops or 0:.4g}",
        gate=lambda _: gate,
        wrong=lambda d: d.gemm.tflops is not None and (d.gemm.error is None or d.gemm.error > OFF),
    )
    sustained = [d.gemm.sustained_tflops for d in perf.devices if d.gemm.sustained_tflops is not None and not d.others.users]
    held = [_held_back(one, d, reference.floor(gate, d), sustained) for one, d in zip(results, perf.devices, strict=True)]
    return over_all(facts, perf, profile, gate.expected, held)


def _draws_all(device: PerfDeviceFacts) -> bool:
    """Whether nothing but the power limit holds the clocks down, and the card draws nearly all of it."""
    load = device.load
    drawn = load.power_w is not None and load.power_limit_w is not None and load.power_w >= _NEARLY * load.power_limit_w
    return drawn and load.held_down_by == ("power cap",)


def _held_back(one: Verdict, device: PerfDeviceFacts, floor: float | None, sustained: Sequence[float]) -> Verdict:
    """The same result with what five seconds of load show: a rate that falls, and what slowed the clocks.

    A sustained rate below `floor` fails; a card with a small power limit that draws all of it has none.
    """
    rate = device.gemm.sustained_tflops
    if one.outcome == "fail" or device.gemm.tflops is None or device.others.users:
        return one
    if rate is None:
        return unknown("", f"{one.observed}; no sustained rate", "see `gpuprov probe HOST --tier perf`")
    if (floor is not None and rate < floor) or device.load.share(_HARDWARE) > FLICKER:
        slower = fails("", f"{one.observed}; does not sustain it ({_why(device)})", _LOW)
    elif device.load.share(_HEAT) > FLICKER or rate < read.gpus().acceptance.sibling_share * max(sustained):
        slower = warns("", f"{one.observed}; does not sustain it as well as it should ({_why(device)})", _LOW)
    else:
        return one
    return min(one, slower, key=lambda verdict: WORST.index(verdict.outcome))


def _memory(facts: Facts, profile: Profile) -> Verdict:
    perf = _perf(facts)
    reference, share = _reference(facts, perf, profile), read.gpus().acceptance.datasheet.memory
    gate = reference.gate("GB/s of a copy in memory", reference.healthy.memory_gb_s, reference.card.bandwidth_gb_s, share)
    results = _each(
        perf,
        part=lambda d: d.memory,
        rate=lambda d: d.memory.gb_s,
        figure=lambda d: f"{d.memory.gb_s:.5g} GB/s",
        gate=lambda _: gate,
        wrong=lambda d: d.memory.gb_s is not None and d.memory.right is not True,
    )
    return over_all(facts, perf, profile, gate.expected, results)


def _copies(facts: Facts, profile: Profile) -> Verdict:
    """Against a floor: that of the card if the catalogue has one, else a share of the negotiated link, because hosts differ."""
    perf = _perf(facts)
    share = read.gpus().acceptance.link_share
    least = _reference(facts, perf, profile).healthy.copies_floor_gb_s
    expected = f"GB/s to and from the host: at least {f'{least:g}' if least else f'{share:.0%} of the link'}"

    def gate(device: PerfDeviceFacts) -> _Gate:
        link = LANE.get(device.load.link_generation or 0, 0.0) * (device.load.link_width or 0)
        # A hypervisor may show a link that does not exist; the measured rate does.
        plausible = link > 0 and max(device.copies.to_device_gb_s or 0, device.copies.to_host_gb_s or 0) <= link * ABSURD
        floor = least or (share * link if plausible else None)
        return _Gate(expected, floor, floor)

    results = _each(
        perf,
        part=lambda d: d.copies,
        rate=lambda d: d.copies.slower_gb_s,
        figure=lambda d: f"{d.copies.to_device_gb_s:.4g} GB/s to it, {d.copies.to_host_gb_s:.4g} back",
        gate=gate,
        wrong=lambda d: d.copies.slower_gb_s is not None and d.copies.right is not True,
    )
    trained = [_trained(one, device) for one, device in zip(results, perf.devices, strict=True)]
    return over_all(facts, perf, profile, expected, trained)


def _trained(one: Verdict, device: PerfDeviceFacts) -> Verdict:
    """The same result, failed where the link never reached the generation that card and slot both have, in a load that keeps it up."""
    load = device.load
    now, most = load.link_generation, load.max_link_generation
    if not now or not most or now >= most or not load.samples or not device.copies.slower_gb_s:
        return one
    if max(device.copies.to_device_gb_s or 0, device.copies.to_host_gb_s or 0) > LANE.get(now, 0.0) * (load.link_width or 0) * ABSURD:
        return one  # what a hypervisor shows; the copies were faster
    return fails("", f"{one.observed}; the link stays at generation {now} of {most} under load", _UNTRAINED)


_ONE: Final = "there is one GPU"
_ALONE: Final = unless(lambda p: p.gpu.count > 1, _ONE)


def _lost(perf: PerfFacts) -> list[str]:
    return [f"GPU {number}: {device.gemm.unknown}" for number, device in perf.numbered.items() if device.gemm.reason in _UNREACHED]


def _hangs(part: PartFacts, perf: PerfFacts, count: int) -> bool:
    """Whether GPUs did not end what they do together, though each of them was seen to work, and no other program uses one."""
    working = [device for device in perf.devices if device.gemm.tflops and device.copies.slower_gb_s and not device.others.users]
    return part.reason in _ENDLESS and len(working) == len(perf.devices) == count


def _all_reduce(facts: Facts, profile: Profile) -> Verdict:
    perf = _perf(facts)
    count = gpu_count(facts, perf, profile)
    if count == 1:
        return not_applicable(_ONE)
    reference, share = _reference(facts, perf, profile), read.gpus().acceptance.datasheet.all_reduce
    card, healthy = reference.card, reference.healthy.all_reduce_gb_s.get(count)
    gate = reference.gate(f"a correct sum over {count} GPUs, GB/s of its bus", healthy, card.nvlink_gb_s, share)
    gate = replace(gate, most=None)  # NVSwitch adds up inside the fabric, which may be faster than the links
    total = perf.all_reduce
    orders = ", ".join(f"{name}={value}" for name, value in total.environment.items())
    states = "; ".join(f"GPU {number}: {_why(device)}" for number, device in perf.numbered.items())
    why = f" ({f'ordered {orders}; ' if orders else ''}{states})"
    if _hangs(total, perf, count):
        return fails(gate.expected, f"does not end, though each GPU computes and copies: {total.unknown}{why}", _HANGS)
    if total.bus_gb_s is None:
        return unknown(gate.expected, f"not measured, {total.reason}: {total.unknown}", MEASURE)
    if total.right is not True:
        return fails(gate.expected, f"WRONG sum{why}", "a GPU or a link between them is broken: hand the machine back")
    rate = f"right, {total.bus_gb_s:.4g} GB/s"
    users = [f"GPU {number} also used by {device.others.users}" for number, device in perf.numbered.items() if device.others.users]
    if users or total.gpus != count:
        said = "; ".join([*users, *_lost(perf)]) or f"over {total.gpus} of {count} GPUs"
        return unknown(gate.expected, f"{rate}; {said}{why}", AGAIN if users else MEASURE)
    if card.model in read.gpus().acceptance.all_reduce_reported:
        return passes("a correct sum over all GPUs; its rate depends on the host", rate)
    outcome, _ = _against(gate, total.bus_gb_s, total.bus_gb_s)
    hint = _LOW if outcome != "unknown" else COMPARE
    return together(gate.expected, [Verdict(outcome, "", rate + ("" if outcome == "pass" else why), hint)])


def _data_parallel(facts: Facts, profile: Profile) -> Verdict:
    """The simplest way to use several GPUs; it fails where one of them cannot be reached from the process of another."""
    perf = _perf(facts)
    count = gpu_count(facts, perf, profile)
    if count == 1:
        return not_applicable(_ONE)
    expected = f"a batch split over {count} GPUs and gathered again, with the result of one GPU"
    split = perf.data_parallel
    if _hangs(split, perf, count):
        return fails(expected, f"does not end, though each GPU computes and copies: {split.unknown}", _HANGS)
    if split.right is None:
        return unknown(expected, f"not measured, {split.reason}: {split.unknown}", MEASURE)
    observed = f"over {split.gpus} GPUs"
    if not split.right:
        return fails(expected, f"WRONG result {observed}", "a GPU or a link between them is broken: hand the machine back")
    if split.gpus != count - len(_lost(perf)):
        return fails(expected, f"right, but {observed}", "see which GPU took no part: `gpuprov probe HOST --tier perf`")
    return Heard[str]({}, _lost(perf)).beside(passes(expected, f"right, {observed}"))


_check = partial(Check, needs_gpu=True, whole_gpus=True, tier="perf")
CHECKS = (
    _check("gemm", "every GPU computes as fast as a healthy one", _gemm),
    _check("memory-bandwidth", "the memory of every GPU is as fast as a healthy one's", _memory),
    _check("host-copies", "copies between host and GPU are as fast as the link", _copies),
    _check("all-reduce", "all GPUs sum together, correctly and fast", _all_reduce, unasked=_ALONE, finds_unasked=True),
    _check(
        "data-parallel",
        "one process splits a batch over all GPUs and gathers the result",
        _data_parallel,
        unasked=_ALONE,
        finds_unasked=True,
    ),
)

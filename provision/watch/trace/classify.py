"""The verdict: why a program is slow, as a label with its runner-up and how sure it is.

Every threshold is a constant with its reason. docs/sources/trace.md, "Thresholds", says on which traces they were looked at.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from provision.structs import Struct, replace
from provision.watch.trace.doubts import Doubt, DoubtKind
from provision.watch.trace.model import Trace, TracePart
from provision.watch.trace.shares import Shares, shares

# Less than this tells nothing about a step of training.
LEAST_WINDOW_NS: Final = 200_000_000
LEAST_OPS: Final = 100
# A fifth of the time in copies that nothing hides: removing them is worth more than any other change of that size.
TRANSFER: Final = 0.20
# The articles say "over 90 %": from 0.80 it is called mostly, from 0.90 clean.
COMPUTE: Final = 0.80
COMPUTE_CLEAN: Final = 0.90
# With more copies than this, the copies come first although the kernels fill the time.
COMPUTE_COPIES: Final = 0.05
COMMUNICATION: Final = 0.20
# A tenth of the time is what a user sees on the clock.
SYNC: Final = 0.10
CPU: Final = 0.10
LAUNCH: Final = 0.10
# Fewer waits are enough where each of them reads a few bytes: the `.item()` of a loop.
SYNC_LOOP: Final = 0.05
SYNC_LOOP_PER_S: Final = 200
SYNC_LOOP_TINY: Final = 0.5
START_UP: Final = 0.30
QUEUE: Final = 0.20
IDLE: Final = 0.05
# Above these the trace itself is in doubt.
UNCORRELATED: Final = 0.05
OVERHEAD: Final = 0.05
# Nearer to its threshold than this factor, a label is no more than likely.
CLEAR: Final = 1.25
# Under this share nothing is worth a name.
WORTH: Final = 0.10


class Label(StrEnum):
    """What holds a program up."""

    TRANSFER = "transfer-bound"
    COMPUTE = "gpu-compute-bound"
    COMMUNICATION = "communication-bound"
    SYNC = "synchronisation-bound"
    CPU = "cpu-bound"
    LAUNCH = "launch-bound"
    START_UP = "start-up"
    WAITING = "waiting-on-device"
    IDLE = "idle"
    MIXED = "mixed"
    UNKNOWN = "unknown"


# Labels that are read from the host's calls; without those they cannot be given.
_NEEDS_CALLS: Final = {Label.SYNC, Label.CPU, Label.LAUNCH, Label.START_UP, Label.WAITING}


class Confidence(StrEnum):
    """How sure a label is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


class TraceVerdict(Struct):
    """A label with what speaks for and against it. `doubts` says why the confidence is not high, or why there is no label."""

    label: Label
    runner_up: Label | None
    confidence: Confidence
    doubts: tuple[Doubt, ...]
    shares: Shares | None


def strengths(each: Shares) -> dict[Label, float]:
    """For each label its share over its threshold, as far as it is one of a share: what the runner-up is taken from."""
    return {
        Label.TRANSFER: each.exposed_copies / TRANSFER,
        Label.COMPUTE: (each.busy - each.communication) / COMPUTE,
        Label.COMMUNICATION: each.communication / COMMUNICATION,
        Label.SYNC: each.sync / SYNC,
        Label.CPU: (each.cpu + each.host_wait) / CPU,
        Label.LAUNCH: each.launch / LAUNCH,
        Label.START_UP: each.start_up / START_UP,
        Label.WAITING: each.queue / QUEUE,
    }


def label_of(each: Shares) -> Label:
    """The first label that holds."""
    cpu = each.cpu + each.host_wait
    computing = each.busy - each.communication
    in_a_loop = each.sync >= SYNC_LOOP and each.syncs_per_s >= SYNC_LOOP_PER_S and each.tiny_reads >= SYNC_LOOP_TINY
    cases = (
        (Label.TRANSFER, each.exposed_copies >= TRANSFER),
        (Label.COMPUTE, computing >= COMPUTE and each.exposed_copies < COMPUTE_COPIES),
        (Label.COMMUNICATION, each.communication >= COMMUNICATION and each.communication >= each.idle),
        (Label.SYNC, (each.sync >= SYNC and each.sync >= max(each.launch, cpu)) or in_a_loop),
        (Label.CPU, cpu >= CPU and cpu >= each.launch),
        (Label.LAUNCH, each.launch >= LAUNCH and each.launch >= each.start_up),
        (Label.START_UP, each.start_up >= START_UP),
        (Label.WAITING, each.queue >= QUEUE),
        (Label.IDLE, each.busy < IDLE and each.idle >= WORTH),
    )
    return next((label for label, holds in cases if holds), Label.MIXED)


def verdicts(trace: Trace) -> list[TraceVerdict]:
    """A verdict for every device that worked, the busiest first; one without a label where none did."""
    refusal = _refusal(trace)
    found = shares(trace)
    if refusal or not found:
        return [_abstained(refusal or Doubt(DoubtKind.NO_WORK), found[0] if found else None)]
    halves = [{each.device: label_of(each) for each in shares(half)} for half in _halves(trace)]
    return [_verdict(trace, each, [half.get(each.device) for half in halves]) for each in found]


def _abstained(doubt: Doubt, found: Shares | None) -> TraceVerdict:
    return TraceVerdict(Label.UNKNOWN, None, Confidence.NONE, (doubt,), found)


def _refusal(trace: Trace) -> Doubt | None:
    """Why a trace says nothing; None where it says something."""
    if not trace.ops:
        return Doubt(DoubtKind.NO_WORK)
    if len(trace.ops) < LEAST_OPS:
        return Doubt(DoubtKind.TOO_FEW, len(trace.ops), LEAST_OPS)
    if trace.ended - trace.began < LEAST_WINDOW_NS:
        return Doubt(DoubtKind.TOO_SHORT, (trace.ended - trace.began) / 1e6, LEAST_WINDOW_NS / 1e6)
    return None


def _verdict(trace: Trace, each: Shares, halves: list[Label | None]) -> TraceVerdict:
    label = label_of(each)
    if TracePart.CALLS in trace.missing and label not in {Label.TRANSFER, Label.COMPUTE, Label.COMMUNICATION}:
        return _abstained(Doubt(DoubtKind.PART_MISSING, words=(TracePart.CALLS,)), each)
    if each.unexplained >= max(WORTH, each.idle / 2) and label in {*_NEEDS_CALLS, Label.MIXED, Label.IDLE}:
        return _abstained(Doubt(DoubtKind.UNEXPLAINED, each.unexplained), each)
    ranked = strengths(each)
    runner_up = max((other for other in ranked if other is not label), key=lambda other: ranked[other])
    doubts = []
    if each.uncorrelated > UNCORRELATED:
        doubts.append(Doubt(DoubtKind.UNCORRELATED, each.uncorrelated))
    if each.overhead > OVERHEAD:
        doubts.append(Doubt(DoubtKind.OVERHEAD, each.overhead))
    if any(half is not None and half is not label for half in halves):
        doubts.append(Doubt(DoubtKind.HALVES_DIFFER, words=tuple(str(half or Label.UNKNOWN) for half in halves)))
    confidence = Confidence.LOW if doubts else Confidence.HIGH
    if label in {Label.LAUNCH, Label.SYNC} and trace.host_slowed > 1:
        host = each.launch + each.sync
        without = host / trace.host_slowed / (1 - host + host / trace.host_slowed)
        doubts.append(Doubt(DoubtKind.HOST_SLOWED, trace.host_slowed))
        if without < LAUNCH:
            confidence = Confidence.LOW
    if label in ranked and ranked[label] < CLEAR and not (label is Label.COMPUTE and each.busy - each.communication >= COMPUTE_CLEAN):
        doubts.append(Doubt(DoubtKind.NEAR_THRESHOLD))
        confidence = Confidence.LOW if confidence is Confidence.LOW else Confidence.MEDIUM
    if label is Label.MIXED:
        doubts.append(Doubt(DoubtKind.NOTHING_LARGE))
        confidence = Confidence.LOW
    return TraceVerdict(label, runner_up if ranked[runner_up] > 0 else None, confidence, tuple(doubts), each)


def _halves(trace: Trace) -> list[Trace]:
    middle = (trace.began + trace.ended) // 2
    return [
        replace(trace, ended=middle, ops=[op for op in trace.ops if op.start < middle]),
        replace(trace, began=middle, ops=[op for op in trace.ops if op.end > middle]),
    ]

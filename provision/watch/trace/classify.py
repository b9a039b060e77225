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

LEAST_OPS: Final = 100
# A shorter time is a doubt, and the larger one where it holds few operations: a step of training can have a thousand.
LEAST_NS: Final = 200_000_000
MANY_OPS: Final = 1000
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
# Of the time without work in one gap: what fills it decides, and not what the program does again and again.
ONE_GAP: Final = 0.5
# Of the kernels' time in such as leave multiprocessors empty.
UNDERFILLED: Final = 0.5
# Nearer to its threshold than this factor, or to another cause, a label is no more than likely.
CLEAR: Final = 1.25
# Under this share nothing is worth a name.
WORTH: Final = 0.10


class Label(StrEnum):
    """What holds a program up."""

    TRANSFER = "transfer-bound"
    COMPUTE = "gpu-compute-bound"
    UNDERFILLED = "gpu-underfilled"
    COMMUNICATION = "communication-bound"
    SYNC = "synchronisation-bound"
    CPU = "cpu-bound"
    LAUNCH = "launch-bound"
    START_UP = "start-up"
    WAITING = "waiting-on-device"
    IDLE = "idle"
    MIXED = "mixed"
    UNKNOWN = "unknown"


# Labels that are read from the GPU's work; the others need the host's calls.
_NEEDS_NO_CALLS: Final = {Label.TRANSFER, Label.COMPUTE, Label.UNDERFILLED, Label.COMMUNICATION}
# Labels of gaps that come again and again.
_OF_GAPS: Final = {Label.SYNC, Label.CPU, Label.LAUNCH, Label.WAITING, Label.MIXED}


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


def causes(each: Shares) -> dict[Label, tuple[float, float]]:
    """For each label its share and its threshold, as far as it is one of a share: what the runner-up is taken from."""
    return {
        Label.TRANSFER: (each.exposed_copies + each.migration, TRANSFER),
        Label.COMPUTE: (each.busy - each.communication, COMPUTE),
        Label.COMMUNICATION: (each.communication, COMMUNICATION),
        Label.SYNC: (each.sync, SYNC),
        Label.CPU: (each.cpu + each.host_wait, CPU),
        Label.LAUNCH: (each.launch, LAUNCH),
        Label.START_UP: (each.start_up, START_UP),
        Label.WAITING: (each.queue, QUEUE),
    }


def label_of(each: Shares) -> Label:
    """The first label that holds."""
    cpu = each.cpu + each.host_wait
    computing = each.busy - each.communication
    computes = computing >= COMPUTE and each.exposed_copies < COMPUTE_COPIES
    in_a_loop = each.sync >= SYNC_LOOP and each.syncs_per_s >= SYNC_LOOP_PER_S and each.tiny_reads >= SYNC_LOOP_TINY
    cases = (
        (Label.TRANSFER, each.exposed_copies + each.migration >= TRANSFER),
        (Label.UNDERFILLED, computes and each.underfilled >= UNDERFILLED * computing),
        (Label.COMPUTE, computes),
        (Label.COMMUNICATION, each.communication >= COMMUNICATION and each.communication >= each.idle),
        (Label.SYNC, (each.sync >= SYNC and each.sync >= max(each.launch, cpu)) or in_a_loop),
        (Label.CPU, cpu >= CPU and cpu >= max(each.launch, each.start_up)),
        (Label.LAUNCH, each.launch >= LAUNCH and each.launch >= each.start_up),
        (Label.START_UP, each.start_up >= START_UP),
        (Label.WAITING, each.queue >= QUEUE),
        (Label.IDLE, each.busy < IDLE and each.idle >= WORTH),
    )
    return next((label for label, holds in cases if holds), Label.MIXED)


def verdicts(trace: Trace) -> list[TraceVerdict]:
    """A verdict for every device that worked, the busiest first; one without a label where none did."""
    found = shares(trace)
    if refusal := _refusal(trace):
        return [_abstained(refusal, found[0] if found else None)]
    halves = [{each.device: label_of(each) for each in shares(half)} for half in _halves(trace)]
    return [_verdict(trace, each, [half.get(each.device) for half in halves]) for each in found]


def _abstained(doubt: Doubt, found: Shares | None) -> TraceVerdict:
    return TraceVerdict(Label.UNKNOWN, None, Confidence.NONE, (doubt,), found)


def _refusal(trace: Trace) -> Doubt | None:
    """Why a trace says nothing; None where it says something."""
    if not trace.ops:
        return Doubt(DoubtKind.NO_WORK, words=(trace.no_work,) if trace.no_work else ())
    return Doubt(DoubtKind.TOO_FEW, len(trace.ops), LEAST_OPS) if len(trace.ops) < LEAST_OPS else None


def _verdict(trace: Trace, each: Shares, halves: list[Label | None]) -> TraceVerdict:
    label = label_of(each)
    if TracePart.CALLS in trace.missing and label not in _NEEDS_NO_CALLS:
        return _abstained(Doubt(DoubtKind.PART_MISSING, words=(TracePart.CALLS,)), each)
    if each.unexplained >= max(WORTH, each.idle / 2) and label not in _NEEDS_NO_CALLS:
        return _abstained(Doubt(DoubtKind.UNEXPLAINED, each.unexplained), each)
    strength = {other: share / least for other, (share, least) in causes(each).items()}
    own = {label, Label.COMPUTE if label is Label.UNDERFILLED else label}
    runner_up = max((other for other in strength if other not in own), key=lambda other: strength[other])
    found = _doubts(trace, each, label, halves)
    confidence = next((low for low in (Confidence.LOW, Confidence.MEDIUM) if low in [sure for sure, _ in found]), Confidence.HIGH)
    return TraceVerdict(label, runner_up if strength[runner_up] > 0 else None, confidence, tuple(doubt for _, doubt in found), each)


def _doubts(trace: Trace, each: Shares, label: Label, halves: list[Label | None]) -> list[tuple[Confidence, Doubt]]:
    """What speaks against a label, each with the confidence that it leaves."""
    shares_of = causes(each)
    share, least = shares_of.get(label, (0.0, 0.0))
    # A kernel that starts after a wait is launched late: that is the wait's. What the kernels take is not a cause of gaps.
    own = {label, Label.COMPUTE, Label.LAUNCH if label is Label.SYNC else label}
    as_large, rival = max((shares_of[other][0], other) for other in shares_of if other not in own)
    rivalled = label in shares_of and label is not Label.COMPUTE and as_large * CLEAR >= share
    brief = Doubt(DoubtKind.TOO_SHORT, each.window_ns / 1e6, LEAST_NS / 1e6)
    gap = max((gap.end - gap.start for gap in each.gaps), default=0) / each.window_ns / (each.idle or 1)
    host = each.launch + each.sync
    without = host / trace.host_slowed / (1 - host + host / trace.host_slowed)
    near = 0 < share < least * CLEAR and not (label is Label.COMPUTE and share >= COMPUTE_CLEAN)
    differ = any(half not in {None, label} for half in halves)
    slowed = trace.host_slowed > 1 and label in {Label.LAUNCH, Label.SYNC}
    low, middle, high = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH
    cases = (
        (each.uncorrelated > UNCORRELATED, low, Doubt(DoubtKind.UNCORRELATED, each.uncorrelated)),
        (each.unexplained >= WORTH, middle, Doubt(DoubtKind.UNEXPLAINED, each.unexplained)),
        (each.overhead > OVERHEAD, low, Doubt(DoubtKind.OVERHEAD, each.overhead)),
        (differ, low, Doubt(DoubtKind.HALVES_DIFFER, words=tuple(str(half or Label.UNKNOWN) for half in halves))),
        (each.window_ns < LEAST_NS, middle if each.ops >= MANY_OPS else low, brief),
        (gap > ONE_GAP and label in _OF_GAPS, low, Doubt(DoubtKind.ONE_GAP, gap)),
        (rivalled, low if as_large >= share else middle, Doubt(DoubtKind.RIVAL, as_large, words=(rival,))),
        (slowed, low if without < LAUNCH else high, Doubt(DoubtKind.HOST_SLOWED, trace.host_slowed)),
        (near, middle, Doubt(DoubtKind.NEAR_THRESHOLD)),
        (label is Label.MIXED, low, Doubt(DoubtKind.NOTHING_LARGE)),
    )
    return [(sure, doubt) for holds, sure, doubt in cases if holds]


def _halves(trace: Trace) -> list[Trace]:
    middle = (trace.began + trace.ended) // 2
    return [
        replace(trace, ended=middle, ops=[op for op in trace.ops if op.start < middle]),
        replace(trace, began=middle, ops=[op for op in trace.ops if op.end > middle]),
    ]

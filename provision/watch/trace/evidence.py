"""What speaks for a verdict: the largest gaps, the costliest kernels, the copies, and the step of the program."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter, defaultdict
from typing import Final

from provision.catalog.roofline import gpu_by_nvml_name
from provision.watch.trace import advice
from provision.watch.trace.classify import Label, TraceVerdict, verdicts
from provision.watch.trace.document import (
    SCHEMA,
    CopyEvidence,
    DeviceVerdict,
    GapEvidence,
    KernelEvidence,
    ShareSet,
    TraceDocument,
    TraceDoubt,
    TraceStep,
)
from provision.watch.trace.model import Call, Card, Kind, Op, Range, Trace, Wait
from provision.watch.trace.shares import GpuGap

_KERNELS: Final = 5
_LEAST_STEPS: Final = 3
# A range that nobody named as the step has to fill half of the time to its next one: an operator that is called often does not.
_STEP_COVERS: Final = 0.5
# One way, sixteen lanes of the card's generation (docs/sources/trace.md, "Links").
_LINKS: Final = {
    **dict.fromkeys(("T4", "V100", "P100"), 15.8),
    **dict.fromkeys(("A100", "A10", "A10G", "A30", "A40", "L4", "L40", "L40S"), 31.5),
    **dict.fromkeys(("H100", "H200", "H800", "B200"), 63.0),
}
_NUMBERS: Final = re.compile(r"\d+")


def document(trace: Trace, file: str, step: str = "", *, ran: bool = False) -> TraceDocument:
    """All that is said of a trace.

    Args:
        trace: within its window.
        file: what the user calls it.
        step: the name of the range that is a step; by default the one that repeats and covers most.
        ran: gpuprov ran the program, so that its options can trace it again.
    """
    found = verdicts(trace)
    first, devices = found[0], [_device(trace, each) for each in found]
    return TraceDocument(
        schema=SCHEMA,
        file=file,
        maker=trace.maker,
        window_s=(trace.ended - trace.began) / 1e9,
        warm_up_s=trace.warm_up_ns / 1e9,
        label=first.label,
        meaning=advice.MEANING[first.label],
        runner_up=first.runner_up,
        confidence=first.confidence,
        doubts=_doubts(first),
        missing=sorted(trace.missing),
        notes=trace.notes,
        step=_step(trace, step),
        devices=devices,
        advice=advice.advice(devices[0], ran=ran),
    )


def _doubts(verdict: TraceVerdict) -> list[TraceDoubt]:
    return [TraceDoubt(doubt.kind, str(doubt)) for doubt in verdict.doubts]


def _device(trace: Trace, verdict: TraceVerdict) -> DeviceVerdict:
    shares = verdict.shares
    device = shares.device if shares else None
    ops = [op for op in trace.ops if op.device == device]
    gpu = (trace.gpus.get(device) if device is not None else None) or Card()
    card = gpu_by_nvml_name(gpu.name)
    known = set(shares.__struct_fields__) if shares else set()
    return DeviceVerdict(
        device=device,
        model=gpu.name,
        sms=gpu.sms or None,
        compute_capability=gpu.compute_capability or (card.compute_capability if card else None),
        label=verdict.label,
        runner_up=verdict.runner_up,
        confidence=verdict.confidence,
        doubts=_doubts(verdict),
        shares=ShareSet(**{name: getattr(shares, name) for name in ShareSet.__struct_fields__ if name in known}) if shares else None,
        operations=len(ops),
        graphs=shares.graphs if shares else 0,
        no_queue=shares.no_queue if shares else None,
        syncs_per_s=shares.syncs_per_s if shares else None,
        median_kernel_us=shares.median_kernel_us if shares else None,
        gaps=[_gap(trace, gap) for gap in shares.gaps] if shares and verdict.label is not Label.UNKNOWN else [],
        kernels=_kernels(trace, ops),
        copies=_copies(ops, gpu.name),
    )


def _gap(trace: Trace, gap: GpuGap) -> GapEvidence:
    thread = gap.call.thread if gap.call else None
    half = (gap.end - gap.start) / 2
    inside: list[Range] = [r for r in trace.ranges if r.thread == thread and min(r.end, gap.end) - max(r.start, gap.start) >= half]
    meanwhile: list[tuple[int, str]] = []
    rows: list[Call | Wait] = [*trace.calls, *trace.waits]
    for row in rows:
        overlap = min(row.end, gap.end) - max(row.start, gap.start)
        if row.thread == thread and overlap > 0:
            meanwhile.append((overlap, row.name))
    return GapEvidence(
        at_ms=(gap.start - trace.began) / 1e6,
        ms=(gap.end - gap.start) / 1e6,
        cause=gap.cause,
        call=gap.call.name if gap.call else "",
        during=max(meanwhile)[1] if meanwhile else "",
        thread=thread & 0xFFFFFF if thread is not None else None,
        range=max(inside, key=lambda each: each.start).name if inside else "",
        then=gap.then,
    )


def _kernels(trace: Trace, ops: list[Op]) -> list[KernelEvidence]:
    total: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    shapes: dict[str, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for op in ops:
        if op.kind in {Kind.KERNEL, Kind.GRAPH}:
            total[op.name][0] += 1
            total[op.name][1] += min(op.end, trace.ended) - max(op.start, trace.began)
            shapes[op.name][op.shape] += op.end - op.start
    window = max(1, trace.ended - trace.began)
    largest = sorted(total.items(), key=lambda item: (-item[1][1], item[0]))[:_KERNELS]
    rows = [(name, count, time, list(shapes[name].most_common(1)[0][0])) for name, (count, time) in largest]
    return [KernelEvidence(n, count, time / window, time / count / 1000, s[:3] or None, s[3:] or None) for n, count, time, s in rows]


def _copies(ops: list[Op], model: str) -> list[CopyEvidence]:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for op in ops:
        if op.kind is Kind.COPY:
            memory = "unified" if op.unified else "unknown" if op.pageable is None else "pageable" if op.pageable else "pinned"
            entry = sums[op.name, memory if op.name in {"HtoD", "DtoH"} else "device"]
            entry[0] += 1
            entry[1] += op.bytes
            entry[2] += op.end - op.start
    return [
        CopyEvidence(kind, memory, count, size, time / 1e6, size / max(1, time), _link(model) if memory != "device" else None)
        for (kind, memory), (count, size, time) in sorted(sums.items(), key=lambda item: -item[1][2])
    ]


def _link(model: str) -> float | None:
    words = re.split(r"[^A-Za-z0-9]+", model)
    return next((speed for name, speed in _LINKS.items() if name in words), None)


def _step(trace: Trace, wanted: str) -> TraceStep | None:
    """The range that repeats on one thread and covers most of the window, or the one that is named."""
    groups: dict[tuple[str, int], list[Range]] = defaultdict(list)
    for each in trace.ranges:
        name = _NUMBERS.sub("#", each.name)
        if not wanted or wanted in {each.name, name}:
            groups[name, each.thread].append(each)
    repeated = {key: rows for key, rows in groups.items() if len(rows) >= _LEAST_STEPS and _apart(rows)}
    if not repeated:
        return None
    (name, _), rows = max(repeated.items(), key=lambda item: (sum(each.end - each.start for each in item[1]), -len(item[1])))
    period = (rows[-1].start - rows[0].start) / (len(rows) - 1)
    if not wanted and statistics.median(each.end - each.start for each in rows) < _STEP_COVERS * period:
        return None
    return TraceStep(name, len(rows), period / 1e6)


def _apart(rows: list[Range]) -> bool:
    """Whether none of them is inside another: a range in itself is not a step."""
    return all(one.end <= two.start for one, two in itertools.pairwise(rows))

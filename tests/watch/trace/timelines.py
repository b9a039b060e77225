"""Timelines made by hand whose shares are known, as the readers would give them, and as the files that they read."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.watch.trace.model import Call, Kind, Op, Trace, TracePart, Wait

MS = 1_000_000
STEP = 2 * MS
STEPS = 200
THREAD = 7 << 24 | 9
PID = 7


@dataclass
class Line:
    """A timeline of equal steps of 2 ms: each is a kernel, then what the test asks for. The calls are those that explain it."""

    steps: int = STEPS
    offset: int = 0
    pid: int = PID
    device: int = 0
    suffix: str = ""
    ops: list[Op] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    kind: Kind = Kind.KERNEL

    def __post_init__(self) -> None:
        self.number = 0

    @property
    def thread(self) -> int:
        return self.pid << 24 | 9

    def op(self, start: float, end: float, called: tuple[float, float], **more: Any) -> None:
        """An operation and its call."""
        self.number += 1
        values = {"kind": self.kind, "device": self.device, "pid": self.pid, "correlation": self.number, "name": "gemm", **more}
        api = {Kind.KERNEL: "cudaLaunchKernel", Kind.GRAPH: "cudaGraphLaunch", Kind.COPY: "cudaMemcpyAsync", Kind.FILL: "cudaMemsetAsync"}
        name = api[values["kind"]] + self.suffix
        self.ops.append(Op(self.offset + round(start), self.offset + round(end), **values))
        self.call(*called, name, self.number)

    def call(self, start: float, end: float, name: str, correlation: int = 0) -> None:
        self.calls.append(Call(self.offset + round(start), self.offset + round(end), self.thread, self.pid, correlation, name))

    def trace(self, **more: Any) -> Trace:
        ops, calls = sorted(self.ops), sorted(self.calls)
        values = {"missing": frozenset({TracePart.RANGES}), "waits": sorted(self.waits), **more}
        return Trace("nsys test", self.offset, self.offset + self.steps * STEP, ops, calls, **values)


def launching(share: float, line: Line | None = None) -> Line:
    """The GPU waits for the next launch during this share of each step."""
    line = line or Line()
    for at in range(0, line.steps * STEP, STEP):
        gap = share * STEP
        # The call begins when the GPU has become idle, and the kernel when it ends.
        line.op(at + gap, at + STEP, (at + 1, at + gap))
    return line


def computing(busy: float) -> Line:
    """Kernels that queue: each is called long before; what is left waits on the device."""
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        line.op(at, at + busy * STEP, (max(0, at - 50 * MS), max(0, at - 50 * MS) + 5_000))
    return line


def syncing(share: float) -> Line:
    """The host waits for the GPU, then returns late: half a step's gap is the price of waiting."""
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        gap = share * STEP
        line.call(at - MS / 2, at + gap / 2, "cudaStreamSynchronize")
        line.op(at + gap, at + STEP, (at + gap - 1, at + gap + 3_000))
    return line


def working(share: float, *, waits: bool = False) -> Line:
    """The host computes, or waits for data, before each launch; steps are long enough that the gap is not a launch."""
    line = Line()
    for at in range(0, STEPS * STEP, 10 * STEP):
        gap = share * 10 * STEP
        line.op(at + gap, at + 10 * STEP, (at + gap - 2, at + gap + 3_000))
        for part in range(9):  # enough operations to be judged
            line.op(at + 10 * STEP - 1000 + part * 100, at + 10 * STEP - 950 + part * 100, (at + gap, at + gap + 3_000))
        if waits:
            line.waits.append(Wait(round(at), round(at + gap - 2), line.thread, "pthread_cond_timedwait"))
    return line


def copying(share: float, *, pageable: bool | None = False) -> Line:
    """A copy that no kernel hides, then a kernel; both queue."""
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        early = max(0, at - 50 * MS)
        copied = {"kind": Kind.COPY, "name": "HtoD", "bytes": round(share * STEP * 25), "pageable": pageable}
        line.op(at, at + share * STEP, (early, early + 5_000), **copied)
        line.op(at + share * STEP, at + STEP, (early + 6_000, early + 9_000))
    return line


def communicating(share: float) -> Line:
    """A collective that no computation hides, then a kernel; both queue."""
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        early = max(0, at - 50 * MS)
        line.op(at, at + share * STEP, (early, early + 5_000), name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        line.op(at + share * STEP, at + STEP, (early + 6_000, early + 9_000))
    return line


def migrating(share: float) -> Line:
    """Managed memory, which the host touches page by page after each kernel: many small moves that no call starts."""
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        early = max(0, at - 50 * MS)
        line.op(at, at + (1 - share) * STEP, (early, early + 5_000))
        for part in range(10):
            end = at + STEP - (9 - part) * share * STEP / 10
            copied = {"kind": Kind.COPY, "name": "DtoH", "bytes": 4096, "correlation": 0, "unified": True}
            line.op(end - 1000, end, (0, 0), **copied)
            line.calls.pop()
    return line


def starting(share: float) -> Line:
    """Memory is allocated before each launch."""
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        gap = share * STEP
        line.call(at + 1, at + gap - 2, "cudaMalloc" + line.suffix)
        line.op(at + gap, at + STEP, (at + gap - 1, at + gap + 3_000))
    return line


# --- files -----------------------------------------------------------------------------------------------------------

_SHAPE = "gridX, gridY, gridZ, blockX, blockY, blockZ"
_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"start, end, deviceId, streamId, correlationId, globalPid, shortName, {_SHAPE}",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start, end, deviceId, streamId, correlationId, globalPid, graphId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, streamId, correlationId, globalPid, bytes",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
    "OSRT_API": "start, end, globalTid, nameId",
    "NVTX_EVENTS": "start, end, eventType, text, globalTid, textId",
    "META_DATA_EXPORT": "name, value",
    "TARGET_INFO_GPU": "id, name, smCount, computeMajor, computeMinor",
}
KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8}


def export(path: Path, *lines: Line, without: tuple[str, ...] = (), ranges: tuple[tuple[int, int, str], ...] = (), seed: int = 0) -> Path:
    """An SQLite export as nsys writes it, its rows in random order; `without` are tables that it does not have."""
    names: dict[str, int] = {}

    def text(value: str) -> int:
        return names.setdefault(value, len(names) + 1)

    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _TABLES}
    for line in lines:
        serial = 1 << 48 | line.pid << 24
        for op in line.ops:
            shared = (op.start, op.end, op.device, 7, op.correlation, serial)
            if op.kind is Kind.KERNEL:
                rows["CUPTI_ACTIVITY_KIND_KERNEL"].append((*shared, text(op.name), *(op.shape or [None] * 6)))
            elif op.kind is Kind.GRAPH:
                rows["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"].append((*shared, 1))
            elif op.kind is Kind.COPY:
                sides = (0 if op.pageable else 1, 2) if op.name == "HtoD" else (2, 0 if op.pageable else 1)
                kind, sides = (10 + KINDS[op.name], (7, 7)) if op.unified else (KINDS[op.name], sides)
                rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append((*shared, op.bytes, kind, *sides))
            else:
                rows["CUPTI_ACTIVITY_KIND_MEMSET"].append((*shared, op.bytes))
        for call in line.calls:
            rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append((call.start, call.end, serial | 9, call.correlation, text(call.name)))
        rows["OSRT_API"] += [(wait.start, wait.end, serial | 9, text(wait.name)) for wait in line.waits]
        rows["NVTX_EVENTS"] += [(start, end, 59, name, serial | 9, None) for start, end, name in ranges]
    rows["META_DATA_EXPORT"] = [("EXPORT_PRODUCT_VERSION", "2026.2.1.210"), ("EXPORT_SCHEMA_VERSION", "3.25.0")]
    rows["TARGET_INFO_GPU"] = [(0, "NVIDIA H100 80GB HBM3", 132, 9, 0)]
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, value) for value, number in names.items()])
        for table, columns in _TABLES.items():
            quoted = columns.replace("end", '"end"', 1) if "end" in columns.split(", ") else columns
            if table not in without:
                db.execute(f"CREATE TABLE {table} ({quoted})")
                random.Random(seed).shuffle(rows[table])  # noqa: S311 - an order and no secret
                db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns.split(', ')))})", rows[table])  # noqa: S608 - names of ours
    db.close()
    return path


def events(line: Line, *, old: bool = False, ranges: tuple[tuple[int, int, str], ...] = ()) -> list[dict[str, Any]]:
    """The events of PyTorch's profiler for a timeline."""
    gpu = {Kind.KERNEL: "kernel", Kind.COPY: "gpu_memcpy", Kind.FILL: "gpu_memset", Kind.GRAPH: "kernel"}
    before = {"kernel": "Kernel", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset", "cuda_runtime": "Runtime"}
    found: list[dict[str, Any]] = []
    for op in line.ops:
        name = f"Memcpy {op.name} ({'Pageable' if op.pageable else 'Pinned'} -> Device)" if op.kind is Kind.COPY else op.name
        args: dict[str, Any] = {"device": op.device, "stream": 7, "correlation": op.correlation, "bytes": op.bytes}
        args |= {"grid": list(op.shape[:3]), "block": list(op.shape[3:])} if op.shape else {}
        found.append(
            {"cat": gpu[op.kind], "name": name, "pid": op.device, "tid": 7, "ts": op.start, "dur": op.end - op.start, "args": args}
        )
    for call in line.calls:
        args = {"correlation": call.correlation}
        shown = {"cat": "cuda_runtime", "name": call.name, "pid": call.pid, "tid": call.thread, "args": args}
        found.append({**shown, "ts": call.start, "dur": call.end - call.start})
    for start, end, name in ranges:
        found.append({"cat": "user_annotation", "name": name, "pid": line.pid, "tid": line.thread, "ts": start, "dur": end - start})
    for event in found:
        event |= {"ph": "X", "ts": event["ts"] / 1000, "dur": event["dur"] / 1000}
        event["cat"] = before.get(event["cat"], event["cat"]) if old else event["cat"]
    return [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}, *found]


H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 1, "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132}


def kineto(path: Path, found: list[dict[str, Any]], card: dict[str, Any] | None = H100) -> Path:
    """A file of such events, gzip where its name says so; `card` is the one that ran them, None in a file that names none."""
    head = {"schemaVersion": 1, "deviceProperties": [card] if card else []}
    raw = json.dumps({**head, "traceEvents": found, "traceName": "x"}).encode()
    path.write_bytes(gzip.compress(raw, 1) if path.suffix == ".gz" else raw)
    return path

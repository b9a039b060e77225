"""Where the time of one GPU went: what it computed, what it copied, and what the host did in each gap.

The definitions, with what was measured on public traces, stand in docs/sources/trace.md, "Definitions".
"""

from __future__ import annotations

import heapq
import math
import statistics
from bisect import bisect_right
from collections import defaultdict
from functools import lru_cache
from typing import Final

from provision.structs import MutableStruct, field
from provision.watch.trace.model import Call, Card, Kind, Op, Trace
from provision.watch.trace.spans import Covered, Span, Union

# A gap after a wait longer than this is no longer the price of waiting: the host does something else.
LONGEST_RETURN_NS: Final = 1_000_000
# A kernel that starts sooner than this after its call did not queue: the GPU had nothing else to do.
NO_QUEUE_NS: Final = 20_000
# Two clocks are compared, that of the host and that of the GPU.
CLOCKS_NS: Final = 1_000
# More than the link carries in a moment: a copy that reads a result, not data.
TINY_BYTES: Final = 64 << 10
GAPS: Final = 3

_WARP: Final = 32
# Of a card that the trace does not name: the catalog's P4 has 20 multiprocessors (2560 cores, 128 in each), and no other as few.
FEWEST_SMS: Final = 20
# PyTorch names what it compiles or records so: `record_function(f"{key} (dynamo_timed)")` of torch/_dynamo/utils.py.
_COMPILES: Final = "(dynamo_timed)"

_SYNCS: Final = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize")
_MORE_SYNCS: Final = ("cuEventSynchronize", "cudaThreadSynchronize")
_COPIES: Final = ("cudaMemcpy", "cuMemcpy")
_START_UP: Final = (
    *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister", "cuMemAlloc", "cuMemFree", "cuMemHost"),
    *("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve", "cuModuleLoad", "cuModuleUnload", "cuLibraryLoad"),
    *("cudaGraphInstantiate", "cuGraphInstantiate", "cudaGraphUpload", "cuCtxCreate", "cuDevicePrimaryCtx", "cuInit", "cudaSetDevice"),
    *("cudaStreamCreate", "cuStreamCreate", "cudaFuncGetAttributes", "cudaFuncSetAttribute", "cudaDeviceGetStreamPriorityRange"),
    *("cudaGetDeviceProperties", "cudaLibraryLoad", "cudaGetDeviceCount", "cudaDeviceReset"),
)
_ASYNC_ALLOCATIONS: Final = ("cudaMallocAsync", "cudaMallocFromPoolAsync", "cudaFreeAsync", "cuMemAllocAsync", "cuMemFreeAsync")
_BLOCKS: Final = (
    *("poll", "ppoll", "select", "pselect", "epoll", "sem_", "pthread_cond_"),
    *("futex", "read", "pread", "recv", "accept", "nanosleep"),
)


class GpuGap(MutableStruct):
    """A time in which the GPU had nothing to do, and what ended it."""

    start: int
    end: int
    cause: str
    call: Call | None
    then: str


class Shares(MutableStruct):
    """Parts of the window, from 0 to 1. `busy`, `exposed_copies`, `other` and `idle` make 1; the causes make `idle`.

    Attributes:
        busy: any kernel or graph ran.
        communication: only communication ran (NCCL).
        underfilled: only kernels ran that all together have fewer blocks than the GPU has multiprocessors.
        exposed_copies: copies between host and device while no kernel ran.
        other: fills and copies within the device while nothing else ran.
        launch, sync, cpu, host_wait, start_up, queue, migration: the causes of gaps.
        unexplained: gaps whose cause is in nothing that the trace holds.
        no_queue: the share of kernels that did not wait in the queue; None without calls.
        uncorrelated: the share of operations whose call is not in the trace.
    """

    device: int
    window_ns: int
    ops: int = 0
    kernels: int = 0
    graphs: int = 0
    busy: float = 0
    communication: float = 0
    underfilled: float = 0
    exposed_copies: float = 0
    other: float = 0
    idle: float = 0
    launch: float = 0
    sync: float = 0
    cpu: float = 0
    host_wait: float = 0
    start_up: float = 0
    queue: float = 0
    migration: float = 0
    unexplained: float = 0
    no_queue: float | None = None
    uncorrelated: float = 0
    overhead: float = 0
    syncs_per_s: float = 0
    tiny_reads: float = 0
    median_kernel_us: float | None = None
    gaps: list[GpuGap] = field(default_factory=list)


@lru_cache(maxsize=4096)
def is_sync(name: str) -> bool:
    """Whether the host waits for the GPU in this call, whatever its arguments."""
    name = name.replace("hip", "cuda", 1)
    return name.startswith((*_SYNCS, *_MORE_SYNCS)) or (name.startswith(_COPIES) and "Async" not in name)


@lru_cache(maxsize=4096)
def is_start_up(name: str) -> bool:
    """Whether a call or a range makes something that a program makes once: contexts, memory, modules, graphs, compiled code."""
    name = name.replace("hip", "cuda", 1)
    return (name.startswith(_START_UP) and not name.startswith(_ASYNC_ALLOCATIONS)) or name.endswith(_COMPILES)


@lru_cache(maxsize=4096)
def blocks(shape: tuple[int, ...]) -> float:
    """How many blocks a kernel has, one of less than a warp as a part of one; endless where the trace does not say."""
    return math.prod(shape[:3]) * min(1.0, math.prod(shape[3:]) / _WARP) if shape else math.inf


def is_communication(op: Op) -> bool:
    """Whether a kernel is one of NCCL's."""
    return "nccl" in op.name[:200].lower()


def between_host_and_device(op: Op) -> bool:
    """Whether a copy crosses the link to the host."""
    return op.kind is Kind.COPY and op.name in {"HtoD", "DtoH"}


class _HostCalls:
    """What the host's threads did, for questions about one moment of one thread."""

    def __init__(self, trace: Trace) -> None:
        self.calls = {(call.pid, call.correlation): call for call in trace.calls if call.correlation}
        by_thread: dict[int, list[Call]] = defaultdict(list)
        waits: dict[int, list[tuple[int, int]]] = defaultdict(list)
        reads = {(op.pid, op.correlation) for op in trace.ops if op.kind is Kind.COPY and op.name == "DtoH" and op.pageable}
        made = (Call(each.start, each.end, each.thread, 0, 0, each.name) for each in trace.ranges if is_start_up(each.name))
        for call in sorted([*trace.calls, *made]):
            by_thread[call.thread].append(call)
        for wait in trace.waits:
            if wait.name.startswith(_BLOCKS):
                waits[wait.thread].append((wait.start, wait.end))
        # A copy to pageable memory returns when it is done, whatever its name says.
        self.syncs = {
            thread: [call for call in calls if is_sync(call.name) or (call.pid, call.correlation) in reads]
            for thread, calls in by_thread.items()
        }
        self._sync_starts = {thread: [call.start for call in calls] for thread, calls in self.syncs.items()}
        self._start_up = {thread: Covered((c.start, c.end) for c in calls if is_start_up(c.name)) for thread, calls in by_thread.items()}
        self._api = {thread: Covered((call.start, call.end) for call in calls) for thread, calls in by_thread.items()}
        self._waits = {thread: Covered(sorted(spans)) for thread, spans in waits.items()}

    def waited_at(self, thread: int, moment: int) -> bool:
        """Whether the thread waited for the GPU at this moment."""
        starts = self._sync_starts.get(thread, [])
        at = bisect_right(starts, moment + CLOCKS_NS)
        return at > 0 and self.syncs[thread][at - 1].end >= moment - CLOCKS_NS

    def split(self, thread: int, start: int, end: int) -> tuple[int, int, int, int]:
        """How much of an interval the thread spent in start-up calls, other calls, waits of the system, and in none of them."""
        api = self._api[thread]
        called = api.within(start, end)
        start_up = self._start_up[thread].within(start, end)
        blocked = 0
        if (waits := self._waits.get(thread)) is not None:
            blocked = sum(b - a - api.within(a, b) for a, b in waits.parts(start, end))
        return start_up, called - start_up, blocked, end - start - called - blocked


def shares(trace: Trace) -> list[Shares]:
    """The shares of every device that worked in the window, the busiest first."""
    host = _HostCalls(trace)
    devices: dict[int, list[Op]] = defaultdict(list)
    for op in trace.ops:
        devices[op.device].append(op)
    found = [_device(trace, host, device, ops) for device, ops in devices.items()]
    return sorted(found, key=lambda each: (-(each.busy + each.exposed_copies), each.device))


def _device(trace: Trace, host: _HostCalls, device: int, ops: list[Op]) -> Shares:
    began, ended = trace.began, trace.ended
    length = max(1, ended - began)
    result = Shares(device, length, ops=len(ops), overhead=trace.overhead_ns / length)
    kernels, computing, linked, everything = (Union(began, ended) for _ in range(4))
    times: defaultdict[str, int] = defaultdict(int)
    largest: list[tuple[int, int, GpuGap]] = []
    uncorrelated = unqueued = 0
    tiny = reads = 0
    durations: list[int] = []
    for number, op in enumerate(ops):
        call = host.calls.get((op.pid, op.correlation))
        uncorrelated += call is None and not op.unified
        if op.start > everything.reached and everything.reached < ended:
            gap = _gap(host, op, call, Span(everything.reached, min(op.start, ended)), times)
            heapq.heappush(largest, (gap.end - gap.start, number, gap))
            if len(largest) > GAPS:
                heapq.heappop(largest)
        everything.add(op.start, op.end)
        if op.kind in {Kind.KERNEL, Kind.GRAPH}:
            kernels.add(op.start, op.end)
            linked.add(op.start, op.end)
            if not is_communication(op):
                computing.add(op.start, op.end)
        elif between_host_and_device(op):
            linked.add(op.start, op.end)
            tiny += op.name == "DtoH" and op.bytes <= TINY_BYTES
            reads += op.name == "DtoH"
        if op.kind is Kind.KERNEL:
            durations.append(op.end - op.start)
            unqueued += call is not None and op.start - call.start < NO_QUEUE_NS
        result.graphs += op.kind is Kind.GRAPH
    if everything.reached < ended:
        times["unexplained"] += ended - everything.reached
    result.kernels = len(durations)
    result.busy = kernels.length / length
    result.communication = (kernels.length - computing.length) / length
    result.underfilled = _underfilled(trace, ops, computing.length) / length
    result.exposed_copies = (linked.length - kernels.length) / length
    result.other = (everything.length - linked.length) / length
    result.idle = (length - everything.length) / length
    for cause, time in times.items():
        setattr(result, cause, time / length)
    result.uncorrelated = uncorrelated / max(1, sum(not op.unified for op in ops))
    result.no_queue = unqueued / len(durations) if durations and trace.calls else None
    result.median_kernel_us = statistics.median(durations) / 1000 if durations else None
    result.tiny_reads = tiny / reads if reads else 0
    pids = {op.pid for op in ops}
    syncs = sum(call.pid in pids and began <= call.start < ended for calls in host.syncs.values() for call in calls)
    result.syncs_per_s = syncs / (length / 1e9)
    result.gaps = [gap for _, _, gap in sorted(largest, key=lambda each: (-each[0], each[1]))]
    return result


def _underfilled(trace: Trace, ops: list[Op], computing: int) -> int:
    """How long nothing but small kernels ran, unless they fill the GPU beside each other."""
    small, filled, placed = Union(trace.began, trace.ended), Union(trace.began, trace.ended), 0.0
    sms = trace.gpus.get(ops[0].device, Card()).sms or FEWEST_SMS
    for op in ops:
        if op.kind in {Kind.KERNEL, Kind.GRAPH} and not is_communication(op):
            few = blocks(op.shape) < sms
            (small if few else filled).add(op.start, op.end)
            placed += few and blocks(op.shape) * (min(op.end, trace.ended) - max(op.start, trace.began))
    return computing - filled.length if placed < sms * small.length else 0


def _gap(host: _HostCalls, op: Op, call: Call | None, span: Span, times: defaultdict[str, int]) -> GpuGap:
    """Attribute a gap to its causes; returns it with the largest of them."""
    start, end = span
    own: dict[str, int] = defaultdict(int)
    if call is None and op.unified:  # no call moves managed memory: whoever touches it waits
        own["migration"] = min(end - start, LONGEST_RETURN_NS)
        own["unexplained"] = max(0, end - start - LONGEST_RETURN_NS)
    elif call is None:
        own["unexplained"] = end - start
    elif call.start <= start:
        own["queue"] = end - start
    else:
        called = min(call.start, end)
        own["launch"] = end - called
        before = called - start
        if host.waited_at(call.thread, start):
            own["sync"] = min(before, LONGEST_RETURN_NS)
            own["start_up"] = host.split(call.thread, start + own["sync"], called)[0]
            own["cpu"] = max(0, before - LONGEST_RETURN_NS - own["start_up"])
        else:
            own["start_up"], api, own["host_wait"], rest = host.split(call.thread, start, called)
            own["launch"] += api
            own["cpu" if before > LONGEST_RETURN_NS else "launch"] += rest
    for cause, time in own.items():
        times[cause] += time
    return GpuGap(start, end, max(own, key=lambda each: own[each]), call, op.name)

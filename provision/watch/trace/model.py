"""A trace as every reader gives it: what ran on the GPUs, what the host called, and what the file does not hold."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from provision.structs import MutableStruct, Struct, field

# Both bounds keep a trace under a few hundred MB here, whatever the size of its file.
MOST_OPS: Final = 300_000
MOST_CALLS: Final = 900_000
LONGEST_NAME: Final = 400
_SUFFIX: Final = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


class Kind(StrEnum):
    """What a GPU did: a kernel, a whole CUDA graph, a copy or a fill."""

    KERNEL = "kernel"
    GRAPH = "graph"
    COPY = "copy"
    FILL = "fill"


class Op(NamedTuple):
    """Work of a GPU. Times are nanoseconds of the trace's own clock; `shape` is a kernel's grid and block, where the file has them."""

    start: int
    end: int
    kind: Kind
    device: int
    pid: int
    correlation: int
    name: str
    bytes: int = 0
    pageable: bool | None = None
    unified: bool = False
    shape: tuple[int, ...] = ()


class Call(NamedTuple):
    """A call of the CUDA API. `name` has no version suffix."""

    start: int
    end: int
    thread: int
    pid: int
    correlation: int
    name: str


class Wait(NamedTuple):
    """A call of the operating system in which a thread waited."""

    start: int
    end: int
    thread: int
    name: str


class Range(NamedTuple):
    """A range that the program named: NVTX, or an annotation of PyTorch."""

    start: int
    end: int
    thread: int
    name: str


class TracePart(StrEnum):
    """What a trace may lack."""

    CALLS = "calls of the CUDA API"
    WAITS = "calls of the operating system"
    RANGES = "named ranges"


class Card(Struct):
    """What a trace says of a card; empty and 0 are what it does not say."""

    name: str = ""
    sms: int = 0
    compute_capability: str = ""


class Trace(MutableStruct):
    """What was read, within the window.

    Attributes:
        maker: the program that wrote it, with its version.
        began, ended: the window.
        ops, calls, waits, ranges: each in the order of their starts.
        missing: what the file does not hold; what is missing is unknown, not zero.
        overhead_ns: the profiler's own work within the window.
        gpus: the card of each device, where the file names it.
        warm_up_ns: what was left out before the window.
        no_work: why there is no work of a GPU, where the file shows it.
        host_slowed: how many times slower the profiler makes the host where it launches small kernels, as far as that was measured.
        notes: what the reader left out or could not use, for the user.
    """

    maker: str
    began: int
    ended: int
    ops: list[Op]
    calls: list[Call]
    waits: list[Wait] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    missing: frozenset[TracePart] = frozenset()
    overhead_ns: int = 0
    host_slowed: float = 1
    gpus: dict[int, Card] = field(default_factory=dict)
    warm_up_ns: int = 0
    no_work: str = ""
    notes: list[str] = field(default_factory=list)


class Cut(Struct):
    """Which part of a trace is looked at.

    Attributes:
        range_name: the first range of this name; the whole without one.
        skip: the share at the front that counts as warm-up, where no range is named.
    """

    range_name: str = ""
    skip: float = 0.2

    def window(self, first: int, last: int) -> tuple[int, int, int]:
        """The window of a trace whose GPUs worked from `first` to `last`, and what is cut off before it."""
        skipped = int((last - first) * self.skip)
        return first + skipped, last, skipped


def plain_name(name: str) -> str:
    """The name of an API call without the version that some profilers append."""
    return _SUFFIX.sub("", name)

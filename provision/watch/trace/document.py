"""What `gpuprov trace` says of a trace, as data: the terminal, the page and `--json` show this and nothing else."""

from __future__ import annotations

from typing import Any, Final

import msgspec

SCHEMA: Final = "gpuprov-trace/1"


class ShareSet(msgspec.Struct, frozen=True):
    """Parts of the window, from 0 to 1. The first four make 1, the eight causes after them `idle`; the next two are parts of `busy`."""

    busy: float
    exposed_copies: float
    other: float
    idle: float
    launch: float
    sync: float
    cpu: float
    host_wait: float
    start_up: float
    queue: float
    migration: float
    unexplained: float
    communication: float
    underfilled: float
    overhead: float


class GapEvidence(msgspec.Struct, frozen=True):
    """A time in which a GPU did nothing: `call` started the work that ended it, `during` is what its thread called longest meanwhile."""

    at_ms: float
    ms: float
    cause: str
    call: str
    during: str
    thread: int | None
    range: str
    then: str


class KernelEvidence(msgspec.Struct, frozen=True):
    """All runs of a kernel; `share` is of the window. Grid and block are those that took longest; null where the trace has none."""

    name: str
    count: int
    share: float
    mean_us: float
    grid: list[int] | None
    block: list[int] | None


class CopyEvidence(msgspec.Struct, frozen=True):
    """All copies of a kind and a memory, `unified` where it moves on demand. `link_gb_s` is what the link carries one way, if known."""

    kind: str
    memory: str
    count: int
    bytes: int
    ms: float
    gb_s: float
    link_gb_s: float | None


class TraceDoubt(msgspec.Struct, frozen=True):
    """Why a verdict is less than sure, or why there is none."""

    kind: str
    text: str


class DeviceVerdict(msgspec.Struct, frozen=True):
    """The verdict on one GPU, with its evidence. `no_queue` is the share of kernels for which the GPU waited; `sms` its multiprocessors."""

    device: int | None
    model: str
    sms: int | None
    compute_capability: str | None
    label: str
    runner_up: str | None
    confidence: str
    doubts: list[TraceDoubt]
    shares: ShareSet | None
    operations: int
    graphs: int
    no_queue: float | None
    syncs_per_s: float | None
    median_kernel_us: float | None
    gaps: list[GapEvidence]
    kernels: list[KernelEvidence]
    copies: list[CopyEvidence]


class TraceStep(msgspec.Struct, frozen=True):
    """A named range that repeats: how often, and the time from one to the next."""

    name: str
    count: int
    ms: float


class TraceAdvice(msgspec.Struct, frozen=True):
    """What to do, the least effort first, with the rows of the first GPU's evidence that it rests on: `kernels[0]: gemm 84.0%`."""

    effort: str
    text: str
    rows: list[str]


class TraceDocument(msgspec.Struct, frozen=True):
    """The whole of it. The label is that of the busiest GPU, which stands first among the devices."""

    schema: str
    file: str
    maker: str
    window_s: float
    warm_up_s: float
    label: str
    meaning: str
    runner_up: str | None
    confidence: str
    doubts: list[TraceDoubt]
    missing: list[str]
    notes: list[str]
    step: TraceStep | None
    devices: list[DeviceVerdict]
    advice: list[TraceAdvice]


class ShareChange(msgspec.Struct, frozen=True):
    """A share before and after."""

    share: str
    before: float
    after: float


class ComparisonDocument(msgspec.Struct, frozen=True):
    """Two traces of a program: what got better. `speed_up` is null where they have no step in common."""

    schema: str
    before: TraceDocument
    after: TraceDocument
    changes: list[ShareChange]
    step_before_ms: float | None
    step_after_ms: float | None
    speed_up: float | None
    said: list[str]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of what `--json` prints, with or without `--compare`."""
    (documents, definitions) = msgspec.json.schema_components((TraceDocument, ComparisonDocument), ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "anyOf": list(documents), "$defs": definitions}


def to_json(document: TraceDocument | ComparisonDocument) -> str:
    """One document, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def plain(data: Any) -> Any:
    """Lists and dictionaries of it."""
    return msgspec.to_builtins(data)

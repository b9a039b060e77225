"""Reads the trace of PyTorch's profiler (Kineto): JSON, plain or gzip, event by event, so that memory does not follow the file's size."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from provision.errors import FactsInvalidError
from provision.watch.trace.model import LONGEST_NAME, MOST_CALLS, MOST_OPS, Call, Card, Cut, Kind, Op, Range, Trace, TracePart, plain_name

_HINT: Final = "it is what `torch.profiler` writes with `export_chrome_trace`; trace a shorter time if it is too large"
_CHUNK: Final = 1 << 20
_MOST_EVENT: Final = 4 << 20  # characters of one event, and of what stands before the first
_MOST_BYTES: Final = 8 << 30  # unpacked: a gzip of a few MB can hold anything
_MOST_KEPT: Final = MOST_OPS + MOST_CALLS
# A program of small kernels took 4 times as long under it (docs/sources/trace.md, "What a profiler costs").
_SLOWS_HOST: Final = 4.0
_MOST_SECONDS: Final = 1 << 32
_LONGEST_ID: Final = 40  # characters of a process, a thread or a category
_MOST_CATEGORIES: Final = 64
_GPU: Final = {
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "gpu_memset": Kind.FILL,
    # before PyTorch 1.12
    "Kernel": Kind.KERNEL,
    "Memcpy": Kind.COPY,
    "Memset": Kind.FILL,
}
_CALLS: Final = {"cuda_runtime", "cuda_driver", "Runtime", "Driver"}
_RANGES: Final = {"user_annotation", "cpu_user_annotation"}
_OVERHEADS: Final = {"Activity Buffer Request", "Instrumentation"}
_COPY: Final = re.compile(r"HtoD|DtoH|DtoD|PtoP|HtoH")
_BEFORE_EVENTS: Final = re.compile(r'\s*\[|.*?"traceEvents"\s*:\s*\[', re.DOTALL)
_MODEL: Final = re.compile(r'"id"\s*:\s*(\d{1,4})\s*,\s*"name"\s*:\s*"([^"\\]{0,80})"([^{}]*)')
_FIGURE: Final = re.compile(r'"(numSms|computeMajor|computeMinor|warpSize)"\s*:\s*(\d{1,4})\b')
_ROUNDING: Final = 1e-4  # less is no number of blocks: a card has a hundred multiprocessors or so
_AMD_WARP: Final = "64"  # of AMD's data-centre cards, whose "compute capability" is another scale
# Of the host, in a trace of PyTorch that has no work of a GPU; `Operator` before PyTorch 1.12.
_HOSTS: Final = {"cpu_op", "Operator", "python_function", "Trace"}
_OTHER_ACCELERATORS: Final = ("mtia", "xpu", "hpu", "privateuse1")
_BETWEEN: Final = re.compile(r"[\s,]*")


def read(path: Path, cut: Cut) -> Trace:
    """The trace within its window.

    Raises:
        FactsInvalidError: it is not such a trace, or holds more than is looked at.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            return _Events(path, gzip.GzipFile(fileobj=file) if packed else file).trace(cut)
    except (OSError, EOFError, zlib.error) as error:
        msg = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise FactsInvalidError(msg, hint=_HINT) from error


class _Events:
    def __init__(self, path: Path, file: BinaryIO | gzip.GzipFile) -> None:
        self._path, self._file = path, file
        self._taken = 0
        self._text = ""
        self._ended = False
        self._ops: list[Op] = []
        self._calls: list[Call] = []
        self._ranges: list[Range] = []
        self._threads: dict[object, int] = {}
        self._overheads: list[tuple[int, int]] = []
        self._gpus: dict[int, Card] = {}
        self._seen: set[str] = set()
        self._notes: list[str] = []
        self._bad = 0

    def trace(self, cut: Cut) -> Trace:
        for event in self._stream():
            self._take(event)
            if len(self._ops) + len(self._calls) + len(self._ranges) + len(self._overheads) > _MOST_KEPT:
                msg = f"{self._path} holds more than {_MOST_KEPT} events"
                raise FactsInvalidError(msg, hint="trace a shorter time: `gpuprov trace HOST --duration 2 -- COMMAND`")
        if self._bad:
            self._notes.append(f"{self._bad} events without valid times are left out")
        began, ended, skipped = self._window(cut)
        return Trace(
            maker="PyTorch's profiler",
            host_slowed=_SLOWS_HOST,
            began=began,
            ended=ended,
            ops=sorted(op for op in self._ops if op.start < ended and op.end > began),
            calls=sorted(self._calls),
            ranges=sorted(each for each in self._ranges if each.start < ended and each.end > began),
            missing=frozenset(
                {TracePart.WAITS} | ({TracePart.CALLS} if not self._calls else set()) | ({TracePart.RANGES} if not self._ranges else set())
            ),
            overhead_ns=sum(max(0, min(end, ended) - max(start, began)) for start, end in self._overheads),
            gpus=self._gpus,
            warm_up_ns=skipped,
            no_work="" if self._ops else self._no_work(),
            notes=self._notes,
        )

    def _no_work(self) -> str:
        """Why there is no work of a GPU. Events of which PyTorch wrote none are refused."""
        if other := next((each for each in _OTHER_ACCELERATORS if any(seen.startswith(each) for seen in self._seen)), ""):
            return f"its work is that of another accelerator ({other}), which gpuprov does not judge"
        if self._seen and not self._seen & {*_HOSTS, *_GPU, *_CALLS, *_RANGES, "overhead"}:
            msg = f"{self._path} is not a trace of PyTorch's profiler: none of its events is PyTorch's"
            raise FactsInvalidError(msg, hint=_HINT)
        calls = "it has calls of CUDA, and none of the work that they started: did another profiler hold the GPU?"
        return calls if self._calls else "it was recorded without `ProfilerActivity.CUDA`, or PyTorch used no GPU"

    def _window(self, cut: Cut) -> tuple[int, int, int]:
        if cut.range_name:
            named = min((each for each in self._ranges if each.name == cut.range_name), default=None)
            if named is None:
                msg = f"{self._path} has no range {cut.range_name!a}"
                raise FactsInvalidError(msg, hint="the names are those of `record_function`; without --range the whole is looked at")
            return named.start, named.end, 0
        if not self._ops:
            return 0, 0, 0
        return cut.window(min(op.start for op in self._ops), max(op.end for op in self._ops))

    def _more(self) -> None:
        """Read a further piece."""
        raw = self._file.read(_CHUNK)
        self._taken += len(raw)
        if self._taken > _MOST_BYTES:
            msg = f"{self._path} is larger than {_MOST_BYTES >> 30} GiB when it is unpacked"
            raise FactsInvalidError(msg, hint="trace a shorter time: `gpuprov trace HOST --duration 2 -- COMMAND`")
        self._ended = not raw
        self._text += raw.decode("utf-8", errors="replace")

    def _stream(self) -> Iterator[dict[str, Any]]:
        """The events, one after the other."""
        while (before := _BEFORE_EVENTS.match(self._text)) is None:
            if self._ended or len(self._text) > _MOST_EVENT:
                msg = f"{self._path} is not a trace of PyTorch's profiler: it has no traceEvents"
                raise FactsInvalidError(msg, hint=_HINT)
            self._more()
        self._gpus = {int(number): _gpu(name, dict(_FIGURE.findall(rest))) for number, name, rest in _MODEL.findall(before[0])}
        at, decoder = before.end(), json.JSONDecoder()
        while True:
            between = _BETWEEN.match(self._text, at)
            at = between.end() if between else at
            if at < len(self._text) and self._text[at] == "]":
                return
            try:
                event, at = decoder.raw_decode(self._text, at)
            except (ValueError, RecursionError) as error:
                if len(self._text) - at > _MOST_EVENT or isinstance(error, RecursionError):
                    msg = f"{self._path} is not a trace of PyTorch's profiler: an event is not JSON, or larger than {_MOST_EVENT >> 20} MiB"
                    raise FactsInvalidError(msg, hint=_HINT) from error
                if self._ended:
                    self._notes.append("the file is cut off: what comes before the cut is looked at")
                    return
                self._text, at = self._text[at:], 0
                self._more()
                continue
            if isinstance(event, dict):
                yield event
            elif isinstance(event, list):  # as in the timeline of memory that the profiler writes as well
                msg = f"{self._path} is not a trace of PyTorch's profiler: its events are lists"
                raise FactsInvalidError(msg, hint=_HINT)

    def _take(self, event: dict[str, Any]) -> None:
        """Keep an event that counts."""
        category = event.get("cat")
        if event.get("ph") != "X":
            return
        category = category if isinstance(category, str) else ""
        if len(self._seen) < _MOST_CATEGORIES:
            self._seen.add(category[:_LONGEST_ID])
        gpu = _GPU.get(category)
        if gpu is None and category not in _CALLS and category not in _RANGES and category != "overhead":
            return
        start, length = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur", 0))
        if start is None or length is None or length < 0:
            self._bad += 1
            return
        end, name = start + length, str(event.get("name", "?"))[:LONGEST_NAME]
        found = event.get("args")
        args: dict[str, Any] = found if isinstance(found, dict) else {}
        correlation = _whole(args.get("correlation", 0))
        if gpu is not None:
            device = _whole(args.get("device", event.get("pid")))
            kind = _COPY.search(name) if gpu is Kind.COPY else None
            shown = name if gpu is Kind.KERNEL else kind[0] if kind else str(gpu)
            pageable = True if "Pageable" in name else False if "Pinned" in name else None
            shape = _shape(args) if gpu is Kind.KERNEL else ()
            if shape and device not in self._gpus and isinstance(waves := args.get("blocks per SM"), int | float) and waves > _ROUNDING:
                self._gpus[device] = Card(sms=round(math.prod(shape[:3]) / waves))
            self._ops.append(Op(start, end, gpu, device, 0, correlation, shown, max(0, _whole(args.get("bytes"))), pageable, shape=shape))
        elif category in _CALLS:
            self._calls.append(Call(start, end, self._thread(event), 0, correlation, plain_name(name)))
        elif category in _RANGES:
            self._ranges.append(Range(start, end, self._thread(event), name))
        elif name in _OVERHEADS:
            self._overheads.append((start, end))

    def _thread(self, event: dict[str, Any]) -> int:
        """The number of its thread."""
        named = str(event.get("pid"))[:_LONGEST_ID], str(event.get("tid"))[:_LONGEST_ID]
        return self._threads.setdefault(named, len(self._threads))


def _gpu(name: str, figures: dict[str, str]) -> Card:
    capability = "" if figures.get("warpSize") == _AMD_WARP else f"{figures.get('computeMajor', '')}.{figures.get('computeMinor', '')}"
    return Card(name, int(figures.get("numSms", 0)), capability.strip("."))


def _shape(args: dict[str, Any]) -> tuple[int, ...]:
    """Grid and block of a kernel; nothing where they are not there."""
    found = [*grid, *block] if isinstance(grid := args.get("grid"), list) and isinstance(block := args.get("block"), list) else []
    return tuple(map(_whole, found)) if len(found) == 6 and all(0 < _whole(side) < 1 << 32 for side in found) else ()  # noqa: PLR2004


def _nanoseconds(value: object) -> int | None:
    """Microseconds, as the format has them, in nanoseconds; None for what is not a time."""
    if isinstance(value, str):  # older versions write some of them as text
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > _MOST_SECONDS * 1e6:
        return None
    return value * 1000 if isinstance(value, int) else round(value * 1000)


def _whole(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < 1 << 63 else -1

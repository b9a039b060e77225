"""One kernel by ncu: how near it is to what the card can do, by computing and by memory, and whether it uses the tensor cores."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from provision.errors import FactsInvalidError

_MOST_COLUMNS: Final = 20_000
_NAME: Final = "Kernel Name"  # a column of ncu
_HINT: Final = "it is what `ncu --csv --page raw` writes; ncu says at its top why it measured nothing, such as ERR_NVGPUCTRPERM"
_TENSOR_OPS: Final = re.compile(r"sm__ops_path_tensor_op_\w+\.sum|sm__ops_path_tensor_src_\w+\.sum")
# Nearer to its roof than this, a kernel is at it.
_AT_THE_ROOF: Final = 0.6
_TENSOR_USED: Final = 5.0
_PREFIXES: Final = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES: Final = {"ns": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0, "nsecond": 1e-9}


class KernelMeasure(msgspec.Struct, frozen=True):
    """A kernel as ncu measured it. Null is what this ncu or this card does not tell.

    `intensity` is operations for each byte of the card's memory, `ridge` the intensity from which computing is the roof.
    """

    kernel: str
    gpu: str
    compute_capability: str
    seconds: float | None
    multiprocessors_percent: float | None
    memory_percent: float | None
    tensor_percent: float | None
    warps_percent: float | None
    operations_s: float | None
    peak_operations_s: float | None
    bytes_s: float | None
    peak_bytes_s: float | None
    intensity: float | None
    ridge: float | None
    said: str


def measures(lines: Iterable[str], name: str) -> list[KernelMeasure]:
    """The kernels of ncu's raw page.

    Raises:
        FactsInvalidError: it holds none.
    """
    rows = csv.reader(line for line in lines if line.startswith('"'))
    try:
        head, units, found = next(rows, []), next(rows, []), [row for row, _ in zip(rows, range(64), strict=False)]
    except csv.Error as error:
        msg = f"{name} is not a table of ncu: {error}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    if not found or _NAME not in head or len(head) > _MOST_COLUMNS:
        msg = f"{name} holds no kernel that ncu measured"
        hint = "`gpuprov trace` without --ncu lists the costliest kernels; ncu says first what else stopped it, such as ERR_NVGPUCTRPERM"
        raise FactsInvalidError(msg, hint=hint)
    return [_measure({title: (value, unit) for title, unit, value in zip(head, units, row, strict=False)}) for row in found]


def _measure(row: dict[str, tuple[str, str]]) -> KernelMeasure:
    def number(title: str) -> float | None:
        value, unit = row.get(title, ("", ""))
        try:
            plain = float(value.replace(",", ""))
        except ValueError:
            return None
        base = unit.partition("/")[0]
        if title.startswith("gpu__time"):
            return plain * _TIMES.get(base, 1e-9)
        return plain * _PREFIXES.get(base[0] if base[1:] in {"byte", "bytes"} else "", 1.0)

    def text(title: str) -> str:
        return row.get(title, ("", ""))[0][:400]

    seconds, moved = number("gpu__time_duration.sum"), number("dram__bytes.sum")
    operations, peak = _tensor(row, number)
    if not operations:
        operations, peak = _scalar(number)
    operations_s = operations / seconds if operations is not None and seconds else None
    lanes, clock = number("dram__bytes.sum.peak_sustained"), number("dram__cycles_elapsed.avg.per_second")
    peak_bytes_s = lanes * clock if lanes and clock else None
    intensity = operations / moved if operations and moved else None
    ridge = peak / peak_bytes_s if peak and peak_bytes_s else None
    tensor = number("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")
    busy, memory = (
        number("sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        number("dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    )
    return KernelMeasure(
        kernel=text(_NAME),
        gpu=text("device__attribute_display_name"),
        compute_capability=text("CC"),
        seconds=seconds,
        multiprocessors_percent=busy,
        memory_percent=memory,
        tensor_percent=tensor,
        warps_percent=number("sm__warps_active.avg.pct_of_peak_sustained_active"),
        operations_s=operations_s,
        peak_operations_s=peak,
        bytes_s=moved / seconds if moved is not None and seconds else None,
        peak_bytes_s=peak_bytes_s,
        intensity=intensity,
        ridge=ridge,
        said=_said(busy, memory, tensor),
    )


def _tensor(row: dict[str, tuple[str, str]], number: Callable[[str], float | None]) -> tuple[float | None, float | None]:
    """The operations of the tensor path that was used most, and its peak in a second; of a dense one that without sparsity."""
    paths = [(number(title) or 0.0, "sparsity_off" in title, title) for title in row if _TENSOR_OPS.fullmatch(title)]
    if not paths:
        return None, None
    most, _, title = max(paths)
    return most, number(f"{title}.peak_sustained_elapsed.per_second")


def _scalar(number: Callable[[str], float | None]) -> tuple[float | None, float | None]:
    """FP32 operations of the CUDA cores, and their peak in a second."""
    path = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    added, multiplied, fused = (number(path.format(name)) for name in ("fadd", "fmul", "ffma"))
    clock, seconds = number("smsp__cycles_elapsed.avg.per_second"), number("gpu__time_duration.sum")
    lanes = number("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained")
    if added is None or multiplied is None or fused is None or clock is None or seconds is None:
        return None, None
    return (added + multiplied + 2 * fused) * clock * seconds, 2 * lanes * clock if lanes else None


def _said(busy: float | None, memory: float | None, tensor: float | None) -> str:
    """The verdict on a kernel."""
    if busy is None or memory is None:
        return "ncu did not measure how busy it kept the card"
    uses = (
        ""
        if tensor is None
        else f"; tensor cores are active {tensor:.0f} % of the time"
        if tensor >= _TENSOR_USED
        else "; it uses no tensor cores"
    )
    top = max(busy, memory)
    if top < 100 * _AT_THE_ROOF:
        return f"it waits: neither computing ({busy:.0f} %) nor memory ({memory:.0f} %) is near its peak{uses}"
    return f"{'computing' if busy >= memory else 'memory'} is its roof, at {top:.0f} % of the peak{uses}"

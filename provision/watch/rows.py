"""What is watched, as rows: for the screen, for a pipe, as JSON and as CSV. The same words everywhere.

A GPU's activity is named after what it is: `sm` is the share of busy multiprocessors, `kernel` only says whether anything ran.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from provision.report.base import inert
from provision.structs import Struct
from provision.watch.sample import GpuProcess, GpuSample, Rates, Sample
from provision.watch.state import HostState, Notice, Watched, activity, slowed_by
from provision.watch.stream import Lost

BARS: Final = "▁▂▃▄▅▆▇█"
_GB: Final = 1e9
_GIB: Final = 1 << 30
_HISTORY: Final = 10
_NUMBER: Final = re.compile(r"([0-9]+)")


class GpuRow(Struct):
    """One GPU of one host, or a host without one (`index` None), as the cells of a table.

    Attributes:
        order: what the table can be sorted by; what is not known, or no longer, comes last.
        is_old: whether the host sends nothing at the moment.
    """

    host: str
    index: int | None
    cells: Mapping[str, str]
    order: Mapping[str, float]
    is_old: bool


# The columns in their order, and those that a narrow table leaves out, the first to go first. The last one takes the room that is left.
COLUMNS: Final = ("HOST", "GPU", "ACTIVE", "HISTORY", "TENSOR", "MEMORY", "POWER", "MHZ", "TEMP", "PCIE", "NVLINK", "MODEL", "NOTE")
SPARE: Final = ("MODEL", "NVLINK", "PCIE", "TENSOR", "HISTORY", "MHZ", "TEMP")
ORDERS: Final = ("host", "activity", "memory", "power", "temperature")


def rows(watched: Watched, now: float, *, order: str = "host", only: str = "") -> list[GpuRow]:
    """A row for each GPU, and for each host that has none or was never heard.

    Args:
        watched: the hosts.
        now: by the clock of this machine.
        order: one of `ORDERS`; all but the name sort the most first.
        only: a part of the host's or the GPU's name.
    """
    chosen = [row for state in watched.hosts.values() for row in _of(state, now, is_old=watched.is_old(state, now))]
    chosen = [row for row in chosen if only.lower() in f"{row.host} {row.cells.get('MODEL', '')}".lower()]
    if order == "host":
        return sorted(chosen, key=lambda row: (_numbered(row.host), row.index or 0))
    return sorted(chosen, key=lambda row: (-row.order.get(order, -1.0), row.host, row.index or 0))


def _numbered(name: str) -> list[tuple[bool, int, str]]:
    """A name by which train-2 comes before train-10."""
    return [(part.isdecimal(), int(part[:18]) if part.isdecimal() else 0, part) for part in _NUMBER.split(name)]


def _of(state: HostState, now: float, *, is_old: bool) -> Iterator[GpuRow]:
    silent = _silence(state, now) if is_old else ""
    if state.sample is None:
        yield GpuRow(state.name, None, {"HOST": state.name, "ACTIVE": "not heard", "NOTE": silent}, {}, is_old)
        return
    if not state.sample.gpus:
        cells = {"HOST": state.name, "ACTIVE": "no GPU", "NOTE": silent or inert(state.sample.why, 100)}
        yield GpuRow(state.name, None, cells, {}, is_old)
    for index, gpu in enumerate(state.sample.gpus):
        cells = {"HOST": state.name, "GPU": str(index), "MODEL": inert(gpu.name, 40)}
        if gpu.lost:
            yield GpuRow(state.name, index, {**cells, "ACTIVE": "lost", "NOTE": silent or inert(gpu.lost, 100)}, {}, is_old)
            continue
        watts = state.between.power_w[index] if index < len(state.between.power_w) else None
        watts = watts if watts is not None else gpu.power_w
        cells |= {
            "ACTIVE": active(gpu),
            "HISTORY": sparkline(list(state.history.get(index, ()))[-_HISTORY:]),
            "TENSOR": _percent(gpu.tensor_active),
            "MEMORY": _pair(gpu.memory_used_bytes, gpu.memory_bytes, _GIB, "GiB"),
            "POWER": _pair(watts, gpu.power_limit_w, 1, "W"),
            "MHZ": _clock(gpu.sm_mhz, state.host.clocks_mhz),
            "TEMP": f"{gpu.temperature_c} C" if gpu.temperature_c is not None else "?",
            "PCIE": _out_and_in(gpu.pcie_sent_bytes_s, gpu.pcie_received_bytes_s),
            "NVLINK": _out_and_in(gpu.nvlink_sent_bytes_s, gpu.nvlink_received_bytes_s),
            "NOTE": silent or ", ".join(slowed_by(gpu)),
        }
        order = {
            "activity": _least(activity(gpu)),
            "memory": _least(gpu.memory_used_bytes),
            "power": _least(watts),
            "temperature": _least(gpu.temperature_c),
        }
        yield GpuRow(state.name, index, cells, {} if is_old else order, is_old)


def _silence(state: HostState, now: float) -> str:
    """How long a host has sent nothing, and why as far as that is known."""
    why = inert(state.lost.error.message, 200).removeprefix(f"{state.name} ") if state.lost else ""
    age_s = state.age_s(now)
    if age_s is None:
        return why or "connecting"
    return f"no sample for {age_s:.0f} s{': ' if why else ''}{why}"


def active(gpu: GpuSample) -> str:
    """How busy a GPU is, with the name of what was counted."""
    if gpu.sm_active is not None:
        return f"sm {_percent(gpu.sm_active)}"
    return f"kernel {_percent(gpu.kernel_present)}" if gpu.kernel_present is not None else "not told"


def sparkline(values: Sequence[float | None]) -> str:
    """A bar for each share, the newest last; a gap where it was not told."""
    return "".join(" " if value is None else BARS[min(len(BARS) - 1, int(value * len(BARS)))] for value in values)


def host_lines(watched: Watched, name: str, now: float) -> list[str]:
    """One host in depth: itself, what it costs, its processes, and what happened."""
    state = watched.hosts[name]
    if state.sample is None:
        return [f"{state.name}: {_silence(state, now)}"]
    host, between = state.sample.host, state.between
    lines = [f"{state.name}: processor {_percent(between.cpu)} of {host.cores} cores, load {host.load if host.load is not None else '?'}"]
    used = host.memory_bytes - host.memory_free_bytes if host.memory_bytes is not None and host.memory_free_bytes is not None else None
    root = host.root_bytes - host.root_free_bytes if host.root_bytes is not None and host.root_free_bytes is not None else None
    lines.append(f"  memory {_pair(used, host.memory_bytes, _GIB, 'GiB')}, root disk {_pair(root, host.root_bytes, _GB, 'GB')}")
    lines.append(f"  disks, written/read: {_out_and_in(between.disk_written_bytes_s, between.disk_read_bytes_s)}")
    lines.append(f"  network, sent/received: {_out_and_in(between.network_sent_bytes_s, between.network_received_bytes_s)}")
    lines += _money(state, now)
    if watched.is_old(state, now):
        lines.append(f"  {_silence(state, now)}")
    for index, gpu in enumerate(state.sample.gpus):
        lines += [
            f"  GPU {index} slice {inert(part.name, 60)} {_pair(part.memory_used_bytes, part.memory_bytes, _GIB, 'GiB')}"
            for part in gpu.slices
        ]
    lines += [f"  {line}" for line in process_lines(state.sample.processes)]
    return lines + [f"  {notice_line(notice)}" for notice in watched.notices if notice.host == name]


def _money(state: HostState, now: float) -> Iterator[str]:
    host = state.host
    if host.usd_per_hour is not None and host.launched_at is not None:
        spent = host.usd_per_hour * max(0.0, now - host.launched_at) / 3600
        yield f"  cost so far {spent:.2f} USD, at {host.usd_per_hour:.3f} USD an hour"
    if host.ends_at is not None:
        yield f"  ends in {max(0.0, host.ends_at - now) / 3600:.1f} h"


def process_lines(processes: Iterable[GpuProcess]) -> Iterator[str]:
    """The processes on the GPUs, those that hold most memory first."""
    for process in sorted(processes, key=lambda each: -(each.memory_bytes or 0)):
        memory = f"{process.memory_bytes / _GIB:.1f} GiB" if process.memory_bytes is not None else "? GiB"
        if process.lost:
            yield f"GPU {process.gpu} {memory} lost process {process.pid}: it is gone, and its memory is still held"
        else:
            where = f" in container {process.container}" if process.container else ""
            yield f"GPU {process.gpu} {memory} {inert(process.user, 32) or '?'} {process.pid}{where}: {inert(process.command, 100) or '?'}"


def notice_line(notice: Notice) -> str:
    """What happened and what to do, in a line."""
    where = f"GPU {notice.gpu}" if notice.gpu is not None else "a GPU"
    return f"{where}: {inert(notice.happened, 100)}; {notice.todo}"


def as_json(name: str, item: Sample | Lost, between: Rates, now: float) -> dict[str, Any]:
    """What came from a host, as JSON-compatible data; the keys are those of the samples."""
    if isinstance(item, Lost):
        lost = {"code": item.error.code, "message": inert(item.error.message), "hint": item.error.hint}
        return {"at": now, "host": name, "lost": lost, "sample": None, "rates": None}
    rates = {
        "cpu": between.cpu,
        "disk_read_bytes_s": between.disk_read_bytes_s,
        "disk_written_bytes_s": between.disk_written_bytes_s,
        "network_received_bytes_s": between.network_received_bytes_s,
        "network_sent_bytes_s": between.network_sent_bytes_s,
        "power_w": list(between.power_w),
    }
    return {"at": now, "host": name, "lost": None, "sample": msgspec.to_builtins(item), "rates": rates}


_CSV: Final = (
    *("uuid", "name", "kernel_present", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "memory_used_bytes"),
    *("memory_bytes", "power_w", "power_limit_w", "energy_mj", "sm_mhz", "memory_mhz", "temperature_c", "reasons"),
    *("pcie_sent_bytes_s", "pcie_received_bytes_s", "nvlink_sent_bytes_s", "nvlink_received_bytes_s"),
    *("ecc_uncorrected", "rows_remapped", "lost"),
)


def csv_head() -> str:
    """The names of the columns; units stand in them."""
    return _csv(["at_s", "host", "gpu", *_CSV])


def csv_rows(name: str, sample: Sample, now: float) -> Iterator[str]:
    """A row for each GPU. A cell that is empty is not known."""
    for index, gpu in enumerate(sample.gpus):
        values = [getattr(gpu, name) for name in _CSV]
        yield _csv([f"{now:.3f}", name, index, *("" if value is None else _inert_cell(value) for value in values)])


def _inert_cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is marked as text."""
    if not isinstance(value, str):
        return value
    text = inert(value, 100)
    return f"'{text}" if text[:1] in "=+-@" and text else text


def _csv(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _percent(share: float | None) -> str:
    return f"{100 * min(1.0, share):.0f} %" if share is not None else "?"


def _pair(used: float | None, most: float | None, unit: float, name: str) -> str:
    if used is None:
        return "?"
    digits = 1 if name in {"GiB", "GB"} else 0
    return f"{used / unit:.{digits}f}/{most / unit:.0f} {name}" if most else f"{used / unit:.{digits}f} {name}"


def _clock(now: int | None, profile: int | None) -> str:
    if now is None:
        return "?"
    return f"{now} of {profile}" if profile is not None and now != profile else str(now)


def _out_and_in(*rates: float | None) -> str:
    if rates == (None, None):
        return "?"
    return f"{'/'.join('?' if rate is None else f'{rate / _GB:.1f}' for rate in rates)} GB/s"


def _least(value: float | None) -> float:
    return -1.0 if value is None else float(value)

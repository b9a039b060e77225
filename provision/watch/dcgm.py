"""The samples for Prometheus, under the names, labels and units of NVIDIA's dcgm-exporter, so that its usual dashboard shows them.

What is not known has no series: 0 would be a figure. Names and units: docs/sources/monitor.md.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from provision.report.prometheus import labelled
from provision.structs import Struct
from provision.watch.sample import GpuSample
from provision.watch.state import HostState, Watched

_MIB: Final = 1 << 20
Reading = Callable[[GpuSample], float | int | bool | None]


class _Series(Struct):
    name: str
    kind: str
    help: str
    read: Reading


def _mib(value: int | None) -> float | None:
    return value / _MIB if value is not None else None


def _percent(value: float | None) -> float | None:
    return round(100 * value, 1) if value is not None else None


_SERIES: Final = (
    _Series("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", lambda gpu: gpu.sm_mhz),
    _Series("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", lambda gpu: gpu.memory_mhz),
    _Series("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", lambda gpu: gpu.temperature_c),
    _Series("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda gpu: gpu.power_w),
    _Series(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        lambda gpu: gpu.energy_mj,
    ),
    _Series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", lambda gpu: gpu.pcie_replays),
    _Series("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", lambda gpu: _percent(gpu.kernel_present)),
    _Series("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", lambda gpu: _percent(gpu.memory_busy)),
    _Series("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", lambda gpu: _percent(gpu.encoder)),
    _Series("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", lambda gpu: _percent(gpu.decoder)),
    _Series("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", lambda gpu: _mib(gpu.memory_free_bytes)),
    _Series("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", lambda gpu: _mib(gpu.memory_used_bytes)),
    _Series(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "Total number of double-bit volatile ECC errors.",
        lambda gpu: gpu.ecc_uncorrected,
    ),
    _Series(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors.",
        lambda gpu: gpu.rows_remapped,
    ),
    _Series("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed.", lambda gpu: gpu.remap_failed),
    _Series("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of cycles an SM has at least 1 warp assigned.", lambda gpu: gpu.sm_active),
    _Series("DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Ratio of number of warps resident on an SM.", lambda gpu: gpu.sm_occupancy),
    _Series("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active.", lambda gpu: gpu.tensor_active),
    _Series("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the device memory interface is active.", lambda gpu: gpu.dram_active),
    _Series("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "Bytes sent over PCIe per second.", lambda gpu: gpu.pcie_sent_bytes_s),
    _Series("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "Bytes received over PCIe per second.", lambda gpu: gpu.pcie_received_bytes_s),
)


def page(watched: Watched, *, now: float) -> str:
    """All series of all hosts in the text format. A host whose last sample is old has none but `gpuprov_up` 0."""
    fresh = {name: not watched.is_old(state, now) for name, state in watched.hosts.items()}
    lines = ["# HELP gpuprov_up Whether samples of the host come.", "# TYPE gpuprov_up gauge"]
    lines += [f"gpuprov_up{labelled({'instance': name})} {int(is_fresh)}" for name, is_fresh in fresh.items()]
    states = [state for name, state in watched.hosts.items() if fresh[name]]
    for series in _SERIES:
        values = list(_values(series, states))
        if values:
            lines += [f"# HELP {series.name} {series.help}", f"# TYPE {series.name} {series.kind}", *values]
    codes = list(_xids(watched, {state.name for state in states}))
    if codes:
        lines += ["# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.", "# TYPE DCGM_FI_DEV_XID_ERRORS gauge", *codes]
    return "\n".join(lines) + "\n"


def _values(series: _Series, states: Iterable[HostState]) -> Iterator[str]:
    for state in states:
        for index, gpu in enumerate(state.sample.gpus if state.sample else ()):
            value = series.read(gpu)
            if value is not None:
                yield f"{series.name}{labelled(labels_of(state.name, index, gpu))} {_number(value)}"


def _xids(watched: Watched, fresh: set[str]) -> Iterator[str]:
    """The last XID of each GPU; one that had none has 0, as the exporter gives it."""
    for name in fresh:
        sample = watched.hosts[name].sample
        for index, gpu in enumerate(sample.gpus if sample and sample.events is not None else ()):
            codes = [code for host, where, code in watched.xids if (host, where) == (name, index)]
            yield f"DCGM_FI_DEV_XID_ERRORS{labelled(labels_of(name, index, gpu))} {codes[-1] if codes else 0}"


def labels_of(host: str, index: int, gpu: GpuSample) -> dict[str, str]:
    """The labels that the exporter gives to a GPU; `instance` keeps hosts apart where one page has several."""
    return {
        "gpu": str(index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci,
        "device": f"nvidia{index}",
        "modelName": gpu.name,
        "Hostname": host,
        "hostname": host,
        "instance": host,
        "DCGM_FI_DRIVER_VERSION": gpu.driver,
    }


def _number(value: float) -> str:
    """All digits of a count: a counter of millijoules has more than seven."""
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"

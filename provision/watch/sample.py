"""What a host measured at one moment. The host is not trusted: every number and text has bounds, and no line is believed half.

Shares are between 0 and 1; None is "not told", never 0. Counters stand as the host counts them; `Rates` is what two samples make of them.
"""

from typing import Annotated, Final

import msgspec

from provision.errors import ProbeFailedError
from provision.structs import Struct
from provision.verify.bounds import Amount, Line, Share, Whole, Word

MAX_LINE_BYTES: Final = 512 * 1024


class SliceSample(msgspec.Struct, frozen=True):
    """One part of a GPU that is divided."""

    name: Word = ""
    uuid: Word = ""
    memory_used_bytes: Whole | None = None
    memory_bytes: Whole | None = None


class GpuSample(msgspec.Struct, frozen=True):
    """One GPU. `lost` says why it no longer answers; then nothing but its identity is known.

    `kernel_present` is the share of time in which any kernel ran, be it of one thread. `sm_active` and `tensor_active` are what Hopper and
    later count of their multiprocessors.
    """

    name: Word = ""
    uuid: Word = ""
    pci: Word = ""
    driver: Word = ""
    lost: Line = ""
    mig: bool | None = None
    gpm: bool = False
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    memory_free_bytes: Whole | None = None
    power_w: Amount | None = None
    power_limit_w: Amount | None = None
    energy_mj: Whole | None = None
    sm_mhz: Whole | None = None
    sm_most_mhz: Whole | None = None
    memory_mhz: Whole | None = None
    temperature_c: Whole | None = None
    reasons: Whole | None = None
    kernel_present: Share | None = None
    memory_busy: Share | None = None
    encoder: Share | None = None
    decoder: Share | None = None
    sm_active: Share | None = None
    sm_occupancy: Share | None = None
    tensor_active: Share | None = None
    dram_active: Share | None = None
    pcie_sent_bytes_s: Amount | None = None
    pcie_received_bytes_s: Amount | None = None
    nvlink_sent_bytes_s: Amount | None = None
    nvlink_received_bytes_s: Amount | None = None
    ecc_uncorrected: Whole | None = None
    rows_remapped: Whole | None = None
    remap_failed: bool | None = None
    remap_pending: bool | None = None
    pcie_replays: Whole | None = None
    slices: Annotated[tuple[SliceSample, ...], msgspec.Meta(max_length=16)] = ()


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that computes on a GPU. A lost one is gone, and its memory is still held."""

    gpu: Whole
    pid: Whole
    user: Word = ""
    command: Line = ""
    container: Word = ""
    memory_bytes: Whole | None = None
    lost: bool = False


class XidSample(msgspec.Struct, frozen=True):
    """A complaint of the driver's since the sample before. Position -1: the driver did not say of which GPU."""

    gpu: Annotated[int, msgspec.Meta(ge=-1, le=1000)]
    xid: Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class HostSample(msgspec.Struct, frozen=True):
    """The host itself."""

    cores: Whole = 1
    cpu_ticks: Whole | None = None
    cpu_idle_ticks: Whole | None = None
    memory_bytes: Whole | None = None
    memory_free_bytes: Whole | None = None
    disk_read_bytes: Whole | None = None
    disk_written_bytes: Whole | None = None
    network_received_bytes: Whole | None = None
    network_sent_bytes: Whole | None = None
    root_bytes: Whole | None = None
    root_free_bytes: Whole | None = None
    load: Amount | None = None
    up_s: Amount | None = None


class Sample(msgspec.Struct, frozen=True):
    """One moment of a host.

    Attributes:
        at: seconds since 1970, by the host's clock.
        why: why there are no GPUs; empty where there are.
        events: None where the driver does not tell them.
        cost_s: the processor time that the sample took on the host.
    """

    number: Whole
    at: Amount
    host: HostSample
    gpus: Annotated[tuple[GpuSample, ...], msgspec.Meta(max_length=64)] = ()
    why: Line = ""
    events: Annotated[tuple[XidSample, ...], msgspec.Meta(max_length=200)] | None = None
    processes: Annotated[tuple[GpuProcess, ...], msgspec.Meta(max_length=2000)] = ()
    cost_s: Amount = 0


_DECODER: Final = msgspec.json.Decoder(Sample)


def parse(line: bytes, host: str) -> Sample:
    """Read a line of the sampler's.

    Raises:
        ProbeFailedError: it is not one.
    """
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{host} sent a sample that is not one: {str(error)[:200]}"
        raise ProbeFailedError(msg, hint="another program may write into the session: see what the login's start-up files print") from error


class Rates(Struct):
    """What lies between two samples of a host; None where it cannot be told, as after a restart of the host."""

    cpu: float | None = None
    disk_read_bytes_s: float | None = None
    disk_written_bytes_s: float | None = None
    network_received_bytes_s: float | None = None
    network_sent_bytes_s: float | None = None
    power_w: tuple[float | None, ...] = ()
    """Of each GPU, by its counter of energy: the average, where the reading of power may be of one moment."""


def rates(before: Sample | None, now: Sample) -> Rates:
    """What happened between two samples."""
    if before is None or now.at <= before.at:
        return Rates(power_w=tuple(None for _ in now.gpus))
    seconds, old, new = now.at - before.at, before.host, now.host

    def grown(first: float | None, last: float | None, scale: float) -> float | None:
        return (last - first) / scale if first is not None and last is not None and last >= first and scale > 0 else None

    ticks = grown(old.cpu_ticks, new.cpu_ticks, 1)
    idle = grown(old.cpu_idle_ticks, new.cpu_idle_ticks, 1)
    energy = {gpu.uuid: gpu.energy_mj for gpu in before.gpus}
    return Rates(
        cpu=min(1.0, max(0.0, 1 - idle / ticks)) if ticks and idle is not None else None,
        disk_read_bytes_s=grown(old.disk_read_bytes, new.disk_read_bytes, seconds),
        disk_written_bytes_s=grown(old.disk_written_bytes, new.disk_written_bytes, seconds),
        network_received_bytes_s=grown(old.network_received_bytes, new.network_received_bytes, seconds),
        network_sent_bytes_s=grown(old.network_sent_bytes, new.network_sent_bytes, seconds),
        power_w=tuple(grown(energy.get(gpu.uuid), gpu.energy_mj, seconds * 1000) for gpu in now.gpus),
    )

"""The GPU as the host, the driver's library and the kernel see it."""

import re

from pydantic import Field

from provision.verify.codes import LOST
from provision.verify.facts.base import NOT_READ, Count, Fact, FactPart, Facts, NotObservedError, Reading
from provision.verify.facts.health import HealthReadings
from provision.verify.facts.links import LinkReadings


class GpuFacts(Fact):
    """What speaks for an NVIDIA GPU on the host."""

    name = "gpu"
    pci: tuple[str, ...]
    nodes: tuple[str, ...]
    readable: bool
    module: bool
    nouveau: bool
    modes: dict[str, Count] | None = None

    @property
    def exists(self) -> bool:
        """Whether anything speaks for an NVIDIA GPU."""
        return bool(self.pci or self.nodes or self.module)


class DeviceFacts(HealthReadings, LinkReadings):
    """One GPU as NVML sees it."""

    name: Reading = NOT_READ
    uuid: Reading = NOT_READ
    memory_mib: Reading = NOT_READ
    capability: Reading = NOT_READ
    persistence: Reading = NOT_READ
    app_memory_mhz: Reading = NOT_READ
    app_graphics_mhz: Reading = NOT_READ
    memory_mhz: Reading = NOT_READ
    sm_mhz: Reading = NOT_READ
    max_memory_mhz: Reading = NOT_READ
    max_graphics_mhz: Reading = NOT_READ
    mig: Reading = NOT_READ
    mig_pending: Reading = NOT_READ
    mig_slices: Reading = NOT_READ
    error: Reading = NOT_READ  # NVML's return code where it gives no handle, or says at a reading that the whole GPU is lost; else 0

    @property
    def lost(self) -> str | None:
        """Why NVML cannot reach this GPU; None where it can, or nobody knows."""
        return LOST.get(self.error.value) if isinstance(self.error.value, int) else None


class NvmlFacts(Fact):
    """The driver's own library on itself and each device."""

    name = "nvml"
    driver: Reading
    cuda: Reading
    devices: tuple[DeviceFacts, ...]


class DriverFacts(Fact):
    """The driver's version where it is loaded, installed and used; None where it was not found."""

    name = "driver"
    loaded: str | None
    installed: str | None
    nvidia_smi: str | None
    nvidia_smi_error: str = Field(alias="nvidia_smi_said")


class KernelModule(FactPart):
    """A kernel that has headers, and whether the driver's module was built for it."""

    kernel: str
    built: bool

    @property
    def order(self) -> list[tuple[int, int, str]]:
        """What sorts kernels from the oldest to the newest, as a boot loader does."""
        return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"[0-9]{1,9}|[^0-9.-]+", self.kernel)]


class ModulesFacts(Fact):
    """The driver's module on disk, and what is held against upgrades."""

    name = "modules"
    kernels: tuple[KernelModule, ...]
    held: tuple[str, ...]
    installed: tuple[KernelModule, ...] | None = None


def require_gpu(facts: Facts) -> GpuFacts:
    """What speaks for a GPU; NotObservedError where nothing does."""
    gpu = facts.read(GpuFacts)
    if not gpu.exists:
        msg = "no NVIDIA GPU on this host"
        raise NotObservedError(msg)
    return gpu


def devices(facts: Facts) -> tuple[DeviceFacts, ...]:
    """The GPUs as NVML sees them, at least one; NotObservedError where there is none, or NVML did not answer."""
    require_gpu(facts)
    gpus = facts.read(NvmlFacts).devices
    if not gpus:
        msg = "NVML lists no device"
        raise NotObservedError(msg)
    return gpus

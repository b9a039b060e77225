"""The GPU as the host, the driver's library and the kernel see it."""

import contextlib
import re
from collections.abc import Iterable

from pydantic import Field

from provision.verify.codes import LOST
from provision.verify.facts.base import NOT_READ, Count, Fact, FactPart, Facts, NotObservedError, Reading
from provision.verify.facts.health import HealthReadings
from provision.verify.facts.links import FabricOnDiskFacts, LinkReadings


class GpuFacts(Fact):
    """What speaks for an NVIDIA GPU on the host.

    `drivers` is the kernel driver of each address that has one, None where not seen; `displays` are those of cards for a display.
    """

    name = "gpu"
    pci: tuple[str, ...]
    nodes: tuple[str, ...]
    readable: bool
    module: bool
    nouveau: bool
    modes: dict[str, Count] | None = None
    drivers: dict[str, str] | None = None
    displays: tuple[str, ...] = ()

    def owners(self, addresses: Iterable[str]) -> str:
        """Addresses on the bus, each with the kernel driver that owns it where that is none of NVIDIA's."""
        foreign = {address: driver for address, driver in (self.drivers or {}).items() if driver != "nvidia"}
        return ", ".join(f"{address} ({foreign[address]})" if address in foreign else address for address in addresses)

    @property
    def computing(self) -> int:
        """How many device nodes are of cards that compute."""
        return len(self.nodes) - len(self.displays)

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
    compute_mode: Reading = NOT_READ
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
        """Why NVML cannot reach this GPU; None where it can, or where that was not observed."""
        return LOST.get(self.error.value) if isinstance(self.error.value, int) else None


class NvmlFacts(Fact):
    """The driver's own library on itself and each device."""

    name = "nvml"
    driver: Reading
    cuda: Reading
    devices: tuple[DeviceFacts, ...]


class DriverFacts(Fact):
    """The driver's version where it is loaded, installed and used; None where it was not found.

    `installed` is the running kernel's module on disk, `library` NVML's library as the loader finds it.
    """

    name = "driver"
    loaded: str | None
    installed: str | None
    nvidia_smi: str | None
    nvidia_smi_error: str = Field(alias="nvidia_smi_said")
    library: str | None = None

    @property
    def nvidia_smi_code(self) -> int | None:
        """How nvidia-smi ended where it showed no version: with a return code of NVML; None where it is not there."""
        code = re.match(r"exit (\d{1,3}):", self.nvidia_smi_error)
        return int(code[1]) if code else None


class KernelModule(FactPart):
    """A kernel that has headers, and whether the driver's module was built for it, in which version; None where that was not seen."""

    kernel: str
    built: bool
    version: str | None = None

    def serves(self, library: str | None) -> bool:
        """Whether the module is there, and not seen to be of another version than user space."""
        return self.built and (self.version is None or library in {None, self.version})

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

    def holds(self, package: str) -> bool:
        """Whether a package stays as it is: apt holds names, dnf locks names with versions, such as nvidia-driver-3:580.95.05-1.el9."""
        return any(lock == package or re.match(rf"{re.escape(package)}-(\d+:)?\d+\.\d", lock) for lock in self.held)


def user_space(facts: Facts) -> str | None:
    """The version of the driver's user space on disk; None where it was not seen.

    It is that of the library that programs load, else that of which NVML answered, which it does in the module's own version alone, else
    that of the package.
    """
    with contextlib.suppress(NotObservedError):
        if (library := facts.read(DriverFacts).library) is not None:
            return library
    with contextlib.suppress(NotObservedError):
        return str(facts.read(NvmlFacts).driver.answer())
    with contextlib.suppress(NotObservedError):
        return facts.read(FabricOnDiskFacts).user_space
    return None


def require_gpu(facts: Facts) -> GpuFacts:
    """What speaks for a GPU; NotObservedError where nothing does."""
    gpu = facts.read(GpuFacts)
    if not gpu.exists:
        msg = "no NVIDIA GPU on this host"
        raise NotObservedError(msg)
    return gpu


def not_started(facts: Facts) -> list[str]:
    """The addresses on the bus of cards that NVML does not list."""
    listed = [str(device.pci.value) for device in facts.read(NvmlFacts).devices]
    return [address for address in require_gpu(facts).pci if not any(place.endswith(address) for place in listed)]


def computing(facts: Facts) -> dict[int, DeviceFacts]:
    """The GPUs by NVML's index, without cards for a display."""
    displays, gpus = require_gpu(facts).displays, facts.read(NvmlFacts).devices
    return {index: gpu for index, gpu in enumerate(gpus) if not any(str(gpu.pci.value).endswith(address) for address in displays)}


def devices(facts: Facts) -> dict[int, DeviceFacts]:
    """The GPUs by NVML's index, at least one, without cards for a display; NotObservedError where there is none, or NVML did not answer."""
    gpus = computing(facts)
    if not gpus:
        msg = "NVML lists no device"
        raise NotObservedError(msg)
    return gpus

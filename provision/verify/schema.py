"""The shape of each fact: what a check may rely on. A value that does not hold its model counts as not observed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AsUser",
    "Clocks",
    "Counters",
    "Cudnn",
    "Cupti",
    "Device",
    "Driver",
    "Encoders",
    "Extras",
    "Fact",
    "FileSystem",
    "FileSystems",
    "Found",
    "FrameworkDevice",
    "FrameworkUsed",
    "Gpu",
    "Identity",
    "Installed",
    "Jax",
    "Kernel",
    "NotObservedError",
    "Nvcc",
    "Nvml",
    "OpenCv",
    "OpenCvUsed",
    "Persistenced",
    "Profilers",
    "PyTorch",
    "Python3",
    "Reading",
    "Release",
    "RootDisk",
    "Sessions",
    "TensorFlow",
    "Tool",
    "Unit",
    "Users",
]


class NotObservedError(Exception):
    """A check asked for a fact that nobody observed; `judge` turns it into an unknown finding."""


class Fact(BaseModel):
    """The base of all facts; `name` is the key in the facts file. Unknown keys are of a newer probe, and ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    name: ClassVar[str]


Count = Annotated[int, Field(ge=0)]
Mhz = Annotated[int, Field(gt=0, lt=100_000)]


class Reading(BaseModel):
    """One reading of NVML: a value, or the library's reason for none."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    value: int | float | str | None = None
    unknown: str | None = None


class Release(Fact):
    """What os-release says."""

    name = "os"
    id: Annotated[str, Field(min_length=1)]
    version_id: str
    pretty: str
    stand_in: bool


class Kernel(Fact):
    """Release and machine of the kernel."""

    name = "kernel"
    release: Annotated[str, Field(min_length=1)]
    machine: Annotated[str, Field(min_length=1)]


class Identity(Fact):
    """As whom the facts were gathered, and in which boot."""

    name = "identity"
    user: Annotated[str, Field(min_length=1)]
    uid: Count
    boot_id: str
    over_ssh: bool


class Python3(Fact):
    """The host's own python3, which ran the probe."""

    name = "python3"
    version: Annotated[str, Field(pattern=r"^3\.\d+")]


class Found(BaseModel):
    """A tool: where it is, and its version."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    path: Annotated[str, Field(pattern=r"^/")]
    version: Annotated[str, Field(pattern=r"^\d")]


class Tool(Fact):
    """A family of facts: `tool_gcc`, `tool_tmux`, …; asked for with `Facts.tool`."""

    name = "tool_"
    found: Found | None


class Users(Fact):
    """The people who can log in."""

    name = "users"
    names: tuple[str, ...]


class FileSystem(BaseModel):
    """One mounted file system."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    source: str
    target: Annotated[str, Field(pattern=r"^/")]
    type: Annotated[str, Field(min_length=1)]
    size_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    free_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    owner: str
    mode: Count
    writable: bool
    at_boot: bool | None


class FileSystems(Fact):
    """Every mounted file system that keeps data."""

    name = "file_systems"
    mounted: tuple[FileSystem, ...]

    def at(self, target: str) -> FileSystem | None:
        """The file system mounted last at a path."""
        return next((fs for fs in reversed(self.mounted) if fs.target == target), None)


class Partition(BaseModel):
    """The partition of the root file system: its disk, its own size, what is free behind it, and what the file system has of it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    disk_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    size_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    behind_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    file_system_bytes: Annotated[int, Field(gt=0, lt=2**63)]


class RootDisk(Fact):
    """What / lies on; no partition where it is not ext4 or xfs on one."""

    name = "root_disk"
    source: str
    type: Annotated[str, Field(min_length=1)]
    partition: Partition | None


class Sessions(Fact):
    """PATH as each kind of session has it (None: not seen), and the loader's folders."""

    name = "sessions"
    login: str | None
    ssh: str | None
    service: str | None
    loader: Annotated[tuple[str, ...], Field(strict=False)]


class Gpu(Fact):
    """What speaks for an NVIDIA GPU on the host."""

    name = "gpu"
    pci: Annotated[tuple[str, ...], Field(strict=False)]
    nodes: Annotated[tuple[str, ...], Field(strict=False)]
    readable: bool
    module: bool
    nouveau: bool

    @property
    def exists(self) -> bool:
        """Whether anything speaks for an NVIDIA GPU."""
        return bool(self.pci or self.nodes or self.module)


class Device(BaseModel):
    """One GPU as NVML sees it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    name: Reading = Reading(unknown="not read")
    memory_mib: Reading = Reading(unknown="not read")
    capability: Reading = Reading(unknown="not read")
    persistence: Reading = Reading(unknown="not read")
    app_memory_mhz: Reading = Reading(unknown="not read")
    app_graphics_mhz: Reading = Reading(unknown="not read")
    max_memory_mhz: Reading = Reading(unknown="not read")
    max_graphics_mhz: Reading = Reading(unknown="not read")


class Nvml(Fact):
    """The driver's own library on itself and each device."""

    name = "nvml"
    driver: Reading
    cuda: Reading
    devices: Annotated[tuple[Device, ...], Field(strict=False)]


class Driver(Fact):
    """The driver's version where it is loaded, installed and used; None where it was not found."""

    name = "driver"
    loaded: str | None
    installed: str | None
    nvidia_smi: str | None
    nvidia_smi_said: str


class KernelModule(BaseModel):
    """A kernel that has headers, and whether the driver's module was built for it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    kernel: str
    built: bool


class Modules(Fact):
    """The driver's module on disk, and what is held against upgrades."""

    name = "modules"
    kernels: Annotated[tuple[KernelModule, ...], Field(strict=False)]
    held: Annotated[tuple[str, ...], Field(strict=False)]


class AsUser(BaseModel):
    """What an ordinary user got when she asked for counters."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    outcome: str
    user: str | None
    said: str


class AsGroup(BaseModel):
    """What a member of the group gets: her effective capabilities in hexadecimal, and what ncu said; None where it was not tried."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    members: Annotated[tuple[str, ...], Field(strict=False)]
    capabilities: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] | None
    outcome: str
    said: str


class Counters(Fact):
    """Access to performance counters in its three layers; None where a layer says nothing."""

    name = "counters"
    on_disk: Annotated[str, Field(pattern=r"^[01]$")] | None
    live: Annotated[str, Field(pattern=r"^[01]$")] | None
    as_user: AsUser
    as_group: AsGroup | None = None


class Unit(Fact):
    """A systemd unit."""

    exists: bool
    enabled: bool
    active: bool
    command: str


class Persistenced(Unit):
    """The persistence daemon."""

    name = "persistence_unit"


class Clocks(Unit):
    """The unit that sets clocks at boot."""

    name = "clocks_unit"


class Installed(BaseModel):
    """The compiler of the toolkit."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    path: str
    version: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    link: str


class Nvcc(Fact):
    """The compiler of the toolkit."""

    name = "nvcc"
    found: Installed | None


class Cudnn(Fact):
    """cuDNN by its header and as the loader finds it."""

    name = "cudnn"
    header: str | None
    library: Count | None


class Cupti(Fact):
    """CUPTI's files, what the loader's cache has, and the version that it answers."""

    name = "cupti"
    files: Annotated[tuple[str, ...], Field(strict=False)]
    cached: Annotated[tuple[str, ...], Field(strict=False)]
    version: Count | None


class Profilers(Fact):
    """Versions of the profilers."""

    name = "profilers"
    nsys: str | None
    ncu: str | None
    nvprof: str | None = None


class OpenCvDevice(BaseModel):
    """One GPU as OpenCV used it: the sum of the image that it made smaller."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    sum: int | None = None
    error: str = ""


class OpenCvUsed(BaseModel):
    """OpenCV after a real operation; `error` when it did not get there."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    version: str = ""
    sum: int | None = None
    cuda: bool = False
    arch_list: Annotated[tuple[str, ...], Field(strict=False)] = ()
    devices: Annotated[tuple[OpenCvDevice, ...], Field(strict=False)] = ()
    error: str = ""


class OpenCv(Fact):
    """OpenCV in its environment."""

    name = "opencv"
    found: OpenCvUsed | None


class FrameworkDevice(BaseModel):
    """One GPU as a framework used it: the product of two 256 x 256 matrices of ones sums to 256 ** 3."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    capability: str = ""
    product: float | None = None
    device: str = ""
    error: str = ""


class FrameworkUsed(BaseModel):
    """A framework after a real product; `error` when it did not get there."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    version: str = ""
    cuda: str | None = None
    arch_list: Annotated[tuple[str, ...], Field(strict=False)] = ()
    devices: Annotated[tuple[FrameworkDevice, ...], Field(strict=False)] = ()
    error: str = ""


class PyTorch(Fact):
    """PyTorch in its environment."""

    name = "pytorch"
    found: FrameworkUsed | None


class TensorFlow(Fact):
    """TensorFlow in its environment."""

    name = "tensorflow"
    found: FrameworkUsed | None


class Jax(Fact):
    """JAX in its environment."""

    name = "jax"
    found: FrameworkUsed | None


class Extras(Fact):
    """Environment → package → version, names normalised; and DCGM's version."""

    name = "extras"
    environments: dict[str, dict[str, str]]
    dcgm: str | None


class Encoders(Fact):
    """The NVENC encoders that ffmpeg was built with; None without ffmpeg."""

    name = "encoders"
    nvenc: Annotated[tuple[str, ...], Field(strict=False)] | None

"""The parts of a stack: driver branches, toolkits, cuDNN, framework wheels, operating systems."""

import datetime as dt
from typing import Literal

import msgspec

from provision.catalog.records.base import Capabilities, CatalogRecord, Covers, version
from provision.catalog.records.signed import SignedModules, UnsignedModules


class Branch(CatalogRecord, frozen=True):
    """A driver branch."""

    branch: str
    designation: Literal["lts", "production", "feature", "ended", "unknown"]
    cuda_major: int
    compute_capability: Capabilities
    flavours: list[Literal["open", "proprietary"]]
    sources: Covers
    end_of_life: dt.date | None = None
    application_clocks: bool = True


class Flavours(CatalogRecord, frozen=True):
    """The compute capability from which the open modules work, and the one from which there are no others."""

    source: str
    open_from: str
    open_only_from: str


class ClockRules(CatalogRecord, frozen=True):
    """From which compute capability clocks can be locked, and from which branch application clocks are deprecated."""

    locked_graphics_from: dict[str, str]
    locked_memory_from: dict[str, str]
    deprecated_from_branch: dict[str, str]


class GroupCounters(CatalogRecord, frozen=True):
    """The driver that lets a group read counters with CAP_PERFMON."""

    from_branch: str
    flavour: str
    source: str


class FlavourPackages(CatalogRecord, frozen=True):
    """The packages of one module flavour; `stream` is a dnf module's."""

    compute: list[str]
    stream: str | None = None


class DriverPackages(CatalogRecord, frozen=True):
    """Package names of the driver up to a branch; `<branch>` stands for the branch, and `only` limits it to one distribution."""

    system: Literal["apt", "dnf", "dnf-modular"]
    scheme: str
    upto: str
    pin: list[str]
    open: FlavourPackages
    proprietary: FlavourPackages
    video: list[str]
    source: str
    only: str | None = None


class FabricPackage(CatalogRecord, frozen=True):
    """The name of the fabric manager's package up to a branch."""

    system: Literal["apt", "dnf"]
    upto: str
    manager: str
    source: str


class SubnetPackages(CatalogRecord, frozen=True):
    """What NVLink 5 needs beside the fabric manager."""

    system: Literal["apt", "dnf"]
    packages: list[str]
    source: str


class SubnetKernel(CatalogRecord, frozen=True):
    """The package that has NVLink 5's kernel module, where the kernel's own has it not; `<flavour>` stands for the kernel."""

    system: str
    package: str
    source: str


class NvLink5(CatalogRecord, frozen=True):
    """The GPUs with NVLink 5, and the kernel module that its subnet manager needs."""

    from_capability: str
    module: str
    source: str


class FabricRecord(CatalogRecord, frozen=True):
    """The fabric manager: its unit, and its packages by package manager and driver branch."""

    unit: str
    nvlink5: NvLink5
    packages: list[FabricPackage]
    subnet: list[SubnetPackages]
    kernel: list[SubnetKernel]


class DriverRecord(CatalogRecord, frozen=True):
    """driver.yaml."""

    branches: list[Branch]
    flavours: Flavours
    clocks: ClockRules
    counters_for_group: GroupCounters
    packages: list[DriverPackages]
    signed: list[SignedModules]
    unsigned: list[UnsignedModules]
    fabric: FabricRecord

    def signed_for(self, system: str) -> SignedModules | None:
        """The signed kernel modules of a system such as `alma 9`; None where it has none."""
        return next((record for record in self.signed if system in record.systems), None)

    def why_unsigned(self, system: str) -> str:
        """Why a system has no signed kernel modules."""
        return next((record.why for record in self.unsigned if system in record.systems), "nobody is known to sign modules for it")


class Floor(CatalogRecord, frozen=True):
    """The oldest driver branch for a major release of CUDA."""

    major: int
    driver: str
    source: str


class Toolkit(CatalogRecord, frozen=True):
    """A CUDA toolkit."""

    version: str
    driver: str
    compute_capability: Capabilities
    gcc: int
    package: str
    sources: Covers
    ncu: str | None = None
    nsys: str | None = None

    @property
    def major(self) -> int:
        """The major release, which decides the oldest driver and the library's soname."""
        return version(self.version)[0]


class Profiler(CatalogRecord, frozen=True):
    """The GPUs that a profiler can profile, up to a release."""

    tool: str
    compute_capability: Capabilities
    upto: str
    source: str


class Nvprof(CatalogRecord, frozen=True):
    """Where nvprof still works."""

    traces_below: str
    metrics_below: str
    last_toolkit: str
    source: str


class Toolkits(CatalogRecord, frozen=True):
    """cuda.yaml."""

    driver_floors: list[Floor]
    toolkits: list[Toolkit]
    profilers: list[Profiler]
    nvprof: Nvprof


class CudnnRelease(CatalogRecord, frozen=True):
    """A release of cuDNN."""

    version: str
    cuda_majors: list[int]
    compute_capability: Capabilities
    sources: Covers


class CudnnPackages(CatalogRecord, frozen=True):
    """Package names of cuDNN from a release on; `<major>` stands for the major version of CUDA."""

    system: Literal["apt", "dnf"]
    names: list[str]
    since: str
    source: str


class CudnnRecord(CatalogRecord, frozen=True):
    """cudnn.yaml."""

    releases: list[CudnnRelease]
    packages: list[CudnnPackages]


class ReleaseRecord(CatalogRecord, frozen=True):
    """A framework's wheel: its CUDA and cuDNN, and the GPUs it has kernels for.

    Attributes:
        sass: compiled kernels, as 75 for sm_75; each runs on its own and on later minors of its major.
        ptx: virtual architectures, compiled by the driver for anything newer.
        cudnn: the exact version in its metadata; None where that is a range.
    """

    version: str
    index: str
    cuda: str
    cudnn: str | None
    sass: list[int]
    ptx: list[int]
    python: Capabilities
    source: str

    def runs_on(self, capability: str) -> bool:
        """Whether the wheel has kernels for a GPU of this compute capability."""
        major, minor = version(capability)
        compiled = any(divmod(arch, 10)[0] == major and divmod(arch, 10)[1] <= minor for arch in self.sass)
        return compiled or any(divmod(arch, 10) <= (major, minor) for arch in self.ptx)


class FrameworksRecord(CatalogRecord, frozen=True):
    """pytorch.yaml."""

    releases: list[ReleaseRecord]


class VoltaCudnn(CatalogRecord, frozen=True):
    """The cuDNN that a range must be held to on GPUs up to Volta."""

    version: str
    source: str


class TensorFlowRecord(CatalogRecord, frozen=True):
    """tensorflow.yaml."""

    releases: list[ReleaseRecord]
    cudnn_for_volta: VoltaCudnn


class Python(CatalogRecord, frozen=True):
    """The Python for the environments of a system."""

    version: str
    packages: list[str]


class System(CatalogRecord, frozen=True):
    """An operating system.

    Attributes:
        gcc: what it can install, its default first.
        drivers_from: the oldest driver branch of NVIDIA's repository.
        cudnn_from: the oldest cuDNN of NVIDIA's repository.
        epel: its own package that adds EPEL; None where it has none.
        lacks: parts of a profile's stack that cannot be had, such as `ffmpeg`, each with the reason.
        subscribed: why no machine is launched with it; empty where one can be.
        by_hand: what its owner does before DKMS can be installed.
    """

    name: str
    version: str
    packages: Literal["apt", "dnf", "dnf-modular"]
    repository: str
    toolkits_from: str
    gcc: list[int]
    python: Python
    glibc: str
    headers: list[str]
    kernel: dict[str, str]
    sources: Covers
    drivers_from: str | None = None
    cudnn_from: str | None = None
    epel: str | None = None
    lacks: dict[str, str] = msgspec.field(default_factory=dict)
    subscribed: str = ""
    by_hand: str = ""

    @property
    def key(self) -> str:
        """`ubuntu 24.04`."""
        return f"{self.name} {self.version}"


class OpenCvWheel(CatalogRecord, frozen=True):
    """The wheel without CUDA, and its NumPy, for Python up to a version."""

    upto: str
    name: str
    version: str
    numpy: str
    source: str


class OpenCvDecoder(CatalogRecord, frozen=True):
    """The wheel that decodes videos on the GPU."""

    name: str
    version: str
    source: str


class OpenCvTools(CatalogRecord, frozen=True):
    """Additional build tools for Python up to this version."""

    upto: str
    tools: list[str]


class OpenCvRelease(CatalogRecord, frozen=True):
    """One source distribution.

    Attributes:
        sha256: of its file on the index.
        cuda_below: the first CUDA that cannot build it.
        built: the systems and toolkits it has been built with, in words.
    """

    version: str
    sha256: str
    cuda_below: str
    built: list[str]


class OpenCvBuild(CatalogRecord, frozen=True):
    """The source distribution with opencv_contrib, and how it is built.

    Attributes:
        releases: from the oldest CUDA on; all are built with the same tools.
        flags: of CMake; `<…>` stands for a value of the lock, `<dnn>` for ON or OFF, and `<dnn_module>` for the module or nothing.
        dnn_flags: those that come in addition where dnn is built.
    """

    name: str
    releases: list[OpenCvRelease]
    tools: list[str]
    by_python: list[OpenCvTools]
    flags: list[str]
    dnn_flags: list[str]
    source: str
    sources: dict[str, list[str]]

    def release_for(self, cuda: str) -> OpenCvRelease | None:
        """The release that is built with a CUDA; None where none builds with it."""
        return next((release for release in self.releases if version(cuda) < version(release.cuda_below)), None)


class OpenCvRecord(CatalogRecord, frozen=True):
    """OpenCV, as a wheel or built from source."""

    wheels: list[OpenCvWheel]
    decoder: OpenCvDecoder
    build: OpenCvBuild

    def wheel_for(self, python: str) -> OpenCvWheel:
        """The wheel for a Python such as `3.12`."""
        return next(wheel for wheel in self.wheels if version(python) <= version(wheel.upto))


class Systems(CatalogRecord, frozen=True):
    """systems.yaml."""

    systems: list[System]
    opencv: OpenCvRecord

"""What is installed: driver branches, toolkits, cuDNN, framework wheels, operating systems."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec

from provision.catalog.records.base import Capabilities, CatalogRecord, Covers, version


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
    """From which compute capability the open modules work, and from which there are no others."""

    source: str
    open_from: str
    open_only_from: str


class ClockRules(CatalogRecord, frozen=True):
    """From where clocks can be locked, and since when application clocks are deprecated."""

    locked_graphics_from: dict[str, str]
    locked_memory_from: dict[str, str]
    deprecated_from_branch: dict[str, str]


class GroupCounters(CatalogRecord, frozen=True):
    """What CAP_PERFMON needs to admit a group to the counters."""

    from_branch: str
    flavour: str
    source: str


class FlavourPackages(CatalogRecord, frozen=True):
    """The packages of one module flavour; `stream` is a dnf module's."""

    compute: list[str]
    stream: str | None = None


class DriverPackages(CatalogRecord, frozen=True):
    """How a package system names the driver up to a branch; `<branch>` stands for the branch, `only` for one distribution."""

    system: Literal["apt", "dnf", "dnf-modular"]
    scheme: str
    upto: str
    pin: list[str]
    open: FlavourPackages
    proprietary: FlavourPackages
    video: list[str]
    source: str
    only: str | None = None


class DriverRecord(CatalogRecord, frozen=True):
    """driver.yaml."""

    branches: list[Branch]
    flavours: Flavours
    clocks: ClockRules
    counters_for_group: GroupCounters
    packages: list[DriverPackages]


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
        """The major release, which decides the driver's floor and the library's soname."""
        return version(self.version)[0]


class Profiler(CatalogRecord, frozen=True):
    """Which GPUs a profiler up to a release profiles."""

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
    """How a package system names cuDNN from a release on; `<major>` stands for CUDA's."""

    system: Literal["apt", "dnf"]
    names: list[str]
    since: str
    source: str


class CudnnRecord(CatalogRecord, frozen=True):
    """cudnn.yaml."""

    releases: list[CudnnRelease]
    packages: list[CudnnPackages]


class ReleaseRecord(CatalogRecord, frozen=True):
    """A framework's wheel: what it was built with, and which GPUs it has kernels for.

    Attributes:
        sass: compiled kernels, as 75 for sm_75; each runs on its own and on later minors of its major.
        ptx: virtual architectures, compiled by the driver for anything newer.
        cudnn: the exact pin of its metadata; None where that is a range.
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
        """Whether the wheel has something to run on a GPU of this compute capability."""
        major, minor = version(capability)
        compiled = any(divmod(arch, 10)[0] == major and divmod(arch, 10)[1] <= minor for arch in self.sass)
        return compiled or any(divmod(arch, 10) <= (major, minor) for arch in self.ptx)


class FrameworksRecord(CatalogRecord, frozen=True):
    """pytorch.yaml."""

    releases: list[ReleaseRecord]


class Extra(CatalogRecord, frozen=True):
    """What `stack.extras` may name.

    Attributes:
        how: brought by a framework's own wheels, added to PyTorch's environment as wheels, installed as packages, or refused.
        frameworks: those that bring it, or into whose environment it goes.
        wheel: CUDA's major version, or `any` → the wheel that a framework brings it in.
        requirement: the same → what is asked of the index.
        packages: package manager → names; `<major>` stands for CUDA's.
        version: of the packages.
        unit: the service that comes with it.
        compute_capability: which GPUs it serves; None where all.
        why: the reason against what is refused.
    """

    name: str
    title: str
    how: Literal["framework", "wheels", "packages", "refused"]
    source: str
    frameworks: list[str] = msgspec.field(default_factory=list)
    wheel: dict[str, str] = msgspec.field(default_factory=dict)
    requirement: dict[str, str] = msgspec.field(default_factory=dict)
    packages: dict[str, list[str]] = msgspec.field(default_factory=dict)
    version: str = ""
    unit: str = ""
    compute_capability: Capabilities | None = None
    why: str = ""

    def of_major(self, table: dict[str, str], cuda: str) -> str | None:
        """The entry of a table for a CUDA version; None where there is none."""
        return table.get("any") or table.get(cuda.split(".", maxsplit=1)[0])


class ExtrasRecord(CatalogRecord, frozen=True):
    """extras.yaml."""

    extras: list[Extra]


class VoltaCudnn(CatalogRecord, frozen=True):
    """The cuDNN that a range must be held to on old GPUs."""

    version: str
    source: str


class TensorFlowRecord(CatalogRecord, frozen=True):
    """tensorflow.yaml."""

    releases: list[ReleaseRecord]
    cudnn_for_volta: VoltaCudnn


class Python(CatalogRecord, frozen=True):
    """The Python that a system's environments are made with."""

    version: str
    packages: list[str]


class System(CatalogRecord, frozen=True):
    """An operating system; `gcc` lists what it can install, its default first."""

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

    @property
    def key(self) -> str:
        """`ubuntu 24.04`."""
        return f"{self.name} {self.version}"


class RefusedRecord(CatalogRecord, frozen=True):
    """A system that is asked for often, and why not."""

    name: str
    version: str
    why: str
    source: str


class OpenCvWheel(CatalogRecord, frozen=True):
    """The wheel without CUDA, and the NumPy it runs with."""

    name: str
    version: str
    numpy: str
    source: str


class OpenCvTools(CatalogRecord, frozen=True):
    """What the source is built with under a Python up to this one, beside what it is built with everywhere."""

    upto: str
    tools: list[str]


class OpenCvBuild(CatalogRecord, frozen=True):
    """The source distribution with opencv_contrib, and how it is built.

    Attributes:
        sha256: of its file on the index.
        cuda_below: the first CUDA that it cannot be built with.
        built: where it was built, in words.
        flags: of CMake; `<…>` stands for what the lock knows.
    """

    name: str
    version: str
    sha256: str
    cuda_below: str
    built: list[str]
    tools: list[str]
    by_python: list[OpenCvTools]
    flags: list[str]
    source: str
    sources: dict[str, list[str]]


class OpenCvRecord(CatalogRecord, frozen=True):
    """OpenCV, as a wheel or built from source."""

    wheel: OpenCvWheel
    build: OpenCvBuild


class Systems(CatalogRecord, frozen=True):
    """systems.yaml."""

    systems: list[System]
    refused: list[RefusedRecord]
    opencv: OpenCvRecord

"""What a lock holds: the records of its file, its digest, and what it makes of a profile."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from provision import canonical
from provision.catalog.wheels import parse
from provision.profile.model import Profile


class LockedModel(BaseModel):
    """The base of a lock's parts: frozen and closed. A lock is written by gpuprov, so its texts may be long."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True)


Texts = Annotated[tuple[str, ...], Field(strict=False)]


class LockedProfile(LockedModel):
    """Which profile this is the lock of."""

    name: str
    sha256: str


class LockedGpu(LockedModel):
    """The GPU, in the words that the stack depends on."""

    model: str
    compute_capability: str


class LockedPlace(LockedModel):
    """One place: its image, its kernel, and what is known against it.

    Attributes:
        image: how the image is found: an SSM parameter or a family.
        image_id: the image itself, where a refresh has found it.
        kernel: the flavour whose headers are kept, empty where the system has one kernel.
        not_available: why nothing can be launched there; empty when nothing is known against it.
    """

    cloud: str
    region: str
    instance_type: str
    market: str
    image: str
    image_id: str | None
    kernel: str
    not_available: str


class LockedRepository(LockedModel):
    """A package repository, trusted by the fingerprint of its key, or by a keyring that the system's image has."""

    kind: Literal["apt", "dnf"]
    name: str
    url: str
    suite: str | None
    components: Texts
    keyring: str | None
    key: str | None
    fingerprint: str | None


class LockedDriver(LockedModel):
    """The driver: branch, kernel modules, packages; `module` is what its options must name."""

    branch: str
    flavour: Literal["open", "proprietary"]
    packages: Texts
    stream: str | None
    pin: Texts
    headers: Texts
    module: str


class LockedToolkit(LockedModel):
    """The CUDA toolkit, the folder that /usr/local/cuda stands for, and the compiler that its headers accept."""

    version: str
    package: str
    home: str
    gcc: int


class LockedCudnn(LockedModel):
    """cuDNN for the whole system."""

    version: str
    packages: Texts


class LockedProfiler(LockedModel):
    """A profiler of the toolkit's release; the version is None where the catalogue does not know it."""

    package: str
    version: str | None


class LockedClocks(LockedModel):
    """How the clocks are held, and at what; no pair means the maximum that the card itself reports."""

    mode: Literal["none", "application", "locked", "locked-graphics"]
    memory_mhz: int | None
    graphics_mhz: int | None


class LockedEnvironment(LockedModel):
    """One virtual environment.

    Attributes:
        wheels: as pip takes them with --require-hashes; empty where nobody could resolve them.
    """

    version: str
    index: str
    cuda: str | None
    cudnn: str | None
    python: str
    requirements: Texts
    wheels: Texts

    def wheel(self, name: str) -> str | None:
        """The version of a package of the set."""
        return next((w.version for w in parse("\n".join(self.wheels)) if w.name == name), None)


class LockedExtra(LockedModel):
    """An optional component.

    Attributes:
        environment: whose environment it is in; None for what is installed as packages.
        package: what the index calls it.
        wheels: what it adds there; empty where a framework's own wheels bring it.
    """

    version: str
    environment: str | None
    package: str | None
    unit: str | None
    wheels: Texts


class LockedOpenCv(LockedModel):
    """OpenCV: a wheel set, or the source and how it is built; then the environment has what it runs with beside itself.

    Attributes:
        source: one line as pip takes it with --require-hashes.
        tools: what it is built with.
        key: of the wheel that comes of it, SHA-256 over everything that it depends on.
    """

    environment: LockedEnvironment | None
    build_flags: Texts
    source: str | None = None
    tools: LockedEnvironment | None = None
    key: str | None = None


class Lock(LockedModel):
    """Everything that was decided.

    Attributes:
        packages: role → the packages that it needs, as apt or dnf takes them.
        wheel_index: the package index; None for the default one.
    """

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    profile: LockedProfile
    catalogue: str
    os: str
    gpu: LockedGpu
    counters: str
    places: Annotated[tuple[LockedPlace, ...], Field(strict=False)]
    driver: LockedDriver
    cuda: LockedToolkit
    cudnn: LockedCudnn
    profilers: dict[str, LockedProfiler]
    clocks: LockedClocks
    frameworks: dict[str, LockedEnvironment]
    opencv: LockedOpenCv
    extras: dict[str, LockedExtra]
    repositories: Annotated[tuple[LockedRepository, ...], Field(strict=False)]
    wheel_index: str | None
    packages: dict[str, Texts]
    hold: Texts
    warnings: Texts
    unresolved: Texts

    def as_dict(self) -> dict[str, Any]:
        """JSON-compatible data under the names of the file."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON form, hexadecimal."""
        return canonical.digest(self.as_dict())


def pin(profile: Profile, lock: Lock) -> Profile:
    """The profile with every open choice closed as the lock closes it: what is set up and checked is what is locked."""
    stack = profile.stack
    frameworks = stack.frameworks.model_copy(update={name: locked.version for name, locked in lock.frameworks.items()})
    # Hosts report cuDNN as three numbers; the fourth is the package's.
    cudnn = ".".join(lock.cudnn.version.split(".")[:3])
    closed = {"driver": lock.driver.branch, "cuda": lock.cuda.version, "cudnn": cudnn, "frameworks": frameworks}
    return profile.model_copy(update={"stack": stack.model_copy(update=closed)})

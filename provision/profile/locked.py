"""The records of a lock file, the lock's digest, and the profile with the lock's versions."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from provision import canonical
from provision.catalog.wheels import parse
from provision.errors import ProfileInvalidError
from provision.profile.model import Profile
from provision.strict import later


class LockedModel(BaseModel):
    """The base of a lock's parts: frozen, without unknown keys. gpuprov writes locks itself, so texts may be long."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True, defer_build=True)


Texts = Annotated[tuple[str, ...], Field(strict=False)]


class LockedProfile(LockedModel):
    """The profile that the lock belongs to."""

    name: str
    sha256: str


class LockedGpu(LockedModel):
    """The GPU's properties that the stack depends on; `mig` is what each one is split into, one by one."""

    model: str
    compute_capability: str
    mig: Texts = later(())


class LockedPlace(LockedModel):
    """One place, with its image and its kernel.

    Attributes:
        image: an SSM parameter, or an image family.
        image_id: the image itself, where the profile names it or a refresh has found it.
        image_name, image_owner, image_created: as its publisher gave them; a lock where nobody has looked does not have these keys.
        kernel: the flavour whose headers are installed; empty where the system has one kernel.
        not_available: why nothing can be launched there; empty where it can.
    """

    cloud: str
    region: str
    instance_type: str
    market: str
    image: str
    image_id: str | None
    kernel: str
    not_available: str
    image_name: str = later("")
    image_owner: str = later("")
    image_created: str = later("")

    @property
    def image_about(self) -> str:
        """The image's name, owner and day in words, as far as they are known."""
        owner = f"owner {self.image_owner}" if self.image_owner else ""
        return ", ".join(filter(None, (self.image_name, owner, self.image_created)))


class LockedRepository(LockedModel):
    """A package repository. It is trusted by the fingerprint of its key, or by a keyring of the system's image."""

    kind: Literal["apt", "dnf"]
    name: str
    url: str
    suite: str | None
    components: Texts
    keyring: str | None
    key: str | None
    fingerprint: str | None


class LockedDriver(LockedModel):
    """The driver: branch, kernel modules and packages.

    Attributes:
        module: the name of its kernel module.
        gsp: `off` where the driver runs without the firmware of the GPU's system processor (NVreg_EnableGpuFirmware=0).
        build: `dkms` where the modules are built on the host, `signed` where they come built and signed, `image` where the image has the
            driver already and nothing of it is installed.
        signer: how the name of their signer begins; empty where they are built on the host.
    """

    branch: str
    flavour: Literal["open", "proprietary"]
    packages: Texts
    stream: str | None
    pin: Texts
    headers: Texts
    module: str
    gsp: Literal["default", "off"] = "default"
    build: Literal["dkms", "signed", "image"] = "dkms"
    signer: str = ""

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit later keys at their default, so that older locks, which may be signed, keep their digest."""
        plain: dict[str, Any] = handler(self)
        return plain if self.build != "dkms" else {key: value for key, value in plain.items() if key not in {"build", "signer"}}


class LockedToolkit(LockedModel):
    """The CUDA toolkit. `home` is the target of /usr/local/cuda; `gcc` is the major version that its headers accept."""

    version: str
    package: str
    home: str
    gcc: int


class LockedCudnn(LockedModel):
    """cuDNN for the whole system."""

    version: str
    packages: Texts


class LockedProfiler(LockedModel):
    """A profiler of the toolkit's release; the version is None where the catalog does not have it."""

    package: str
    version: str | None


class LockedClocks(LockedModel):
    """How the clocks are set, and to which pair; no pair means the maximum that the card itself reports."""

    mode: Literal["none", "application", "locked", "locked-graphics"]
    memory_mhz: int | None
    graphics_mhz: int | None


class LockedEnvironment(LockedModel):
    """One virtual environment.

    Attributes:
        wheels: as pip takes them with --require-hashes; empty where the index was never reached.
    """

    version: str
    index: str
    cuda: str | None
    cudnn: str | None
    python: str
    requirements: Texts
    wheels: Texts

    def wheel(self, name: str) -> str | None:
        """The version of a package of the set, or None."""
        return next((w.version for w in parse("\n".join(self.wheels)) if w.name == name), None)


class LockedBuild(LockedModel):
    """A component that is built once from its source, against the PyTorch of the lock.

    Attributes:
        source: one line as pip takes it with --require-hashes.
        tools: the environment for the build.
        variables: the build's environment variables.
        job_gb: memory that one job of the compiler takes.
        key: of the wheel that is built, SHA-256 over everything that it depends on.
    """

    source: str
    tools: LockedEnvironment
    variables: dict[str, str]
    job_gb: int
    key: str


class LockedExtra(LockedModel):
    """An optional component.

    Attributes:
        environment: the framework whose environment has it; None where it is installed as packages.
        package: its name in the index.
        wheels: the wheels that it adds; empty where a framework's own wheels bring it.
        build: how it is built; a lock of a component that is not built does not have this key.
        files: path → the one line of a file, which is written where the packages leave it out.
    """

    version: str
    environment: str | None
    package: str | None
    unit: str | None
    wheels: Texts
    files: dict[str, str] = later({})
    build: LockedBuild | None = later(None)


class LockedOpenCv(LockedModel):
    """OpenCV as a wheel set, or as source. With source, the environment has the wheels that OpenCV runs with.

    Attributes:
        source: one line as pip takes it with --require-hashes.
        tools: the environment for the build.
        key: of the wheel that is built, SHA-256 over everything that it depends on.
        parts: what it has beyond images: `dnn`, `decode`.
    """

    environment: LockedEnvironment | None
    build_flags: Texts
    source: str | None = None
    tools: LockedEnvironment | None = None
    key: str | None = None
    parts: Texts = later(())


class LockedContainers(LockedModel):
    """The container engine, the release of NVIDIA's Container Toolkit, and how containers get GPUs."""

    engine: Literal["docker", "podman"]
    gpus: Literal["cdi", "runtime"]
    toolkit: str


class LockedPython(LockedModel):
    """A team's own packages.

    Attributes:
        file: its name beside the profile.
        sha256: of the file.
        environment: the framework whose environment has them.
        wheels: what they add to its own; empty where the index was never asked.
    """

    file: str
    sha256: str
    environment: str
    wheels: Texts


class LockedRay(LockedModel):
    """The Ray that a machine joins its cluster with: its release, empty where the index was never asked."""

    version: str


class Lock(LockedModel):
    """The whole lock.

    Attributes:
        packages: role → its packages, as apt or dnf takes them.
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
    containers: LockedContainers | None = later(None)
    python: LockedPython | None = later(None)
    ray: LockedRay | None = later(None)
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


M = TypeVar("M", Profile, Lock)


def recorded(kind: type[M], data: dict[str, Any], name: str) -> M:
    """The profile or the lock of a launch or a fleet, as the journal has it: another release may have written it.

    Raises:
        ProfileInvalidError: this release refuses it.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        msg = f"{name} was launched with a {kind.__name__.lower()} that this release refuses: {why}"
        hint = (
            f"the release that launched it reads it; `gpuprov down {name}`, of a fleet `gpuprov fleet down {name}`, removes it all the same"
        )
        raise ProfileInvalidError(msg, hint=hint) from error


def pin(profile: Profile, lock: Lock) -> Profile:
    """The profile with the versions of the lock in place of `auto`, so that exactly these are set up and checked."""
    stack = profile.stack
    frameworks = stack.frameworks.model_copy(update={name: locked.version for name, locked in lock.frameworks.items()})
    # Hosts report cuDNN as three numbers; the fourth is the package's.
    cudnn = ".".join(lock.cudnn.version.split(".")[:3])
    driver = {"driver": lock.driver.branch, "driver_flavour": lock.driver.flavour, "driver_build": lock.driver.build}
    if lock.driver.build == "image":  # what is on the image is what `image:` says; the lock knows no more of it
        has = profile.image_has
        flavour = has.driver_flavour if has is not None else None
        driver |= {"driver_flavour": flavour or "auto", "driver_build": "auto"}
    versions = {**driver, "cuda": lock.cuda.version, "cudnn": cudnn, "frameworks": frameworks}
    pinned = profile.model_copy(update={"stack": stack.model_copy(update=versions)})
    return pinned.with_wheels(environment_of(lock)) if lock.python is not None else pinned


def environment_of(lock: Lock) -> tuple[str, ...]:
    """Every wheel of the environment that a lock's own packages are added to; nothing where these were never resolved."""
    own = lock.python
    if own is None or not own.wheels:
        return ()
    extras = (line for extra in lock.extras.values() if extra.environment == own.environment for line in extra.wheels)
    return tuple(dict.fromkeys([*lock.frameworks[own.environment].wheels, *extras, *own.wheels]))

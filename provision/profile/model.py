"""Schema version 1 of a profile, as frozen typed models; the types of its strings are in `provision.profile.strings`."""

import functools
import operator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from provision import clouds
from provision.catalog.gpu_models import GpuModel
from provision.clouds.base import folded
from provision.clouds.offline import PlaceBase
from provision.clouds.own_image import ImageContents
from provision.profile import image_driver, reserved
from provision.profile.egress import Egress
from provision.profile.network import Network, conflict
from provision.profile.strings import (
    AbsolutePath,
    Email,
    FileName,
    Fingerprint,
    Login,
    Name,
    PublicKey,
    TagValue,
    Text,
    Url,
    Version,
    VersionOrAuto,
    WheelVersionOrAuto,
    free_of,
)
from provision.profile.verification import Verification
from provision.strict import StrictModel

# The names in catalog/data/extras.yaml; a test checks that they are the same.
Extra = Literal["triton", "nccl", "nvtx", "dali", "cutlass", "dcgm", "opencl", "tensorrt", "transformer-engine", "flash-attn", "apex"]


def _without(plain: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """A model's data without later keys at their default, so that the digest of an older profile, which may be signed, stays the same."""
    return {key: value for key, value in plain.items() if key not in defaults or value != defaults[key]}


class Owner(StrictModel):
    """Who answers for the machine."""

    name: Text
    email: Email


if TYPE_CHECKING:
    Place = PlaceBase
else:
    # One model for each cloud; the key `cloud` selects it.
    Place = Annotated[functools.reduce(operator.or_, [each.place for each in clouds.providers()]), Field(discriminator="cloud")]


class OperatingSystem(StrictModel):
    """The system of the image; the version is quoted in YAML, so that 24.10 stays 24.10.

    `secure_boot: required` uses no place without it. `auto` switches it on where the driver's modules are signed and the cloud can.
    """

    name: Literal["ubuntu", "debian", "rocky", "alma", "centos-stream", "rhel"]
    version: Version
    secure_boot: Literal["auto", "required"] = "auto"

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As in `Limits`."""
        return _without(handler(self), secure_boot="auto")


class RootDisk(StrictModel):
    """The boot volume, always encrypted."""

    size_gb: Annotated[int, Field(ge=20, le=16_384)]


class DataDisk(StrictModel):
    """The disk for data sets and checkpoints.

    `instance-store` is the NVMe inside the machine: fast, free, and empty after each stop. `volume` is a network disk of `size_gb`.
    """

    source: Literal["instance-store", "volume"]
    size_gb: Annotated[int, Field(ge=1, le=16_384)] | None = None
    mount: AbsolutePath
    filesystem: Literal["ext4", "xfs"] = "ext4"

    @model_validator(mode="after")
    def _size_belongs_to_volumes(self) -> Self:
        if self.source == "volume" and self.size_gb is None:
            msg = "a data disk with source: volume needs size_gb"
            raise ValueError(msg)
        if self.source == "instance-store" and self.size_gb is not None:
            msg = "size_gb cannot be chosen for source: instance-store; the instance type fixes it"
            raise ValueError(msg)
        return self


class Disks(StrictModel):
    """The root disk, and optionally a data disk."""

    root: RootDisk
    data: DataDisk | None = None


class Limits(StrictModel):
    """Limits of price and time. At the deadline the cloud itself ends the machine, whatever the client does.

    A place whose whole price is not known cannot be held to the limit. It is refused, unless `unknown_price: allow` accepts it.
    """

    price_per_hour_usd: Annotated[float, Field(gt=0, le=1000)]
    deadline_h: Annotated[int, Field(ge=1, le=720)]
    unknown_price: Literal["refuse", "allow"] = "refuse"

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit later keys at their default, so that the digest of an older profile, which may be signed, stays the same."""
        return _without(handler(self), unknown_price="refuse")


class Frameworks(StrictModel):
    """Machine-learning frameworks. One without a version is not installed."""

    pytorch: WheelVersionOrAuto | None = None
    tensorflow: VersionOrAuto | None = None
    jax: VersionOrAuto | None = None


class OwnPython(StrictModel):
    """A team's own packages in the framework's environment, or the environment of an image.

    `requirements` or `pylock` names a file beside the profile. With `prefix`, such as /opt/pytorch, PyTorch is the image's own: it is
    verified there, and nothing is installed into it.
    """

    requirements: FileName | None = None
    pylock: FileName | None = None
    prefix: AbsolutePath | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if sum(each is not None for each in (self.requirements, self.pylock, self.prefix)) != 1:
            msg = "stack.python names one of requirements, pylock and prefix; nothing is installed into a prefix"
            raise ValueError(msg)
        return self

    @property
    def file(self) -> str | None:
        """The file beside the profile; None with a prefix."""
        return self.requirements or self.pylock


class Stack(StrictModel):
    """The software. `auto` is the newest supported version that works on this GPU.

    `opencv: wheel` is without CUDA; `cuda` is built from source on the first host, for this GPU's compute capability alone.
    `driver_build: dkms` builds the kernel modules on the host, `signed` takes those that the distribution signed, so that Secure Boot
    can stay on; `auto` is signed where `os.secure_boot` is required, and dkms otherwise.
    `containers: podman` runs containers without root; docker's service is root, and so is in effect each member of its group.
    """

    driver: VersionOrAuto = "auto"
    driver_flavour: Literal["auto", "open", "proprietary"] = "auto"
    driver_build: Literal["auto", "dkms", "signed"] = "auto"
    cuda: VersionOrAuto = "auto"
    cudnn: Literal["none"] | VersionOrAuto = "auto"
    frameworks: Frameworks = Frameworks()
    opencv: Literal["wheel", "cuda", "none"] = "none"
    ffmpeg: bool = False
    tools: Annotated[tuple[Literal["gcc", "make", "cmake", "git", "tmux"], ...], Field(max_length=20, strict=False)] = (
        "gcc",
        "make",
        "git",
        "tmux",
    )
    profilers: Annotated[tuple[Literal["nsys", "ncu", "nvprof"], ...], Field(max_length=5, strict=False)] = ()
    extras: Annotated[tuple[Extra, ...], Field(max_length=20, strict=False)] = ()
    containers: Literal["none", "podman", "docker"] = "none"
    python: OwnPython | None = None

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As in `Limits`."""
        return _without(handler(self), driver_build="auto", containers="none", python=None)


class Mirror(StrictModel):
    """A package repository that replaces NVIDIA's. It is trusted only by the fingerprint of its key."""

    url: Url
    key: Url
    fingerprint: Fingerprint


class WheelIndex(StrictModel):
    """A package index that replaces the default one. Its files must have the hashes of the lock."""

    url: Url


class Sources(Egress):
    """Where software comes from.

    `packages: distribution` takes the distribution's own driver and toolkit instead of NVIDIA's.
    """

    packages: Literal["nvidia", "distribution"] = "nvidia"
    apt: Mirror | None = None
    dnf: Mirror | None = None
    wheels: WheelIndex | None = None


class ApplicationClocks(StrictModel):
    """A pair as `nvidia-smi -ac` takes it."""

    memory_mhz: Annotated[int, Field(ge=100, le=20_000)]
    graphics_mhz: Annotated[int, Field(ge=100, le=5_000)]


class MigSlices(StrictModel):
    """Slices of one size that each GPU is split into, in NVIDIA's own name for them."""

    slice: Annotated[
        str,
        StringConstraints(pattern=r"^[1-9]g\.[1-9][0-9]{0,2}gb$"),
        Field(description="a slice as NVIDIA names it, such as 1g.10gb: compute slices, and memory in GB"),
    ]
    count: Annotated[int, Field(ge=1, le=8)]


class Gpu(StrictModel):
    """The GPU and its settings.

    `counters: all-users` re-opens the side channel of CVE-2018-6260 to local users.
    `mig` splits each GPU into slices of its own (Multi-Instance GPU), such as seven of 1g.10gb.
    """

    model: GpuModel
    count: Annotated[int, Field(ge=1, le=16)] = 1
    counters: Literal["admin-only", "group", "all-users"] = "admin-only"
    persistence: bool = True
    application_clocks: Literal["default", "max"] | ApplicationClocks = "default"
    mig: Annotated[tuple[MigSlices, ...], Field(max_length=8, strict=False)] = ()

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As in `Limits`."""
        return _without(handler(self), mig=[])


class User(StrictModel):
    """A person's login, by key only."""

    name: Login
    ssh_keys: Annotated[tuple[PublicKey, ...], Field(max_length=20, strict=False)] = ()

    @field_validator("name")
    @classmethod
    def _not_the_systems(cls, value: str) -> str:
        return free_of(reserved.account_problem, value)


class Profile(StrictModel):
    """One purpose for a machine: the only source of what is launched, configured and checked."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    name: Name
    purpose: Text
    owner: Owner
    places: Annotated[tuple[Place, ...], Field(max_length=20, strict=False)]
    """Empty where hosts exist already, and none is launched."""
    os: OperatingSystem
    disks: Disks
    network: Network = Network()
    limits: Limits
    stack: Stack
    sources: Sources = Sources()
    gpu: Gpu
    users: Annotated[tuple[User, ...], Field(max_length=50, strict=False)] = ()
    verify: Verification = Verification()
    tags: Annotated[dict[str, TagValue], Field(max_length=30)] = Field(default_factory=dict)
    """Put on everything that is made at a cloud, in the call that makes it, beside the tags that gpuprov itself sets."""
    _locked_wheels: tuple[str, ...] = PrivateAttr(())

    @property
    def image_has(self) -> ImageContents | None:
        """What is on the images of its places already; None where everything is to be installed."""
        return image_driver.contents(self.places)

    @property
    def locked_wheels(self) -> tuple[str, ...]:
        """Every wheel of the environment that `stack.python` adds to; empty where no lock has closed it."""
        return self._locked_wheels

    def with_wheels(self, wheels: tuple[str, ...]) -> Self:
        """The same profile, with what a lock says of that environment."""
        profile = self.model_copy()
        profile._locked_wheels = wheels  # noqa: SLF001 - of the same class
        return profile

    @field_validator("name")
    @classmethod
    def _not_this_machine(cls, value: str) -> str:
        if value == "localhost":
            msg = "localhost is this machine; a machine is called by the name of its profile"
            raise ValueError(msg)
        return value

    @field_validator("limits")
    @classmethod
    def _within_the_cloud_s(cls, value: Limits, info: ValidationInfo) -> Limits:
        for place in info.data.get("places", ()):
            if place.longest_h is not None and value.deadline_h > place.longest_h:
                msg = f"a {place.market} machine on {place.cloud} runs for {place.longest_h} hours at most; lower deadline_h"
                raise ValueError(msg)
        return value

    @field_validator("users")
    @classmethod
    def _each_once(cls, value: tuple[User, ...]) -> tuple[User, ...]:
        names = [user.name for user in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"{', '.join(twice)} occurs twice; give one entry all keys"
            raise ValueError(msg)
        return value

    @field_validator("stack")
    @classmethod
    def _loads_under_secure_boot(cls, value: Stack, info: ValidationInfo) -> Stack:
        system = info.data.get("os")
        if value.driver_build == "dkms" and system is not None and system.secure_boot == "required":
            msg = "os.secure_boot is required, and no modules that DKMS builds load under it; set driver_build to signed, or leave it out"
            raise ValueError(msg)
        return value

    @field_validator("tags")
    @classmethod
    def _are_nobody_else_s(cls, value: dict[str, str]) -> dict[str, str]:
        keys: dict[str, str] = {}
        for key in value:
            free_of(reserved.tag_problem, key)
            other = keys.setdefault(folded(key), key)
            if other != key:
                msg = f"{other} and {key} are one label at a cloud whose labels are lower-case; leave one out"
                raise ValueError(msg)
        return value

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As in `Limits`."""
        return _without(handler(self), tags={})

    @field_validator("network")
    @classmethod
    def _exists_at_the_places(cls, value: Network, info: ValidationInfo) -> Network:
        msg = conflict(value, info.data.get("places", ()))
        if msg:
            raise ValueError(msg)
        return value

    def dump(self) -> dict[str, Any]:
        """JSON-compatible data with the keys of the YAML file, and all defaults except those that `Network` and `Limits` omit."""
        return self.model_dump(mode="json", by_alias=True)

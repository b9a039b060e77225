"""Schema version 1 of a profile, as frozen typed models; the types of its strings are in `provision.profile.strings`."""

import functools
import operator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    field_validator,
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
from provision.profile.stack import Stack
from provision.profile.strings import (
    AbsolutePath,
    Email,
    Fingerprint,
    Login,
    Name,
    PublicKey,
    StoreUrl,
    TagValue,
    Text,
    Url,
    Version,
    free_of,
)
from provision.profile.verification import Verification
from provision.strict import StrictModel, later


class Owner(StrictModel):
    """Who answers for the machine."""

    name: Text
    """The person or team that answers for the machine. The review, the bill and the tags show it."""
    email: Email
    """Where that person or team is reached. `gpuprov ls` and the tags of the machine show it."""


if TYPE_CHECKING:
    Place = PlaceBase
else:
    # One model for each cloud; the key `cloud` selects it.
    Place = Annotated[functools.reduce(operator.or_, [each.place for each in clouds.providers()]), Field(discriminator="cloud")]


class OperatingSystem(StrictModel):
    """The system of the image; the version is quoted in YAML, so that 24.10 stays 24.10.

    `secure_boot: required` uses no place without it. `auto` switches it on where the driver's modules are signed and the cloud can.
    """

    name: Literal["ubuntu", "debian", "rocky", "alma", "centos-stream", "amazon-linux", "rhel"]
    """The system on the image. Change it where your team knows another one, or where your own image has it."""
    version: Version
    """Its release, in quotes. A newer one has newer compilers; the catalog says which driver and toolkit go with it."""
    secure_boot: Literal["auto", "required"] = later("auto")
    """Whether a place without Secure Boot is passed over. Ask for it where the organisation demands signed kernel modules."""


class RootDisk(StrictModel):
    """The boot volume, always encrypted."""

    size_gb: Annotated[int, Field(ge=20, le=16_384)]
    """How large the boot disk is. Driver, toolkit and frameworks take about 40 GB; make it larger for data that outlives a stop."""


class DataDisk(StrictModel):
    """The disk for data sets and checkpoints.

    `instance-store` is the NVMe inside the machine: fast, free, and empty after each stop. `volume` is a network disk of `size_gb`.
    """

    source: Literal["instance-store", "volume"]
    """Where the data disk comes from. `instance-store` is fast, free, and empty after a stop; a `volume` keeps its content."""
    size_gb: Annotated[int, Field(ge=1, le=16_384)] | None = None
    """How large the volume is. An instance store has the size of its machine type, so it is left out there."""
    mount: AbsolutePath
    """The folder that the data disk appears at."""
    filesystem: Literal["ext4", "xfs"] = "ext4"
    """How the data disk is formatted. Choose xfs where your data has very many or very large files and your team knows it."""

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
    """The boot disk."""
    data: DataDisk | None = None
    """A second disk for data sets and checkpoints. Leave it out where the boot disk is enough."""


class Limits(StrictModel):
    """Limits of price and time. At the deadline the cloud itself ends the machine, whatever the client does.

    A place whose whole price is not known cannot be held to the limit. It is refused, unless `unknown_price: allow` accepts it.
    """

    price_per_hour_usd: Annotated[float, Field(gt=0, le=1000)]
    """The maximum price of the whole machine, with its disks and its address. A place above it is not used."""
    deadline_h: Annotated[int, Field(ge=1, le=720)]
    """When the machine ends itself, counted from its launch, whatever the client does. `gpuprov extend` moves it within this length."""
    unknown_price: Literal["refuse", "allow"] = later("refuse")
    """What happens to a place whose whole price is not known. `allow` uses it, and the review shows that as a risk."""

    machines: Annotated[int, Field(ge=1, le=1000)] | None = later(None)
    """How many machines one launch or one fleet may have. Without it an approval of the profile says nothing of their number."""


class Mirror(StrictModel):
    """A package repository that replaces NVIDIA's. It is trusted only by the fingerprint of its key."""

    url: Url
    """The address of the repository."""
    key: Url
    """The address of the key that signs it."""
    fingerprint: Fingerprint
    """The fingerprint of that key. A key with another one is refused, so it is read from a source that you trust."""


class WheelIndex(StrictModel):
    """A package index that replaces the default one. Its files must have the hashes of the lock."""

    url: Url
    """The address of the index."""


class Sources(Egress):
    """Where software comes from.

    `packages: distribution` takes the distribution's own driver and toolkit instead of NVIDIA's.
    """

    packages: Literal["nvidia", "distribution"] = "nvidia"
    """Whose driver and toolkit are installed. Those of the `distribution` are older, and come from one source fewer."""
    apt: Mirror | None = None
    """A repository of your own instead of NVIDIA's, for Debian and Ubuntu."""
    dnf: Mirror | None = None
    """A repository of your own instead of NVIDIA's, for systems with dnf."""
    wheels: WheelIndex | None = None
    """A package index of your own instead of the public one. Its files must have the hashes of the lock."""


class ApplicationClocks(StrictModel):
    """A pair as `nvidia-smi -ac` takes it."""

    memory_mhz: Annotated[int, Field(ge=100, le=20_000)]
    """The clock of the memory; `nvidia-smi -q -d SUPPORTED_CLOCKS` lists the pairs of a card."""
    graphics_mhz: Annotated[int, Field(ge=100, le=5_000)]
    """The clock of the processors of the GPU."""


class MigSlices(StrictModel):
    """Slices of one size that each GPU is split into, in NVIDIA's own name for them."""

    slice: Annotated[
        str,
        StringConstraints(pattern=r"^[1-9]g\.[1-9][0-9]{0,2}gb$"),
        Field(description="a slice as NVIDIA names it, such as 1g.10gb: compute slices, and memory in GB"),
    ]
    """The size of these slices. A larger one has more memory and more of the GPU."""
    count: Annotated[int, Field(ge=1, le=8)]
    """How many slices of this size each GPU gets."""


class Gpu(StrictModel):
    """The GPU and its settings.

    `counters: all-users` re-opens the side channel of CVE-2018-6260 to local users.
    `mig` splits each GPU into slices of its own (Multi-Instance GPU), such as seven of 1g.10gb.
    """

    model: GpuModel
    """The card. The driver, the toolkit and every figure that a check expects depend on it."""
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """How many GPUs the machine has. A place with another number is passed over, and `verify` counts them."""
    counters: Literal["admin-only", "group", "all-users"] = "admin-only"
    """Who may read performance counters, which ncu needs: everybody without sudo, or the members of gpuprov-counters alone."""
    persistence: bool = True
    """Whether the driver stays loaded between programs. Without it the first program after a pause waits, and clocks are forgotten."""
    application_clocks: Literal["default", "max"] | ApplicationClocks = "default"
    """The clocks at which programs run. Fix them to compare measurements; `max` takes the highest pair of the card."""
    mig: Annotated[tuple[MigSlices, ...], Field(max_length=8, strict=False)] = later(())
    """Slices that each GPU is split into, so that several people share a card and do not disturb each other."""


class User(StrictModel):
    """A person's login, by key only."""

    name: Login
    """The login."""
    ssh_keys: Annotated[tuple[PublicKey, ...], Field(max_length=20, strict=False)] = ()
    """The public keys that this person logs in with. Without one the account exists, and nobody can log in to it."""

    @field_validator("name")
    @classmethod
    def _not_the_systems(cls, value: str) -> str:
        return free_of(reserved.account_problem, value)


class FleetSettings(StrictModel):
    """That machines of this profile may be launched as a fleet, a group which the cloud itself keeps (`gpuprov fleet`).

    Its size is limited by `limits.machines`. It is launched in the first place that can be used and whose cloud has this kind of store.
    """

    store: StoreUrl
    """The bucket, and a prefix in it, for the members' program and their evidence. You make the bucket; the members' identity reads it."""


class Profile(StrictModel):
    """One purpose for a machine: the only source of what is launched, configured and checked."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    """The version of this schema."""
    name: Name
    """What the profile is called, and its machines, unless `--name` says otherwise."""
    purpose: Text
    """Why the machine exists, in a sentence for whoever approves it."""
    owner: Owner
    """Who answers for the machine."""
    places: Annotated[tuple[Place, ...], Field(max_length=20, strict=False)]
    """Where machines may be launched, the first choice first. Empty where hosts exist already, and none is launched."""
    os: OperatingSystem
    """The system of the machine."""
    disks: Disks
    """Its disks."""
    network: Network = Network()
    """How it is reached, and from where."""
    limits: Limits
    """What it may cost, and how long it may live."""
    stack: Stack
    """The software that is installed."""
    sources: Sources = Sources()
    """Where that software comes from."""
    gpu: Gpu
    """The GPU and its settings."""
    users: Annotated[tuple[User, ...], Field(max_length=50, strict=False)] = ()
    """People's logins beside the image's first user."""
    verify: Verification = Verification()
    """What `verify` demands beside the other keys."""
    tags: Annotated[dict[str, TagValue], Field(max_length=30)] = later({})
    """Put on everything that is made at a cloud, in the call that makes it, beside the tags that gpuprov itself sets."""
    fleet: FleetSettings | None = later(None)
    """Where a fleet of these machines keeps its evidence. With it, an approval of the profile covers `gpuprov fleet` too."""
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

    @field_validator("fleet")
    @classmethod
    def _has_its_store_at_a_place(cls, value: FleetSettings | None, info: ValidationInfo) -> FleetSettings | None:
        stores = [f"{scheme}://…" for scheme in clouds.fleet_stores([place.cloud for place in info.data.get("places", ())])]
        if value is not None and f"{value.store.partition('://')[0]}://…" not in stores:
            msg = (
                f"no place of the profile is on a cloud with fleets and this kind of store; its places take {' or '.join(stores) or 'none'}"
            )
            raise ValueError(msg)
        return value

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

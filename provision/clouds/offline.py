"""What a cloud says without being contacted: the second contract between the clouds and everything above them.

A `Provider` answers from data that ships with gpuprov and imports no SDK. The other contract, `base.Cloud`, is the client of one region.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

from pydantic import SerializerFunctionWrapHandler, model_serializer

from provision.catalog.records.base import Source
from provision.clouds.baked import BakedUse
from provision.clouds.base import Order
from provision.clouds.own import BucketCopy, CloudOption
from provision.clouds.own_image import OwnImage
from provision.clouds.terms import (
    DataPart,
    DeadlineKeeper,
    DriverAdvice,
    DriverImage,
    Extras,
    FirstKey,
    Grant,
    Image,
    KnownImage,
    Offer,
    PlannedCall,
    Price,
    Refusal,
    Region,
    Safeguard,
    SecureBoot,
    Way,
)
from provision.strict import StrictModel

if TYPE_CHECKING:
    from provision.clouds.forms import Form

# The keys of a place in the first release of the schema.
_FIRST_KEYS: Final = frozenset({"cloud", "instance_type", "market", "regions", "gpu", "gpu_count", "zones"})


class PlaceBase(StrictModel):
    """One place to try: the part that all clouds share. Each cloud has its own model, with its own key for where."""

    locations_key: ClassVar[str]
    """The key that holds where: `regions` or `zones`."""
    zonal: ClassVar[bool]
    """Whether a location is a zone, so that several of one region are one attempt; otherwise the cloud chooses the zone."""

    cloud: str
    """The cloud of this place. Each has its own further keys."""
    instance_type: str
    """The machine type, which decides GPU, processors, memory and price. `gpuprov catalog instances` lists them."""
    market: Literal["on-demand", "spot", "flex-start"] = "on-demand"
    """How the machine is paid for. Spot is cheaper, and the cloud may take the machine back at any time."""

    @model_serializer(mode="wrap")
    def _without_later_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit later keys at their default, so that the digest of an older profile, which may be signed, stays the same."""
        fields, plain = type(self).model_fields, handler(self)
        return {key: value for key, value in plain.items() if key in _FIRST_KEYS or getattr(self, key) != fields[key].default}

    @property
    def own_image(self) -> OwnImage | None:
        """The image that the place names; None where it takes that of the system's publisher."""
        return getattr(self, "image", None)

    @property
    def baked_use(self) -> BakedUse:
        """Whether machines start from an image of ours; never where the place has no such key."""
        return getattr(self, "baked_image", "never")

    @classmethod
    def bakes(cls) -> bool:
        """Whether this release makes images there."""
        return "baked_image" in cls.model_fields

    @property
    def locations(self) -> tuple[str, ...]:
        """The regions or zones, in the order of preference."""
        locations: tuple[str, ...] = getattr(self, self.locations_key)
        return locations

    @property
    def longest_h(self) -> int | None:
        """The most hours that a machine here may run; None where the cloud sets no limit that a profile could exceed."""
        return None

    @property
    def private_only(self) -> str:
        """Why machines here can have no public address; empty where they can."""
        return ""

    def region_of(self, location: str) -> str:
        """The region of a location: it is one, or a zone's name goes on after a hyphen."""
        return location.rpartition("-")[0] if self.zonal else location

    def gpus(self, model: str, count: int) -> tuple[str, int]:
        """The GPUs of a machine here, given what the profile asks for: (model, count)."""
        return model, count


class Offering(Protocol):
    """Which machine types a cloud offers where, and at what price; the module `offers` of its folder is one."""

    refreshes: Mapping[str, str]
    """What `catalog refresh --only` takes → the function of the cloud's `refresh` module."""

    def sources(self) -> dict[str, Source]:
        """The sources that the cloud's own data cites."""

    def regions(self) -> dict[str, Region]:
        """Code → region."""

    def offers(self) -> Iterator[Offer]:
        """Every machine type with a GPU that can be launched, without region and price."""

    def offered_in(self, instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:
        """Region → zones of an instance type; a region whose zones are not known has none."""

    def price(self, instance_type: str, region: str, gpu: str, count: int) -> Price | None:
        """The on-demand price of a machine with its GPUs, or None when nothing of it is known."""


class Provider(Offering, Protocol):
    """One cloud, as far as it is known without contacting it; the module `provider` of its folder is one."""

    name: str
    """What profiles, locks and tags call it."""
    title: str
    """What people call it."""
    deadline: DeadlineKeeper
    safeguards: tuple[Safeguard, ...]
    secure_boot: SecureBoot
    """Whether its machines can start with Secure Boot on."""
    first_key: FirstKey
    """Where the host key comes from that a machine is known by at the first contact."""
    boot_disk_doubt: str
    """Why nobody knows whether boot disks are encrypted; empty where they are."""
    stopped_costs: str
    """Why a stopped machine costs as much as one that runs; empty where only its disks cost then."""
    ways: Mapping[str, Way]
    bucket: BucketCopy | None
    """How a machine copies from its buckets as itself; None where it has no identity for that."""
    forms: Mapping[str, Form]
    """Name → what a profile can be rendered as for this cloud alone."""
    agent_files: tuple[str, ...]
    """Where its agents keep what is of one machine alone, on that machine: files and folders that no image may have."""
    reserved_tags: tuple[str, ...]
    """What the keys of tags begin with that the cloud keeps for itself, in lower case."""
    metadata_hosts: tuple[str, ...]
    """The addresses and names of its metadata service, as a machine asks for it."""
    where_to_look: str
    """The page or command that says which region or zone has which machine type."""
    price_hint: str
    """How to get a price that the catalog does not have."""

    place: type[PlaceBase]
    """The model of its places in a profile."""

    def default_region(self) -> tuple[str, str]:
        """The region that its own tools on this machine are set to, and where that is set; both are empty where none is."""

    def parts(self) -> dict[str, DataPart]:
        """Name → a part of its data."""

    def driver_advice(self, instance_type: str) -> DriverAdvice | None:
        """The kernel modules that a machine type is better off with; None where its GPU alone decides."""

    def place_at(self, offer: Offer, regions: Sequence[str]) -> PlaceBase:
        """A place of a profile: the machines of an offer, on demand, wherever these regions have them."""

    def source_of(self, instance_type: str) -> str:
        """The id of the source that says where a type is offered."""

    def gpu_of(self, instance_type: str) -> str | None:
        """The GPU that is built into a type, also of one that was withdrawn; None when it has none or is not known."""

    def names_type(self, instance_type: str) -> bool:
        """Whether a name has the form of this cloud's machine types."""

    def why_nowhere(self, instance_type: str, gpu: str | None) -> Refusal:
        """Why a type is offered nowhere.

        Raises:
            UsageError: only with a GPU can that be said.
        """

    def smallest_with(self, gpu: str) -> str:
        """Where a GPU can be had, in a few words; empty when nowhere."""

    def withdrawn_with(self, gpu: str) -> tuple[tuple[str, dt.date], ...]:
        """The machine types with a GPU that left the offerings everywhere, with the day by which they had."""

    def refusal(self, place: Any, location: str, gpu: str, count: int) -> Refusal | None:
        """What the catalog knows against a place, given the GPUs that the profile asks for."""

    def spot_price(self, instance_type: str, region: str) -> Price | None:
        """The spot price of a machine when a refresh last asked, which is never whole; None when it is not known."""

    def extras_price(self, instance_type: str, region: str, extras: Extras) -> Price:
        """What is billed with a machine: its disks and its address, as parts, and what of it is not known."""

    def image(self, os: tuple[str, str], place: Any = None) -> Image | None:
        """How the image of a place is found: the place's own, or that of the system's publisher."""

    def image_systems(self) -> tuple[tuple[str, str], ...]:
        """The systems whose publisher's image is known, sorted."""

    def driver_images(self) -> tuple[DriverImage, ...]:
        """The public images with a driver on them; nothing chooses them unasked."""

    def known_image(self, region: str, os: tuple[str, str], place: Any = None) -> KnownImage | None:
        """The image of a place itself, where the profile names it or a refresh has found it."""

    def image_gap(self, region: str, os: tuple[str, str], place: Any = None) -> str:
        """What a lock does not know about the image, for people; empty when nothing is missing."""

    def local_disks(self, instance_type: str) -> int | None:
        """How many disks are inside a machine when the data disk is to be there; None when nobody knows."""

    def has_nvswitch(self, instance_type: str) -> bool | None:
        """Whether the GPUs of a machine are connected by NVSwitches, which need the fabric manager; None when nobody knows."""

    def quota(self, instance_type: str, gpu: str | None, market: str) -> str | None:
        """The quota that a launch counts against."""

    def subnet_problem(self, subnet: str | None, *, private: bool, regions: Sequence[str]) -> str:
        """What is wrong with a profile's subnet and address here, with what to write instead; empty when nothing."""

    def cloud_options(self, place: Any) -> tuple[CloudOption, ...]:
        """What a place of a profile asks of the cloud beyond the machine itself, from the keys that only this cloud has."""

    def permissions(self, order: Order) -> tuple[str, ...]:
        """Everything that credentials need for an order, from the first question to the last removal."""

    def policy(self, grant: Grant) -> tuple[dict[str, Any] | None, str]:
        """The smallest policy document for a grant, or None where the cloud has no such thing; and a note about it."""

    def bake_policy(self, grant: Grant, line: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:
        """The permissions of whoever makes images of a line, and the smallest policy document where the cloud has such a thing.

        Raises:
            CloudUnsupportedError: this release makes no images there.
        """

    def calls(self, order: Order, region: str) -> list[PlannedCall]:
        """The calls of a launch in their order: those that change something, and those that find what they need."""

    def user_data(self, order: Order, region: str) -> str:
        """What the first boot is told."""

"""The plan: everything that follows from a profile and its lock before a cloud is contacted.

`plan` prints it, `up` executes it within its ceiling, `review` presents it, `policy` checks it, and `render` writes it in the languages of
other tools. It holds values and kinds; text for people is made where it is printed.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from provision import clouds
from provision.clouds.base import (
    COUNT_TAG,
    DEADLINE_TAG,
    FIRST_TAG,
    LAUNCH_TAG,
    NAME_TAG,
    OWNER_TAG,
    PROFILE_DIGEST_TAG,
    PROFILE_TAG,
    Order,
)
from provision.clouds.offline import PlaceBase
from provision.clouds.own import CloudOption
from provision.clouds.terms import PlannedCall, Price, Refusal, RefusalKind, Safeguard, Way
from provision.clouds.userdata import Downloads
from provision.errors import LockInvalidError
from provision.launch import ahead
from provision.launch.moment import ONCE, in_words
from provision.launch.permissions import PlannedPermissions, planned_permissions
from provision.launch.price import cheapest_first, spot_limit, whole_price
from provision.profile import load
from provision.profile.locked import Lock, LockedPlace
from provision.profile.model import Limits, Profile
from provision.structs import Struct, field, replace

DiskKind = Literal["root", "volume", "instance-store"]
DoorKind = Literal["caller", "way", "network"]
Sacrifice = Literal["counters-open"]
# Placeholders for values that exist only at the launch.
LAUNCH_ID: Final = "<launch>"
HOST_KEY: Final = "<the host key that gpuprov makes for this launch>"
PUBLIC_KEY: Final = "<the public key that gpuprov makes for this machine>"
_LIMIT: Final = "limits.price_per_hour_usd"


class PlannedPlace(Struct):
    """One location of one place of the profile, in the order in which they are tried.

    Attributes:
        index, location: of the place in the profile, and its region or zone there.
        zone, gpu, gpu_count: empty where the cloud chooses; what a machine there has.
        image, image_id: how the image is looked up, and its id where the lock has one.
        image_about: its name, owner and day, as far as the lock has them.
        price: on demand, of the machine with its disks and its address, or of spot when a refresh asked; None where the catalog has none.
        refusal: why the place is skipped; None when it would be tried.
        elsewhere: the other regions that have the type.
        downloads: what its machines download at their first boot, before they answer SSH; None for nothing.
        opt_in, secure_boot: whether the region must be enabled once; whether machines start with Secure Boot on.
    """

    index: int
    place: PlaceBase
    location: str
    region: str
    zone: str
    gpu: str
    gpu_count: int
    image: str
    image_id: str | None
    price: Price | None
    refusal: Refusal | None
    opt_in: bool
    elsewhere: tuple[str, ...]
    secure_boot: bool = False
    image_about: str = ""
    downloads: Downloads | None = None

    @property
    def cloud(self) -> str:
        """The cloud's name."""
        return self.place.cloud

    @property
    def cloud_options(self) -> tuple[CloudOption, ...]:
        """What the place asks of its cloud beyond the machine, such as a key for the disks."""
        return clouds.provider(self.place.cloud).cloud_options(self.place)

    @property
    def whole_price_usd(self) -> float | None:
        """US dollars per hour for all parts of a machine; None when the price of a part is not known."""
        return self.price.usd_per_hour if self.price and self.price.whole else None

    def __str__(self) -> str:
        return f"{self.place.instance_type} in {self.region} ({self.place.market})"


class PlannedDisk(Struct):
    """A disk of each machine; `size_gb` is None where the machine type fixes it."""

    kind: DiskKind
    size_gb: int | None
    mount: str
    filesystem: str


class PlannedDoor(Struct):
    """A network that may connect to port 22: the caller's address, the range of a cloud's way in, or a network of the profile."""

    kind: DoorKind
    network: str
    way: Way | None = None


class Ceiling(Struct):
    """What a launch costs at most, in US dollars.

    Attributes:
        limit_per_hour, limit_to_deadline: of the profile.
        to_deadline: the most that can be spent; None when there is no candidate, or one without a known whole price.
        lowest_per_hour, highest_per_hour: over the candidates whose whole price is known.
        unknown_places: the number of candidates at an unknown price, which the profile allows.
    """

    limit_per_hour: float
    limit_to_deadline: float
    to_deadline: float | None
    lowest_per_hour: float | None
    highest_per_hour: float | None
    unknown_places: int


class Plan(Struct):
    """The launch of a profile under a name.

    Attributes:
        places: in the order in which they are tried; `cheapest` says whether that is by price and not the profile's.
        disks, doors: of each machine.
        safeguards: by cloud, what its requests contain whatever the profile says.
        sacrifices: the protections that the profile gives up.
        permissions, calls: by cloud; the calls are those of the cloud's first candidate.
        tags: put on everything that is made.
        withdrawn: (cloud, type, day) of the machine types with this GPU that can no longer be launched anywhere.
        lines: the line of each key in the profile's file; empty where the file is not at hand.
    """

    profile: Profile
    profile_sha256: str
    lock: Lock
    name: str
    places: tuple[PlannedPlace, ...]
    disks: tuple[PlannedDisk, ...]
    doors: tuple[PlannedDoor, ...]
    safeguards: tuple[tuple[str, Safeguard], ...]
    sacrifices: tuple[Sacrifice, ...]
    permissions: tuple[PlannedPermissions, ...]
    calls: tuple[PlannedCall, ...]
    tags: tuple[tuple[str, str], ...]
    withdrawn: tuple[tuple[str, str, dt.date], ...]
    lines: Mapping[str, int] = field(default_factory=dict)
    cheapest: bool = False

    @property
    def candidates(self) -> list[PlannedPlace]:
        """The places without a refusal, which would be tried."""
        return [place for place in self.places if place.refusal is None]

    @property
    def image_gaps(self) -> set[str]:
        """The lock's phrases about images that the catalog does not know."""
        os = (self.profile.os.name, self.profile.os.version)
        return {clouds.provider(place.cloud).image_gap(place.region, os, place.place) for place in self.places}

    @property
    def ceiling(self) -> Ceiling:
        """The highest cost."""
        candidates = self.candidates
        prices = [place.whole_price_usd for place in candidates if place.whole_price_usd is not None]
        limits, unknown = self.profile.limits, len(candidates) - len(prices)
        total = round(limits.price_per_hour_usd * limits.deadline_h, 2)
        lowest, highest = min(prices, default=None), max(prices, default=None)
        return Ceiling(limits.price_per_hour_usd, total, total if prices and not unknown else None, lowest, highest, unknown)


def plan(profile: Profile, lock: Lock, name: str | None = None, lines: Mapping[str, int] | None = None, *, cheapest: bool = False) -> Plan:
    """Compute the plan. No cloud is contacted.

    Args:
        profile: the profile.
        lock: its lock.
        name: of the launch; the profile's name by default.
        lines: the line of each key in the profile's file, for refusals.
        cheapest: order the places by their price, and not as the profile does.

    Raises:
        LockInvalidError: the lock lacks a place of the profile.
    """
    sha256, name = load.digest(profile), name or profile.name
    places = (cheapest_first if cheapest else tuple)(_places(profile, lock, lines or {}))
    first = {cloud: next((p for p in places if p.cloud == cloud and p.refusal is None), None) for cloud in _clouds(profile)}
    draft = [draft_order(profile, sha256, name, place) for place in places]
    calls = [call for cloud, place in first.items() if place for call in _calls(profile, sha256, name, place)]
    deadline = f"<launch + {profile.limits.deadline_h} h>"
    tags = _tags(profile, sha256, name=name, launch_id=LAUNCH_ID, deadline=deadline, whole_count=1, first=1)
    disks = [PlannedDisk("root", profile.disks.root.size_gb, "/", "")] if places else []
    if places and profile.disks.data:
        data = profile.disks.data
        disks.append(PlannedDisk(data.source, data.size_gb, data.mount, data.filesystem))
    return Plan(
        profile=profile,
        profile_sha256=sha256,
        lock=lock,
        name=name,
        places=places,
        disks=tuple(disks),
        doors=tuple(_door(profile, network) for network in profile.network.opens),
        safeguards=tuple(clouds.safeguards(profile.places)),
        sacrifices=("counters-open",) if profile.gpu.counters == "all-users" else (),
        permissions=tuple(planned_permissions(profile, name, places, draft)),
        calls=tuple(calls),
        tags=tuple(sorted(tags.items())),
        withdrawn=tuple((cloud, *record) for cloud in clouds.CLOUDS for record in clouds.provider(cloud).withdrawn_with(profile.gpu.model)),
        lines=lines or {},
        cheapest=cheapest,
    )


def _clouds(profile: Profile) -> list[str]:
    return list(dict.fromkeys(place.cloud for place in profile.places))


def _places(profile: Profile, lock: Lock, lines: Mapping[str, int]) -> Iterator[PlannedPlace]:
    locked: dict[tuple[str, str, str, str], list[LockedPlace]] = {}
    for entry in lock.places:  # two places may differ in a key of their cloud alone; the lock has them in the profile's order
        locked.setdefault((entry.cloud, entry.region, entry.instance_type, entry.market), []).append(entry)
    early, signed = ahead.downloads(profile, lock), lock.driver.build == "signed"
    for index, place in enumerate(profile.places):
        for location in place.locations:
            records = locked.get((place.cloud, location, place.instance_type, place.market), [])
            record = records.pop(0) if records else None
            if record is None:
                msg = f"the lock of {lock.profile.name} has no place {place.cloud} {location} {place.instance_type}, which the profile has"
                raise LockInvalidError(msg, hint="write it again with `gpuprov lock`")
            yield replace(_place(profile, index, location, record, lines, signed=signed), downloads=early)


def _place(profile: Profile, index: int, location: str, locked: LockedPlace, lines: Mapping[str, int], *, signed: bool) -> PlannedPlace:
    place = profile.places[index]
    provider, region = clouds.provider(place.cloud), place.region_of(location)
    gpu, gpu_count = place.gpus(profile.gpu.model, profile.gpu.count)
    unpriced = next((option.unpriced for option in provider.cloud_options(place) if option.unpriced), "")
    price = None if unpriced else whole_price(profile, place, region)
    money = _money_refusal(profile.limits, place, price, lines, unpriced)
    refusal = Refusal(RefusalKind.LOCKED, locked.not_available) if locked.not_available else money
    record = provider.regions().get(region)
    return PlannedPlace(
        index=index,
        place=place,
        location=location,
        region=region,
        zone=location if place.zonal else "",
        gpu=gpu,
        gpu_count=gpu_count,
        image=locked.image,
        image_id=locked.image_id,
        image_about=locked.image_about,
        price=price,
        refusal=refusal,
        opt_in=record is not None and record.opt_in,
        elsewhere=tuple(code for code in provider.offered_in(place.instance_type, gpu) if code != region),
        secure_boot=signed and provider.secure_boot.available,
    )


def _money_refusal(limits: Limits, place: PlaceBase, price: Price | None, lines: Mapping[str, int], unpriced: str) -> Refusal | None:
    """The refusal of a place whose price is over the limit, or not known to be within it while the profile does not accept that."""
    limit = limits.price_per_hour_usd
    if price and price.usd_per_hour > limit:
        least = "" if price.whole else "at least "
        line = f" (line {lines[_LIMIT]})" if _LIMIT in lines else ""
        message = f"{least}{price.usd_per_hour:.3f} USD/h is over {_LIMIT} {limit:.2f}{line}"
        return Refusal(RefusalKind.OVER_LIMIT, message, f"raise {_LIMIT}, or remove the place")
    if (price and price.whole) or limits.unknown_price == "allow":
        return None
    accept = "`unknown_price: allow` under limits accepts an unknown price"
    if place.market == "spot":
        return Refusal(RefusalKind.PRICE_UNKNOWN, "the price of spot machines changes by the hour, so the limit cannot be kept", accept)
    if unpriced:
        return Refusal(RefusalKind.PRICE_UNKNOWN, f"{unpriced}, so the limit cannot be kept", accept)
    message = "its price is not in the catalog, so the limit cannot be kept"
    if price:
        message = f"the price of its {' and '.join(price.missing)} is not in the catalog, so the limit cannot be kept"
    return Refusal(RefusalKind.PRICE_UNKNOWN, message, f"{clouds.provider(place.cloud).price_hint}; {accept}")


def draft_order(profile: Profile, profile_sha256: str, name: str, place: PlannedPlace) -> Order:
    """The order of a place's first attempt, with placeholders for the values of a launch. It is never launched."""
    return order(
        profile,
        profile_sha256,
        place,
        name=name,
        launch_id=LAUNCH_ID,
        public_key=PUBLIC_KEY,
        deadline=ONCE.isoformat(),
        zone=place.zone,
        host_key=HOST_KEY,
    )


def order(
    profile: Profile,
    profile_sha256: str,
    place: PlannedPlace,
    *,
    name: str,
    launch_id: str,
    public_key: str,
    deadline: str,
    zone: str = "",
    first: int = 1,
    count: int = 1,
    minimum: int = 1,
    whole_count: int = 1,
    own_subnet: bool = True,
    host_key: str = "",
    baked: str = "",
    begins_early: bool = True,
) -> Order:
    """The order of one attempt: the same arguments give the same order.

    `deadline` is ISO 8601 in UTC. `whole_count` is the number of machines of the whole launch. `own_subnet` is false in the embedded cloud,
    which has none of the user's. `host_key` counts where machines are given their first one. `begins_early` is false for a member of a
    fleet, which begins with its bundle, and in the embedded cloud, where no index is reached. Others are as in `Order`.
    """
    data = profile.disks.data
    return Order(
        name=name,
        launch_id=launch_id,
        instance_type=place.place.instance_type,
        gpu=place.gpu,
        gpu_count=place.gpu_count,
        market=place.place.market,
        os=(profile.os.name, profile.os.version),
        root_gb=profile.disks.root.size_gb,
        volume_gb=data.size_gb if data else None,
        instance_store=data is not None and data.source == "instance-store",
        ssh_from=profile.network.opens,
        public_key=public_key,
        deadline=dt.datetime.fromisoformat(deadline),
        tags=_tags(profile, profile_sha256, name=name, launch_id=launch_id, deadline=deadline, whole_count=whole_count, first=first),
        image_id=place.image_id,
        zone=zone,
        count=count,
        minimum=minimum,
        first=first,
        subnet=(profile.network.subnet or "") if own_subnet else "",
        public_address=profile.network.address == "public",
        secure_boot=place.secure_boot,
        spot_limit_usd=spot_limit(profile, place.place, place.region),
        place=place.place,
        host_key=host_key if clouds.provider(place.cloud).first_key.given else "",
        baked=baked,
        downloads=place.downloads if begins_early and not baked else None,
    )


def _tags(
    profile: Profile, profile_sha256: str, *, name: str, launch_id: str, deadline: str, whole_count: int, first: int
) -> dict[str, str]:
    """What is put on everything that an attempt makes."""
    return profile.tags | {
        NAME_TAG: name,
        LAUNCH_TAG: launch_id,
        PROFILE_TAG: profile.name,
        PROFILE_DIGEST_TAG: profile_sha256,
        OWNER_TAG: profile.owner.email,
        DEADLINE_TAG: deadline,
        COUNT_TAG: str(whole_count),
        FIRST_TAG: str(first),
    }


def _door(profile: Profile, network: str) -> PlannedDoor:
    if profile.network.way is not None:
        return PlannedDoor("way", network, profile.network.way)
    return PlannedDoor("caller" if network == "caller" else "network", network)


def _calls(profile: Profile, profile_sha256: str, name: str, place: PlannedPlace) -> list[PlannedCall]:
    words = f"<launch + {profile.limits.deadline_h} h>"
    planned = clouds.provider(place.cloud).calls(draft_order(profile, profile_sha256, name, place), place.region)
    return [replace(call, parameters=in_words(call.parameters, words)) for call in planned]

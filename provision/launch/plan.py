"""The plan: everything that follows from a profile and its lock before a cloud is contacted.

There is one plan. `plan` prints it, `up` executes it within its ceiling, `review` shows it, `policy` judges it, `render` writes it in other
tools' languages. It holds values and kinds; text for people is made where it is printed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

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
from provision.clouds.forms import LATE, TIMER
from provision.clouds.offline import PlaceBase
from provision.clouds.terms import Grant, PlannedCall, Price, Refusal, RefusalKind, Safeguard, Way
from provision.profile import load
from provision.profile.locked import Lock, LockedPlace
from provision.profile.model import DataDisk, Limits, Profile

DiskKind = Literal["root", "volume", "instance-store"]
DoorKind = Literal["caller", "way", "network"]
Sacrifice = Literal["counters-open"]
# What a plan writes where only the launch decides.
LAUNCH_ID: Final = "<launch>"
PUBLIC_KEY: Final = "<the public key that gpuprov makes for this machine>"
_ONCE: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)  # a moment that stands for the deadline in a request; it is replaced by words


@dataclass(frozen=True, slots=True)
class PlannedPlace:
    """One location of one place of the profile, in the order in which they are tried.

    Attributes:
        index: of the place in the profile.
        location: the region or zone, as the profile names it.
        zone: empty where the cloud chooses.
        gpu, gpu_count: what a machine there has.
        image, image_id: how the image is found, and its id where the lock has one.
        price: on demand; None when nothing of it is known, as for spot, whose price moves.
        refusal: why it would be passed over; None when it would be tried.
        opt_in: whether the region must be enabled in the account once.
        elsewhere: the other regions that have the type.
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

    @property
    def cloud(self) -> str:
        """The cloud's name."""
        return self.place.cloud

    @property
    def whole_price_usd(self) -> float | None:
        """US dollars an hour for everything that the price covers; None when a part of it is not known."""
        return self.price.usd_per_hour if self.price and self.price.whole else None

    def __str__(self) -> str:
        return f"{self.place.instance_type} in {self.region} ({self.place.market})"


@dataclass(frozen=True, slots=True)
class PlannedDisk:
    """A disk of each machine; `size_gb` is None where the machine type fixes it."""

    kind: DiskKind
    size_gb: int | None
    mount: str
    filesystem: str


@dataclass(frozen=True, slots=True)
class PlannedDoor:
    """A network that may open a connection to port 22: the caller's address, the range of a way in, or one that the profile names."""

    kind: DoorKind
    network: str
    way: Way | None = None


@dataclass(frozen=True, slots=True)
class PlannedPermissions:
    """What one cloud must allow: the actions, the smallest policy document where the cloud has such a thing, and a note."""

    cloud: str
    actions: tuple[str, ...]
    document: dict[str, Any] | None
    note: str


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a launch costs at most, in US dollars.

    Attributes:
        limit_per_hour, limit_to_deadline: of the profile.
        to_deadline: what can be spent; None while a place that would be tried has no known whole price, or no place would be tried.
        lowest_per_hour, highest_per_hour: over the places that would be tried and whose whole price is known.
        unknown_places: places that would be tried at an unknown price, because the profile allows it.
    """

    limit_per_hour: float
    limit_to_deadline: float
    to_deadline: float | None
    lowest_per_hour: float | None
    highest_per_hour: float | None
    unknown_places: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be made of a profile under a name.

    Attributes:
        places: in the order in which they are tried.
        disks, doors: of each machine.
        safeguards: by cloud, what its client asks for whatever the profile says.
        sacrifices: what the profile gives up.
        permissions, calls: by cloud; the calls are those of the first place that would be tried there.
        tags: what is put on everything that is made.
        withdrawn: (cloud, type, day) of the machine types with this GPU that can no longer be launched anywhere.
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

    @property
    def tried(self) -> list[PlannedPlace]:
        """The places that nothing speaks against."""
        return [place for place in self.places if place.refusal is None]

    @property
    def image_gaps(self) -> set[str]:
        """What the lock says it does not know about images."""
        os = (self.profile.os.name, self.profile.os.version)
        return {clouds.provider(place.cloud).image_gap(place.region, os) for place in self.places}

    @property
    def ceiling(self) -> Ceiling:
        """What it costs at most."""
        prices = [place.whole_price_usd for place in self.tried]
        known = [price for price in prices if price is not None]
        limit, hours = self.profile.limits.price_per_hour_usd, self.profile.limits.deadline_h
        whole = round(limit * hours, 2)
        ceiling = whole if prices and len(known) == len(prices) else None
        return Ceiling(limit, whole, ceiling, min(known, default=None), max(known, default=None), len(prices) - len(known))


def plan(profile: Profile, lock: Lock, name: str | None = None) -> Plan:
    """Compute the plan. No cloud is contacted.

    Args:
        profile: what is asked for.
        lock: what it was resolved to.
        name: what the machine would be called; the profile's name by default.
    """
    sha256, name = load.digest(profile), name or profile.name
    places = tuple(_places(profile, lock))
    first = {cloud: next((p for p in places if p.cloud == cloud and p.refusal is None), None) for cloud in _clouds(profile)}
    draft = [draft_order(profile, sha256, name, place) for place in places]
    calls = [call for cloud, place in first.items() if place for call in _calls(profile, sha256, name, place)]
    disks = [PlannedDisk("root", profile.disks.root.size_gb, "/", ""), *_data_disks(profile.disks.data)]
    return Plan(
        profile=profile,
        profile_sha256=sha256,
        lock=lock,
        name=name,
        places=places,
        disks=tuple(disks),
        doors=tuple(_door(profile, network) for network in profile.network.opens),
        safeguards=tuple((cloud, guard) for cloud in _clouds(profile) for guard in clouds.provider(cloud).safeguards),
        sacrifices=("counters-open",) if profile.gpu.counters == "all-users" else (),
        permissions=tuple(_permissions(profile, name, places, draft)),
        calls=tuple(calls),
        tags=tuple(sorted({**draft[0].tags, DEADLINE_TAG: _deadline_words(profile)}.items())),
        withdrawn=tuple((cloud, *record) for cloud in clouds.CLOUDS for record in clouds.provider(cloud).withdrawn_with(profile.gpu.model)),
    )


def _clouds(profile: Profile) -> list[str]:
    return list(dict.fromkeys(place.cloud for place in profile.places))


def _places(profile: Profile, lock: Lock) -> Iterator[PlannedPlace]:
    locked = {(p.cloud, p.region, p.instance_type, p.market): p for p in lock.places}
    for index, place in enumerate(profile.places):
        for location in place.locations:
            yield _place(profile, index, location, locked[place.cloud, location, place.instance_type, place.market])


def _place(profile: Profile, index: int, location: str, locked: LockedPlace) -> PlannedPlace:
    place = profile.places[index]
    provider, region = clouds.provider(place.cloud), place.region_of(location)
    gpu, gpu_count = place.gpus(profile.gpu.model, profile.gpu.count)
    price = provider.price(place.instance_type, region, gpu, gpu_count) if place.market == "on-demand" else None
    refusal = Refusal(RefusalKind.LOCKED, locked.not_available) if locked.not_available else _money_refusal(profile.limits, place, price)
    known = provider.regions().get(region)
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
        price=price,
        refusal=refusal,
        opt_in=known is not None and known.opt_in,
        elsewhere=tuple(code for code in provider.offered_in(place.instance_type, gpu) if code != region),
    )


def _money_refusal(limits: Limits, place: PlaceBase, price: Price | None) -> Refusal | None:
    """The ceiling fails closed: what is not known to be within it is refused, unless the profile accepts an unknown price."""
    limit = limits.price_per_hour_usd
    if price and price.usd_per_hour > limit:
        least = "" if price.whole else "at least "
        message = f"costs {least}{price.usd_per_hour:.3f} USD an hour, over the profile's limit of {limit:.2f}"
        return Refusal(RefusalKind.OVER_LIMIT, message, "raise limits.price_per_hour_usd, or remove the place")
    if (price and price.whole) or limits.unknown_price == "allow":
        return None
    accept = "`unknown_price: allow` under limits accepts an unknown price"
    if place.market == "spot":
        return Refusal(RefusalKind.PRICE_UNKNOWN, "the price of spot machines changes by the hour, so the limit cannot be kept", accept)
    message = "its price is not in the catalog, so the limit cannot be kept"
    if price:
        message = f"the price of its {' and '.join(price.missing)} is not in the catalog, so the limit cannot be kept"
    return Refusal(RefusalKind.PRICE_UNKNOWN, message, f"{clouds.provider(place.cloud).price_hint}; {accept}")


def draft_order(profile: Profile, profile_sha256: str, name: str, place: PlannedPlace) -> Order:
    """The order of a place's first attempt, with words where only the launch decides. It is never launched."""
    return order(
        profile, profile_sha256, place, name=name, launch_id=LAUNCH_ID, public_key=PUBLIC_KEY, deadline=_ONCE.isoformat(), zone=place.zone
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
) -> Order:
    """The order of one attempt: the same arguments give the same order.

    Args:
        profile: what is asked for.
        profile_sha256: its digest.
        place: where.
        name: what the launch is called.
        launch_id: hexadecimal.
        public_key: the OpenSSH public key that may log in first.
        deadline: ISO 8601, UTC.
        zone: the only zone that is tried; empty lets the cloud choose.
        first: the index of the first machine of this attempt, from 1.
        count: how many this attempt is for.
        minimum: how many it must get.
        whole_count: how many machines the whole launch is for.
        own_subnet: false in the embedded cloud, which has the subnets that an account begins with and none of the user's.
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
    )


def _tags(
    profile: Profile, profile_sha256: str, *, name: str, launch_id: str, deadline: str, whole_count: int, first: int
) -> dict[str, str]:
    """What is put on everything that an attempt makes."""
    return {
        NAME_TAG: name,
        LAUNCH_TAG: launch_id,
        PROFILE_TAG: profile.name,
        PROFILE_DIGEST_TAG: profile_sha256,
        OWNER_TAG: profile.owner.email,
        DEADLINE_TAG: deadline,
        COUNT_TAG: str(whole_count),
        FIRST_TAG: str(first),
    }


def _data_disks(disk: DataDisk | None) -> list[PlannedDisk]:
    return [PlannedDisk(disk.source, disk.size_gb, disk.mount, disk.filesystem)] if disk else []


def _door(profile: Profile, network: str) -> PlannedDoor:
    if profile.network.way is not None:
        return PlannedDoor("way", network, profile.network.way)
    return PlannedDoor("caller" if network == "caller" else "network", network)


def _deadline_words(profile: Profile) -> str:
    return f"<launch + {profile.limits.deadline_h} h>"


def _permissions(profile: Profile, name: str, places: tuple[PlannedPlace, ...], draft: list[Order]) -> Iterator[PlannedPermissions]:
    way = profile.network.way
    for cloud in _clouds(profile):
        provider = clouds.provider(cloud)
        mine = [place for place in places if place.cloud == cloud]
        actions = {
            action for place, each in zip(places, draft, strict=True) if place.cloud == cloud for action in provider.permissions(each)
        }
        grant = Grant(
            name=name,
            regions=tuple(dict.fromkeys(place.region for place in mine)),
            instance_types=tuple(sorted({place.place.instance_type for place in mine})),
            spot=any(place.place.market == "spot" for place in mine),
            subnet=profile.network.subnet or "",
        )
        yield PlannedPermissions(cloud, tuple(sorted(actions | set(way.permissions if way else ()))), *provider.policy(grant))


def _calls(profile: Profile, profile_sha256: str, name: str, place: PlannedPlace) -> list[PlannedCall]:
    each = draft_order(profile, profile_sha256, name, place)
    each = replace(each, tags={**each.tags, DEADLINE_TAG: _deadline_words(profile)})
    planned = clouds.provider(place.cloud).calls(each, place.region)
    return [replace(call, parameters=_in_words(call.parameters, _deadline_words(profile))) for call in planned]


def _in_words(value: Any, words: str) -> Any:
    """A request with words in place of the moment that stands for the deadline."""
    if isinstance(value, str):
        for moment, text in ((_ONCE, words), (_ONCE + LATE, f"{words[:-1]} and {LATE.seconds // 60} min>")):
            value = value.replace(moment.strftime(TIMER), text).replace(moment.isoformat(timespec="seconds"), text)
        return value
    if isinstance(value, dict):
        return {key: _in_words(item, words) for key, item in value.items()}
    return [_in_words(item, words) for item in value] if isinstance(value, list | tuple) else value

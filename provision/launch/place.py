"""Where a launch is tried: the profile's places in their order, a region at a time, and the zones of a region one after the other.

What the catalogue knows against a place is said before any call. What a cloud answers decides by its class what happens next: no
capacity goes on to the next zone, no quota to the next region, everything else stops.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from provision.catalog import places as catalogue
from provision.catalog import read
from provision.clouds import CLOUDS
from provision.clouds import base as clouds
from provision.errors import CapacityError, CloudUnsupportedError, PriceOverLimitError, QuotaExceededError, UsageError
from provision.launch.journal import Pending, Record
from provision.profile.locked import Lock, LockedPlace
from provision.profile.model import AwsPlace, Place, Profile

__all__ = ["Attempt", "Option", "check_prices", "opt_in", "options", "order_of", "price_of", "region_of", "tried_zones"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to launch: where, and what came of it.

    Attributes:
        zone: empty where the cloud chose.
        outcome: `launched`, `adopted`, `skipped` (no call was made), or the code of the error.
        said: the machines' ids, or what the cloud or the catalogue said.
        asked: how many machines.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    market: str
    outcome: str
    said: str
    seconds: float
    asked: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class Option:
    """One place of the profile in one region.

    Attributes:
        index: of the place in the profile.
        zones: those that the profile names, in its order; empty where the cloud chooses among all of the region.
        image_id: the lock's image.
        against: why nothing can be launched there, as far as the catalogue knows; empty when it would be tried.
    """

    index: int
    place: Place
    region: str
    zones: tuple[str, ...] = ()
    image_id: str | None = None
    against: str = ""

    @property
    def cloud(self) -> str:
        """The cloud's name."""
        return self.place.cloud

    def __str__(self) -> str:
        return f"{self.place.instance_type} in {self.region} ({self.place.market})"

    def attempt(self, outcome: str, said: str, seconds: float = 0.0, *, zone: str = "", asked: int = 1) -> Attempt:
        """A row about this option."""
        return Attempt(self.cloud, self.region, zone, self.place.instance_type, self.place.market, outcome, said, seconds, asked)


def options(profile: Profile, lock: Lock, only: str | None = None) -> list[Option]:
    """Every place of the profile, region by region, in its order; what is known against one stands in it.

    Args:
        profile: with its places.
        lock: says what is known against each.
        only: the one cloud whose places count.

    Raises:
        UsageError: the profile has no place on it.
    """
    found: list[Option] = []
    if only is not None and only not in {place.cloud for place in profile.places}:
        msg = f"profile {profile.name} has no place on {only}"
        others = " or ".join(dict.fromkeys(place.cloud for place in profile.places))
        raise UsageError(msg, hint=f"it has places on {others}; add one on {only}, or leave that out")
    for index, place in enumerate(profile.places):
        if only not in {None, place.cloud}:
            continue
        named = [_locked(lock, place, where) for where in (place.regions if isinstance(place, AwsPlace) else place.zones)]
        if place.cloud not in CLOUDS:
            against = f"launching on {place.cloud} is not part of this release"
            found += [Option(index, place, region_of(place, locked.region), against=against) for locked in named]
        elif isinstance(place, AwsPlace):
            found += [Option(index, place, locked.region, (), locked.image_id, locked.not_available) for locked in named]
        else:
            found += _by_region(index, place, named)
    return found


def _by_region(index: int, place: Place, named: Sequence[LockedPlace]) -> Iterator[Option]:
    """A place that names zones: those of one region are one option, and each that cannot be had is one that says so."""
    groups: dict[str, list[LockedPlace]] = {}
    for locked in named:
        groups.setdefault(region_of(place, locked.region), []).append(locked)
    for region, members in groups.items():
        for locked in members:
            if locked.not_available:
                yield Option(index, place, region, (locked.region,), locked.image_id, locked.not_available)
        able = [locked for locked in members if not locked.not_available]
        if able:
            yield Option(index, place, region, tuple(locked.region for locked in able), able[0].image_id)


def region_of(place: Place, where: str) -> str:
    """The region of what a place names: a region, or a zone of one."""
    return where if isinstance(place, AwsPlace) else where.rpartition("-")[0]


def _locked(lock: Lock, place: Place, where: str) -> LockedPlace:
    wanted = (place.cloud, where, place.instance_type, place.market)
    return next(p for p in lock.places if (p.cloud, p.region, p.instance_type, p.market) == wanted)


def price_of(profile: Profile, place: Place, region: str) -> catalogue.Price | None:
    """The catalogue's price of one machine of a place; None where it has none, as for spot, whose price moves."""
    if place.market == "spot":
        return None
    gpu, count = (profile.gpu.model, profile.gpu.count) if isinstance(place, AwsPlace) else (place.gpu, place.gpu_count)
    if isinstance(place, AwsPlace):
        return catalogue.aws_price(place.instance_type, region)
    offered = catalogue.offers(gpu=gpu, cloud=place.cloud)
    offer = next((o for o in offered if (o.instance_type, o.gpus) == (place.instance_type, count)), None)
    return catalogue.price_of(offer, region) if offer else None


def check_prices(profile: Profile, found: Iterable[Option]) -> None:
    """Refuse the first place whose known price is over the profile's limit, before anything is asked of a cloud.

    Raises:
        PriceOverLimitError: there is one.
        CloudUnsupportedError: nothing can be launched at any place.
    """
    listed = list(found)
    able = [option for option in listed if not option.against]
    if not able:
        reasons = "; ".join(dict.fromkeys(f"{o.region} {o.place.instance_type}: {o.against}" for o in listed))
        msg = f"no place of profile {profile.name} can be launched in: {reasons}"
        raise CloudUnsupportedError(msg, hint=f"add a place on {' or '.join(CLOUDS)} that `gpuprov catalog instances` lists")
    for option in able:
        price = price_of(profile, option.place, option.region)
        if price and price.usd_per_hour > profile.limits.price_per_hour_usd:
            what = f"{option.place.instance_type} in {option.region}"
            msg = f"{what} costs {price.usd_per_hour} USD an hour, over the limit of {profile.limits.price_per_hour_usd}"
            raise PriceOverLimitError(msg, hint="raise limits.price_per_hour_usd or remove the place")


def opt_in(option: Option) -> bool:
    """Whether the region must be enabled in the account once."""
    known = read.aws().regions.codes.get(option.region) if option.cloud == "aws" else None
    return known is not None and known.opt_in


def order_of(record: Record, profile: Profile, option: Option, public_key: str, pending: Pending) -> clouds.Order:
    """The order of one attempt: the same for the same attempt of the same record."""
    data, place = profile.disks.data, option.place
    gpu, gpus = (profile.gpu.model, profile.gpu.count) if isinstance(place, AwsPlace) else (place.gpu, place.gpu_count)
    return clouds.Order(
        name=record.name,
        launch_id=record.launch_id,
        instance_type=place.instance_type,
        gpu=gpu,
        gpu_count=gpus,
        market=place.market,
        os=(profile.os.name, profile.os.version),
        root_gb=profile.disks.root.size_gb,
        volume_gb=data.size_gb if data else None,
        instance_store=data is not None and data.source == "instance-store",
        ssh_from=profile.network.opens,
        public_key=public_key,
        deadline=dt.datetime.fromisoformat(record.deadline),
        tags={
            clouds.NAME_TAG: record.name,
            clouds.LAUNCH_TAG: record.launch_id,
            clouds.PROFILE_TAG: profile.name,
            clouds.PROFILE_DIGEST_TAG: record.profile_digest,
            clouds.OWNER_TAG: profile.owner.email,
            clouds.DEADLINE_TAG: record.deadline,
            clouds.COUNT_TAG: str(record.count),
            clouds.FIRST_TAG: str(pending.first),
        },
        image_id=option.image_id,
        zone=pending.zone,
        count=pending.count,
        minimum=pending.minimum,
        first=pending.first,
        # The embedded cloud has the subnets that an account begins with, and none of the user's.
        subnet=profile.network.subnet if profile.network.subnet and not record.rehearsal else "",
        public_address=profile.network.address == "public",
    )


def tried_zones(
    option: Option, *, ask: Callable[[str], int], all_zones: Callable[[], list[str]]
) -> CapacityError | QuotaExceededError | None:
    """Try one option: no zone first where the cloud chooses, then zone by zone, those that the cloud named first, each once.

    Args:
        option: the place and region.
        ask: launches in a zone (or with none) and returns how many machines are still missing.
        all_zones: the zones of the region that have the type, asked for only when they are needed.

    Returns:
        None when no machine is missing any more; otherwise the last refusal, or a CapacityError of our own when every zone gave some
        and still too few.
    """
    queue, tried = list(option.zones) or [""], set[str]()
    last: CapacityError | QuotaExceededError | None = None
    while queue:
        zone = queue.pop(0)
        tried.add(zone)
        named: Sequence[str] = ()
        try:
            if ask(zone) == 0:
                return None
        except QuotaExceededError as error:
            return error  # of the region: another zone cannot help
        except CapacityError as error:
            last, named = error, error.elsewhere
        if not zone:
            queue = all_zones()
        wanted = [z for z in named if not option.zones or z in option.zones]  # the profile's zones are what was signed
        queue = [z for z in dict.fromkeys([*wanted, *queue]) if z not in tried]
    return last or CapacityError(f"too few machines of {option}", hint="try again later, or add a place to the profile")

"""The price of one machine of a profile at a place: its type with the GPUs, its disks and its address."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from provision import clouds
from provision.clouds.offline import PlaceBase
from provision.clouds.terms import Extras, Price
from provision.profile.model import Profile

if TYPE_CHECKING:
    from provision.launch.plan import PlannedPlace


def extras(profile: Profile) -> Extras:
    """What is billed with each machine of a profile."""
    data = profile.disks.data
    volume_gb = (data.size_gb or 0) if data else 0
    local_disk = data is not None and data.source == "instance-store"
    return Extras(profile.disks.root.size_gb + volume_gb, local_disk, profile.network.address == "public", volume_gb)


def whole_price(profile: Profile, place: PlaceBase, region: str) -> Price | None:
    """The price of a machine with all that is billed with it; None when nothing of the machine itself is known."""
    if place.market == "spot":
        provider = clouds.provider(place.cloud)
        spot = provider.spot_price(place.instance_type, region)
        return spot.plus(provider.extras_price(place.instance_type, region, extras(profile))) if spot else None
    return priced(profile, place.cloud, place.instance_type, region, place.gpus(profile.gpu.model, profile.gpu.count))


def priced(profile: Profile, cloud: str, instance_type: str, region: str, gpus: tuple[str, int]) -> Price | None:
    """The same for any machine type of a cloud, with this profile's disks and address."""
    provider = clouds.provider(cloud)
    machine = provider.price(instance_type, region, *gpus)
    return machine.plus(provider.extras_price(instance_type, region, extras(profile))) if machine else None


def spot_limit(profile: Profile, place: PlaceBase, region: str) -> float | None:
    """What a spot machine alone may cost an hour within the profile's limit: the limit less disks and address. None on demand."""
    if place.market != "spot":
        return None
    billed = clouds.provider(place.cloud).extras_price(place.instance_type, region, extras(profile)).usd_per_hour
    return round(max(profile.limits.price_per_hour_usd - billed, 0.0), 4)


def cheapest_first(places: Iterable[PlannedPlace]) -> tuple[PlannedPlace, ...]:
    """The same places by price, those without a known whole price last; places of one price stay in the profile's order."""
    return tuple(sorted(places, key=lambda place: math.inf if place.whole_price_usd is None else place.whole_price_usd))


def order_in_words(places: Iterable[PlannedPlace]) -> str:
    """The order of places that can be launched in, for people: each region once, with its price."""
    words = (
        f"{place.region} {'at an unknown price' if place.whole_price_usd is None else f'{place.whole_price_usd:.3f}'}" for place in places
    )
    return ", ".join(dict.fromkeys(words))

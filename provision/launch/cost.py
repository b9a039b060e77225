"""The cost of a machine so far, and from now to its deadline, by the catalog's price of its place."""

import datetime as dt

from provision import clouds
from provision.clouds.base import Instance, parsed_deadline
from provision.clouds.terms import Price
from provision.errors import ProfileInvalidError
from provision.launch.fleets import FleetRecord
from provision.launch.journal import Record
from provision.launch.price import priced, whole_price
from provision.profile.locked import recorded
from provision.profile.model import Profile


def hourly(instance: Instance, profile: Profile | None) -> Price | None:
    """The catalog's price of a machine per hour, with the profile's disks and address where it is known.

    None for spot, whose price changes, and where the catalog has no price.
    """
    if instance.market == "spot" or instance.cloud not in clouds.CLOUDS:
        return None
    gpu, count = "", 1
    for place in profile.places if profile else ():
        here = {place.region_of(location) for location in place.locations}
        if profile and (instance.cloud, instance.type) == (place.cloud, place.instance_type) and instance.region in here:
            gpu, count = place.gpus(profile.gpu.model, profile.gpu.count)
            break
    if profile:
        return priced(profile, instance.cloud, instance.type, instance.region, (gpu, count))
    return clouds.provider(instance.cloud).price(instance.type, instance.region, gpu, count)


def profile_of(record: Record | FleetRecord) -> Profile | None:
    """The profile of a launch; None where this release refuses it."""
    try:
        return recorded(Profile, record.profile, record.name)
    except ProfileInvalidError:
        return None


def hourly_of(record: Record) -> float | None:
    """US dollars an hour for the machines of a launch, or those that its open attempt may have made; None where a price is not known."""
    profile, pending = profile_of(record), record.pending
    if profile is None:
        return None
    where = [(machine.cloud, machine.region) for machine in record.machines]
    if not where and pending and pending.place in range(len(profile.places)):
        where = [(profile.places[pending.place].cloud, pending.region)] * pending.count
    prices = [_price_at(profile, record, *pair) for pair in where]
    known = [price for price in prices if price is not None]
    return sum(known) if known and len(known) == len(prices) else None


def _price_at(profile: Profile, record: Record, cloud: str, region: str) -> float | None:
    """The price at the place of the attempt in a region, or else at the profile's first place there."""
    tried = {attempt.place for attempt in (*record.had, record.pending) if attempt and attempt.region == region}
    for number, place in enumerate(profile.places):
        here = place.cloud == cloud and region in {place.region_of(location) for location in place.locations}
        if here and place.market == "on-demand" and (not tried or number in tried):
            price = whole_price(profile, place, region)
            return price.usd_per_hour if price else None
    return None


def since(instance: Instance, price: Price | None, now: dt.datetime) -> float | None:
    """US dollars since the launch, an upper bound if the machine was stopped in between; None where the price is not known."""
    started = parsed_deadline(instance.launched_at)
    return round(price.usd_per_hour * max(0.0, (now - started).total_seconds()) / 3600, 2) if price and started else None


def until(price: Price | None, deadline: dt.datetime, now: dt.datetime) -> float | None:
    """US dollars from now to a deadline."""
    return round(price.usd_per_hour * max(0.0, (deadline - now).total_seconds()) / 3600, 2) if price else None


def until_end(instance: Instance, price: Price | None, now: dt.datetime) -> float | None:
    """US dollars from now until a machine ends itself; None where its price or its end is not known."""
    ends = parsed_deadline(instance.deadline)
    return until(price, ends, now) if ends else None

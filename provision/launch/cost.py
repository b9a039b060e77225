"""The cost of a machine so far, and from now to its deadline, by the catalog's price of its place."""

import datetime as dt

from provision import clouds
from provision.clouds.base import Instance
from provision.clouds.terms import Price
from provision.profile.model import Profile


def hourly(instance: Instance, profile: Profile | None) -> Price | None:
    """The catalog's price of a machine per hour; None for spot, whose price changes, and where the catalog has no price."""
    if instance.market == "spot" or instance.cloud not in clouds.CLOUDS:
        return None
    gpu, count = "", 1
    for place in profile.places if profile else ():
        here = {place.region_of(location) for location in place.locations}
        if profile and (instance.cloud, instance.type) == (place.cloud, place.instance_type) and instance.region in here:
            gpu, count = place.gpus(profile.gpu.model, profile.gpu.count)
            break
    return clouds.provider(instance.cloud).price(instance.type, instance.region, gpu, count)


def since(instance: Instance, price: Price | None, now: dt.datetime) -> float | None:
    """US dollars since the launch, an upper bound if the machine was stopped in between; None where the price is not known."""
    started = _time(instance.launched_at)
    return round(price.usd_per_hour * max(0.0, (now - started).total_seconds()) / 3600, 2) if price and started else None


def until(price: Price | None, deadline: dt.datetime, now: dt.datetime) -> float | None:
    """US dollars from now to a deadline."""
    return round(price.usd_per_hour * max(0.0, (deadline - now).total_seconds()) / 3600, 2) if price else None


def _time(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None

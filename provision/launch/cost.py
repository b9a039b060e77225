"""What a machine has cost so far, and would cost until its deadline: by the catalogue's price of its place."""

from __future__ import annotations

import datetime as dt

from provision.catalog.places import Price, aws_price
from provision.clouds import base as clouds
from provision.launch.place import price_of, region_of
from provision.profile.model import AwsPlace, Profile

__all__ = ["hourly", "since", "until"]


def hourly(instance: clouds.Instance, profile: Profile | None) -> Price | None:
    """The catalogue's price of a machine an hour, or None: for spot, whose price moves, and where the catalogue has none."""
    if instance.market == "spot":
        return None
    for place in profile.places if profile else ():
        named = place.regions if isinstance(place, AwsPlace) else place.zones
        here = (instance.cloud, instance.type) == (place.cloud, place.instance_type)
        if here and instance.region in {region_of(place, where) for where in named} and profile:
            return price_of(profile, place, instance.region)
    return aws_price(instance.type, instance.region) if instance.cloud == "aws" else None


def since(instance: clouds.Instance, price: Price | None, now: dt.datetime) -> float | None:
    """US dollars since the launch; at most, if it was stopped in between. None where the price is not known."""
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

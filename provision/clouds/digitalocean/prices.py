"""What DigitalOcean bills: a size with its GPUs and its disks; volumes beside it. An address costs nothing."""

from typing import Final

from provision.clouds.digitalocean import data
from provision.clouds.terms import Extras, Price, PricePart

HOURS_PER_MONTH: Final = 730  # 8,760 hours of a year in twelve parts


def spot_price(instance_type: str, region: str) -> Price | None:  # noqa: ARG001 - there is no spot market here
    """Not known."""
    return None


def price(instance_type: str, region: str, gpu: str, count: int) -> Price | None:  # noqa: ARG001 - a size has one price everywhere
    """The on-demand price of a size with its GPUs."""
    known = data.price_of(instance_type)
    return Price((PricePart("machine", *known),)) if known else None


def extras_price(instance_type: str, region: str, extras: Extras) -> Price:  # noqa: ARG001 - volumes have one price everywhere
    """The data volume. Boot and scratch disks and the address are part of the size's price."""
    rate = data.digitalocean().volume_price
    if not extras.volume_gb or extras.local_disk:
        return Price(())
    usd = round(rate.usd_per_month * extras.volume_gb / HOURS_PER_MONTH, 6)
    return Price((PricePart(f"{extras.volume_gb} GB of volume", usd, rate.source),))

"""What EC2 bills: a machine, and with it gp3 volumes by the GB and each public IPv4 address."""

from typing import Final

from provision.clouds.aws import data
from provision.clouds.terms import Extras, Price, PricePart

HOURS_PER_MONTH: Final = 730  # as AWS's own calculator has it; a volume is billed by the second, at this rate or below it


def price(instance_type: str, region: str, gpu: str = "", count: int = 1) -> Price | None:  # noqa: ARG001 - the type fixes its GPUs
    """The on-demand price of an instance type in a region; it is always whole."""
    entry = data.prices().get((instance_type, region))
    return Price((PricePart("machine", *entry),)) if entry else None


def spot_price(instance_type: str, region: str) -> Price | None:
    """The spot price in the dearest zone of a region when a refresh asked; it is never whole, because the next hours are not known."""
    record = next((each for each in data.refreshed().spot if (each.instance_type, each.region) == (instance_type, region)), None)
    if record is None or not record.zones:
        return None
    part = PricePart(f"spot machine at {record.at:%F %R} UTC", max(record.zones.values()), "refreshed-prices")
    return Price((part,), missing=("next hours",))


def extras_price(instance_type: str, region: str, extras: Extras) -> Price:  # noqa: ARG001 - disks inside a type are part of its price
    """The volumes and the address of a machine; disks inside it cost nothing beside it."""
    parts, missing = [], []
    monthly = data.disk_price(region)
    if extras.network_gb and monthly:
        usd, source = monthly
        parts.append(PricePart(f"{extras.network_gb} GB of gp3", round(usd * extras.network_gb / HOURS_PER_MONTH, 6), source))
    elif extras.network_gb:
        missing.append("disks")
    if extras.public_address:
        address = data.aws().address_price
        parts.append(PricePart("public IPv4 address", address.usd_per_hour, address.source))
    return Price(tuple(parts), tuple(missing))

"""Capacity reservations, capacity blocks and placement groups of the embedded EC2, none of which moto has.

An account of the embedded cloud is new, and nobody has reserved anything in it. So whatever a request names exists and has room, unless the
settings say what there is.
"""

import datetime as dt
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.responses.spot_instances import SpotInstances

from provision.rehearsal.aws.offers import offering_zones
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse

_PLENTY: Final = 64
# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityBlockOfferings.html
_DAYS: Final = 14
_MOST_DAYS: Final = 182
_TARGET: Final = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"


def reservation(settings: AwsSettings, region: str, reservation_id: str, instance_type: str = "g4dn.xlarge") -> dict[str, Any]:
    """A reservation or block; its absence is refused as EC2 does.

    Args:
        settings: what there is.
        region: where it is looked for.
        reservation_id: its id.
        instance_type: what it is for where the settings say nothing about it.
    """
    named = settings.capacity_reservations
    if named is None:
        zones = offering_zones(region, instance_type)
        return {"instance_type": instance_type, "zone": zones[0], "total": _PLENTY, "free": _PLENTY, "state": "active"}
    if reservation_id not in named:
        refuse("InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{reservation_id}' does not exist")
    return named[reservation_id]


def narrowed(settings: AwsSettings, response: Any, region: str) -> str:
    """Refuse what a launch names and cannot use; the zone of its reservation, or nothing.

    Args:
        settings: what there is.
        response: moto's, which has the request's parameters.
        region: where the launch is.
    """
    group = response._get_param("Placement.GroupName")  # noqa: SLF001 - how moto's responses read their parameters
    if group and settings.placement_groups is not None and group not in settings.placement_groups:
        refuse("InvalidPlacementGroup.Unknown", f"The Placement Group '{group}' is unknown.")
    target = response._get_param(_TARGET)  # noqa: SLF001
    block = response._get_param("InstanceMarketOptions.MarketType") == "capacity-block"  # noqa: SLF001
    if not target:
        if block:
            refuse("InvalidParameterCombination", "A capacity block needs the target of a capacity reservation.")
        return ""
    instance_type = str(response._get_param("InstanceType"))  # noqa: SLF001
    row = reservation(settings, region, target, instance_type)
    if block != (row.get("kind", "capacity-block" if block else "default") == "capacity-block"):
        refuse("InvalidParameterCombination", f"{target} is of the other kind: a capacity block needs MarketType capacity-block.")
    zone = response._get_param("Placement.AvailabilityZone")  # noqa: SLF001
    if row["instance_type"] != instance_type or (zone and zone != row["zone"]):
        words = f"The attributes of {target} ({row['instance_type']} in {row['zone']}) do not match the request."
        refuse("InvalidParameterValue", words)
    if row["state"] != "active" or row["free"] < int(response._get_param("MinCount")):  # noqa: SLF001
        words = "The targeted Capacity Reservation does not have enough available instance capacity to fulfill your request."
        refuse("ReservationCapacityExceeded", words)
    return str(row["zone"])


def taken(settings: AwsSettings, reservation_id: str, number: int) -> None:
    """Count machines against a reservation."""
    if settings.capacity_reservations is not None and reservation_id in settings.capacity_reservations:
        settings.capacity_reservations[reservation_id]["free"] -= number


def target_of(response: Any) -> str:
    """The id of the reservation that a request names; empty where it names none."""
    return str(response._get_param(_TARGET) or "")  # noqa: SLF001


def patch(settings: AwsSettings) -> None:
    """Give moto's EC2 the calls that describe them."""

    @method_of(SpotInstances)
    def describe_capacity_reservations(self: Any) -> ActionResult:
        rows = []
        for reservation_id in self._get_param("CapacityReservationIds", []):
            row = reservation(settings, self.region, reservation_id)
            ends = {"EndDate": dt.datetime.fromisoformat(row["ends"]), "EndDateType": "limited"} if row.get("ends") else {}
            begins = {"StartDate": dt.datetime.fromisoformat(row["begins"])} if row.get("begins") else {}
            rows.append(
                {
                    "CapacityReservationId": reservation_id,
                    "InstanceType": row["instance_type"],
                    "AvailabilityZone": row["zone"],
                    "TotalInstanceCount": row["total"],
                    "AvailableInstanceCount": row["free"],
                    "State": row["state"],
                    "ReservationType": row.get("kind", "default"),
                    **begins,
                    **ends,
                }
            )
        return ActionResult({"CapacityReservations": rows})

    @method_of(SpotInstances)
    def describe_capacity_block_offerings(self: Any) -> ActionResult:
        """Two of them, a day apart; the later one is dearer. An account of the settings may be offered none."""
        hours = int(self._get_param("CapacityDurationHours") or 0)
        days, rest = divmod(hours, 24)
        if rest or not (1 <= days <= _DAYS or (days <= _MOST_DAYS and days % 7 == 0)):
            refuse("InvalidParameterValue", f"Value ({hours}) for parameter CapacityDurationHours is invalid.")
        instance_type, count = str(self._get_param("InstanceType")), int(self._get_param("InstanceCount") or 1)
        price = settings.block_prices.get(instance_type)
        zones = offering_zones(self.region, instance_type) if price is not None else []
        first = utcnow().replace(hour=11, minute=30, second=0, microsecond=0) + dt.timedelta(days=1)
        offered = [
            {
                "CapacityBlockOfferingId": f"cbo-{number:017x}",
                "InstanceType": instance_type,
                "AvailabilityZone": zones[0],
                "InstanceCount": count,
                "StartDate": first + dt.timedelta(days=number),
                "EndDate": first + dt.timedelta(days=number, hours=hours),
                "CapacityBlockDurationHours": hours,
                "UpfrontFee": f"{(price or 0) * count * hours * (1 + number / 10):.4f}",
                "CurrencyCode": "USD",
                "Tenancy": "default",
            }
            for number in range(2)
            if zones
        ]
        return ActionResult({"CapacityBlockOfferings": offered})

    @method_of(SpotInstances)
    def describe_placement_groups(self: Any) -> ActionResult:
        names = self._get_param("GroupNames", [])
        for unknown in [name for name in names if settings.placement_groups is not None and name not in settings.placement_groups][:1]:
            refuse("InvalidPlacementGroup.Unknown", f"The Placement Group '{unknown}' is unknown.")
        return ActionResult({"PlacementGroups": [{"GroupName": name, "State": "available", "Strategy": "cluster"} for name in names]})

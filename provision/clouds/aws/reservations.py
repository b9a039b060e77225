"""What EC2 says about the reservation, block or placement group that a place names."""

from typing import Any

from provision.clouds import base
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.capacity import AwsCapacity
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.aws.place import capacity_of
from provision.errors import CloudInvalidError


def zone_of(api: AwsRegionApi, order: base.Order) -> str:
    """The zone of the order's reservation or block, where its machines must be; empty, without a call, where it names none.

    Raises:
        CloudInvalidError: the account has no such reservation in the region, or it is over.
    """
    capacity = capacity_of(order)
    if capacity is None or capacity.reserved is None:
        return ""
    row = _reservation(api, capacity.reserved)
    if row["State"] != "active":
        msg = f"reservation {capacity.reserved} in {api.region} is {row['State']}, not active"
        raise CloudInvalidError(msg, hint="name another one under `capacity`, or wait until it begins")
    return str(row["AvailabilityZone"])


def examine(api: AwsRegionApi, order: base.Order, capacity: AwsCapacity) -> base.Answer:
    """Whether the reservation, block or placement group that the place names is there and has room."""
    if capacity.placement_group:
        with cloud_errors("ec2:DescribePlacementGroups", api.region):
            (group,) = api.ec2.describe_placement_groups(GroupNames=[capacity.placement_group])["PlacementGroups"]
        if group["State"] != "available":
            return base.Answer("capacity", holds=False, said=f"placement group {capacity.placement_group} is {group['State']}")
    if capacity.reserved is None:
        return base.Answer("capacity", holds=True, said=f"placement group {capacity.placement_group} is there")
    row = _reservation(api, capacity.reserved)
    free, kind = int(row["AvailableInstanceCount"]), row["InstanceType"]
    said = f"{capacity.reserved}: {row['State']}, {kind} in {row['AvailabilityZone']}, {free} of {row['TotalInstanceCount']} free"
    ends = row.get("EndDate")
    soon = ends is not None and ends < order.deadline
    said += f"; it ends at {ends:%F %R}, before the deadline" if soon else ""
    holds = row["State"] == "active" and kind == order.instance_type and free >= order.count and not soon
    return base.Answer("capacity", holds=holds, said=said)


def _reservation(api: AwsRegionApi, reservation: str) -> dict[str, Any]:
    with cloud_errors("ec2:DescribeCapacityReservations", api.region):
        (row,) = api.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"]
    return dict(row)

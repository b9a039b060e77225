"""What EC2 says about the reservation, block or placement group that a place names."""

import datetime as dt
import math
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.capacity import AwsCapacity
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.aws.place import capacity_of
from provision.errors import CloudInvalidError

OFFERINGS: Final = "ec2:DescribeCapacityBlockOfferings"
_CURRENCY: Final = "USD"
_DAYS: Final = 14
_MOST_DAYS: Final = 182


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


def block_price(api: AwsRegionApi, block: str) -> base.Answer:
    """What AWS asks today for a block like that one; what was paid for it itself, no call of AWS says."""
    row = _reservation(api, block)
    starts, ends, count = row.get("StartDate"), row.get("EndDate"), int(row["TotalInstanceCount"])
    if starts is None or ends is None:
        return base.Answer("block-price", holds=None, said=f"EC2 does not say for how long {block} is, so nothing can be compared with it")
    hours = block_hours(ends - starts)
    wanted = {"InstanceType": row["InstanceType"], "InstanceCount": count, "CapacityDurationHours": hours}
    with cloud_errors(OFFERINGS, api.region):
        pages = api.ec2.get_paginator("describe_capacity_block_offerings").paginate(**wanted)
        fees = [float(each["UpfrontFee"]) for page in pages for each in page["CapacityBlockOfferings"] if each["CurrencyCode"] == _CURRENCY]
    like = f"{count} x {row['InstanceType']} for {hours} h"
    if not fees:
        return base.Answer("block-price", holds=None, said=f"AWS offers no block like {block} ({like}) in {api.region} now")
    fee = min(fees)
    said = (
        f"{fee:,.2f} USD in advance for a block like {block} ({like}) now, which is {fee / count / hours:.2f} USD for each machine and hour"
    )
    return base.Answer("block-price", holds=True, said=f"{said}; what this one cost is in its bill")


def block_hours(length: dt.timedelta) -> int:
    """The shortest duration at or above a length that blocks are sold for: days up to 14, then weeks up to 26, in hours.

    docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityBlockOfferings.html
    """
    days = math.ceil(length / dt.timedelta(days=1))
    return 24 * min(max(days, 1) if days <= _DAYS else math.ceil(days / 7) * 7, _MOST_DAYS)


def _reservation(api: AwsRegionApi, reservation: str) -> dict[str, Any]:
    with cloud_errors("ec2:DescribeCapacityReservations", api.region):
        (row,) = api.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"]
    return dict(row)

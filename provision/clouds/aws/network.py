"""The network of AWS that a machine stands in: the VPC and the zone of the subnet that an order names."""

from __future__ import annotations

from dataclasses import dataclass

from provision.clouds import base
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors


@dataclass(frozen=True, slots=True)
class AwsSubnet:
    """A subnet: it lies in one zone of one VPC."""

    vpc: str
    zone: str


def subnet_of(api: AwsRegionApi, order: base.Order) -> AwsSubnet | None:
    """Ask for the subnet of an order; None, without a call, where the order names none.

    Raises:
        CloudInvalidError: the region has no such subnet.
    """
    if not order.subnet:
        return None
    with cloud_errors("ec2:DescribeSubnets", api.region):
        (raw,) = api.ec2.describe_subnets(SubnetIds=[order.subnet])["Subnets"]
    return AwsSubnet(raw["VpcId"], raw["AvailabilityZone"])

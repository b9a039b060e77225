"""Where a machine stands in the network of AWS: the VPC and the zone of the subnet that an order names."""

from __future__ import annotations

from dataclasses import dataclass

from provision.clouds import base
from provision.clouds.aws.client import AwsAccess, client
from provision.clouds.aws.errors import classified


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet: it lies in one zone of one VPC."""

    id: str
    vpc: str
    zone: str


def subnet_of(order: base.Order, region: str, access: AwsAccess) -> Subnet | None:
    """The subnet of an order; None, and nothing is asked, where it names none.

    Raises:
        CloudInvalidError: the region has no such subnet.
    """
    if not order.subnet:
        return None
    with classified("ec2:DescribeSubnets", region):
        (raw,) = client("ec2", region, access).describe_subnets(SubnetIds=[order.subnet])["Subnets"]
    return Subnet(raw["SubnetId"], raw["VpcId"], raw["AvailabilityZone"])

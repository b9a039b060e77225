"""The requests that EC2 gets for an order: pure functions, so that the same order gives the same bytes."""

from collections.abc import Iterable
from typing import Any

from provision.clouds import base
from provision.clouds.aws import data, disk_key, identity
from provision.clouds.userdata import user_data

OS_TAG = "gpuprov:os"
# Marks a machine that gets no public address. Without the mark such a machine looks like one that is starting or stopped.
ADDRESS_TAG = "gpuprov:address"


def resource_name(order: base.Order) -> str:
    """The name of a launch's security group: of the launch's name alone, so that EC2 lets only one launch have it in a VPC."""
    return f"gpuprov-{order.name}"


def tag_list(order: base.Order) -> list[dict[str, str]]:
    """The order's tags as EC2 takes them, with a Name for its console and the system for the login."""
    private = {} if order.public_address else {ADDRESS_TAG: "private"}
    tags = {"Name": f"gpuprov-{order.name}", **order.tags, OS_TAG: " ".join(order.os), **private}
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def security_group(order: base.Order, vpc: str = "") -> dict[str, Any]:
    """CreateSecurityGroup.

    Args:
        order: whose machines the group is for.
        vpc: id of its VPC; empty for the default one.
    """
    return {
        "GroupName": resource_name(order),
        "Description": f"gpuprov {order.name}: SSH",
        "TagSpecifications": [{"ResourceType": "security-group", "Tags": tag_list(order)}],
        **({"VpcId": vpc} if vpc else {}),
    }


def ingress(networks: Iterable[str]) -> dict[str, Any]:
    """The permission that opens port 22 to networks of both families."""
    cidrs = list(networks)
    return {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "IpRanges": [{"CidrIp": cidr, "Description": "SSH"} for cidr in cidrs if ":" not in cidr],
        "Ipv6Ranges": [{"CidrIpv6": cidr, "Description": "SSH"} for cidr in cidrs if ":" in cidr],
    }


def run_instances(order: base.Order, region: str, group: str = "") -> dict[str, Any]:
    """RunInstances without its image: encrypted disks, IMDSv2, tags on everything, the place's role or none, a power-off that ends it.

    Args:
        order: the machines.
        region: where.
        group: id of the security group; empty for a dry run, which comes before there is one.
    """
    image = data.image(order.os)
    root = image.root_device if image else "/dev/sda1"
    kinds = ["instance", "volume", "network-interface"]
    key = disk_key.of(order, region)
    request: dict[str, Any] = {
        "InstanceType": order.instance_type,
        "MinCount": order.minimum,
        "MaxCount": order.count,
        "ClientToken": order.token(region),
        "UserData": user_data(deadline=order.deadline, authorized_key=order.public_key),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [
            _volume(root, order.root_gb, key),
            *([_volume("/dev/sdf", order.volume_gb, key)] if order.volume_gb else []),
        ],
    }
    request |= _network(order, [group] if group else []) | identity.request(order)
    if order.zone:
        request["Placement"] = {"AvailabilityZone": order.zone}
    if order.market == "spot":
        # One-time: a persistent request would later start a machine that nobody waits for.
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
        kinds.append("spot-instances-request")
    request["TagSpecifications"] = [{"ResourceType": kind, "Tags": tag_list(order)} for kind in kinds]
    return request


def _network(order: base.Order, groups: list[str]) -> dict[str, Any]:
    """The group alone where the default subnet will do, otherwise the network card with its group and subnet.

    Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html, NetworkInterface.N: "If you specify a network
    interface, you must specify any security groups and subnets as part of the network interface."
    """
    if order.public_address and not order.subnet:
        return {"SecurityGroupIds": groups} if groups else {}
    card: dict[str, Any] = {"DeviceIndex": 0, "AssociatePublicIpAddress": order.public_address, "DeleteOnTermination": True}
    subnet = {"SubnetId": order.subnet} if order.subnet else {}
    return {"NetworkInterfaces": [{**card, **subnet, **({"Groups": groups} if groups else {})}]}


def _volume(device: str, size_gb: int, key: str | None) -> dict[str, Any]:
    own = {"KmsKeyId": key} if key else {}
    return {
        "DeviceName": device,
        "Ebs": {"VolumeSize": size_gb, "VolumeType": "gp3", "Encrypted": True, **own, "DeleteOnTermination": True},
    }

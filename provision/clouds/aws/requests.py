"""The requests that EC2 gets for an order: pure functions, so that the same order gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provision.clouds import base
from provision.clouds.aws import data
from provision.clouds.userdata import user_data

OS_TAG = "gpuprov:os"
# Set on a machine that gets no public address: while a machine is stopped or just begins, EC2 shows none of one that does, either.
ADDRESS_TAG = "gpuprov:address"


def resource_name(order: base.Order) -> str:
    """What the security group of a launch is called: the same for every attempt of it."""
    return f"gpuprov-{order.name}-{order.launch_id[:8]}"


def tag_list(order: base.Order) -> list[dict[str, str]]:
    """The order's tags as EC2 takes them, with a Name for its console and the system for the login."""
    private = {} if order.public_address else {ADDRESS_TAG: "private"}
    tags = {"Name": f"gpuprov-{order.name}", **order.tags, OS_TAG: " ".join(order.os), **private}
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def run_instances(order: base.Order, region: str, group: str = "") -> dict[str, Any]:
    """RunInstances without image: encrypted disks, IMDSv2, tags on everything, no role, end on power-off.

    Args:
        order: what is asked for.
        region: where.
        group: id of the security group; empty for a dry run, before there is one.
    """
    image = data.image(order.os)
    root = image.root_device if image else "/dev/sda1"
    tagged = ["instance", "volume", "network-interface"]
    asked: dict[str, Any] = {
        "InstanceType": order.instance_type,
        "MinCount": order.minimum,
        "MaxCount": order.count,
        "ClientToken": order.token(region),
        "UserData": user_data(deadline=order.deadline, authorized_key=order.public_key),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [
            _volume(root, order.root_gb),
            *([_volume("/dev/sdf", order.volume_gb)] if order.volume_gb else []),
        ],
    }
    asked |= _network(order, [group] if group else [])
    if order.zone:
        asked["Placement"] = {"AvailabilityZone": order.zone}
    if order.market == "spot":
        # One-time: a request that stayed would start a machine that nobody waits for.
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        asked["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
        tagged.append("spot-instances-request")
    asked["TagSpecifications"] = [{"ResourceType": kind, "Tags": tag_list(order)} for kind in tagged]
    return asked


def _network(order: base.Order, groups: list[str]) -> dict[str, Any]:
    """The group alone where the default subnets do; otherwise the network card, beside which RunInstances takes neither group nor subnet.

    Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html, NetworkInterface.N: "If you specify a network
    interface, you must specify any security groups and subnets as part of the network interface."
    """
    if order.public_address and not order.subnet:
        return {"SecurityGroupIds": groups} if groups else {}
    card: dict[str, Any] = {"DeviceIndex": 0, "AssociatePublicIpAddress": order.public_address, "DeleteOnTermination": True}
    subnet = {"SubnetId": order.subnet} if order.subnet else {}
    return {"NetworkInterfaces": [{**card, **subnet, **({"Groups": groups} if groups else {})}]}


def _volume(device: str, size_gb: int) -> dict[str, Any]:
    return {
        "DeviceName": device,
        "Ebs": {"VolumeSize": size_gb, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
    }


def ingress(networks: Iterable[str]) -> dict[str, Any]:
    """The permission that opens port 22 to networks of both families."""
    wanted = list(networks)
    return {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "IpRanges": [{"CidrIp": n, "Description": "SSH"} for n in wanted if ":" not in n],
        "Ipv6Ranges": [{"CidrIpv6": n, "Description": "SSH"} for n in wanted if ":" in n],
    }

"""The requests that EC2 gets for an order: pure functions, so that the same order gives the same bytes."""

from collections.abc import Iterable
from typing import Any

from provision.clouds import base
from provision.clouds.aws import capacity, disk_key, identity, image_choice
from provision.clouds.aws.place import capacity_of, place_of
from provision.clouds.userdata import user_data

OS_TAG = "gpuprov:os"
# The first user of an image of one's own, whose name nobody else knows.
LOGIN_TAG = "gpuprov:login"
# Marks a machine that gets no public address. Without the mark such a machine looks like one that is starting or stopped.
ADDRESS_TAG = "gpuprov:address"


def resource_name(order: base.Order) -> str:
    """The name of a launch's security group: of the launch's name alone, so that EC2 lets only one launch have it in a VPC."""
    return group_name(order.name)


def group_name(name: str) -> str:
    """The name of the security group of the launch of this name."""
    return f"gpuprov-{name}"


def tag_list(order: base.Order) -> list[dict[str, str]]:
    """The order's tags as EC2 takes them, with a Name for its console and the system for the login."""
    private = {} if order.public_address else {ADDRESS_TAG: "private"}
    own = image_choice.own_of(order.place)
    login = {LOGIN_TAG: own.login} if own is not None and own.login else {}
    baked = {base.IMAGE_TAG: order.baked} if order.baked else {}
    tags = {"Name": f"gpuprov-{order.name}", **order.tags, OS_TAG: " ".join(order.os), **login, **private, **baked}
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def security_group(order: base.Order, vpc: str = "") -> dict[str, Any]:
    """CreateSecurityGroup.

    Args:
        order: whose machines the group is for.
        vpc: id of its VPC; empty for the default one.
    """
    return {
        "GroupName": resource_name(order),
        # Shown at once, while tags may be late; it cannot be changed.
        "Description": f"gpuprov {order.name}: SSH, launch {order.launch_id}",
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


def members(group: str) -> dict[str, Any]:
    """The permission that lets the members of a group reach one another on all ports."""
    return {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}


def run_instances(order: base.Order, region: str, group: str = "", root: str = "") -> dict[str, Any]:
    """RunInstances without its image: encrypted disks, IMDSv2, tags on everything, the place's role or none, a power-off that ends it.

    Args:
        order: the machines.
        region: where.
        group: id of the security group; empty for a dry run, which comes before there is one.
        root: the image's root device; that of the system's images by default.
    """
    kinds = ["instance", "volume", "network-interface"]
    key = disk_key.of(order, region)
    request: dict[str, Any] = {
        "InstanceType": order.instance_type,
        "MinCount": order.minimum,
        "MaxCount": order.count,
        "ClientToken": order.token(region),
        "UserData": user_data(deadline=order.deadline, authorized_key=order.public_key, downloads=order.downloads),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [
            _volume(root or image_choice.root_device(order), order.root_gb, key),
            *([_volume("/dev/sdf", order.volume_gb, key)] if order.volume_gb else []),
        ],
    }
    request |= _network(order, [group] if group else [])
    request |= identity.request(order) | capacity.requested(capacity_of(order))
    placement = ({"AvailabilityZone": order.zone} if order.zone else {}) | capacity.placed(capacity_of(order))
    if placement:
        request["Placement"] = placement
    if order.market == "spot":
        # One-time: a persistent request would later start a machine that nobody waits for.
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if order.spot_limit_usd is not None:  # above it AWS launches nothing, and takes back what runs
            options["MaxPrice"] = f"{order.spot_limit_usd:.4f}"
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
        kinds.append("spot-instances-request")
    request["TagSpecifications"] = [{"ResourceType": kind, "Tags": tag_list(order)} for kind in kinds]
    return request


def _network(order: base.Order, groups: list[str]) -> dict[str, Any]:
    """The group alone where the default subnet will do, otherwise the network card with its group and subnet.

    Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html, NetworkInterface.N: "If you specify a network
    interface, you must specify any security groups and subnets as part of the network interface."
    """
    place = place_of(order)
    adapters, start = place.fabric if place else (0, 0)
    if order.public_address and not order.subnet and not adapters:
        return {"SecurityGroupIds": groups} if groups else {}
    public = {} if adapters > 1 else {"AssociatePublicIpAddress": order.public_address}
    card: dict[str, Any] = {"DeviceIndex": 0, **public, "DeleteOnTermination": True}
    card |= ({"SubnetId": order.subnet} if order.subnet else {}) | ({"Groups": groups} if groups else {})
    return {"NetworkInterfaces": capacity.cards(card, adapters, start) if adapters else [card]}


def _volume(device: str, size_gb: int, key: str | None) -> dict[str, Any]:
    own = {"KmsKeyId": key} if key else {}
    return {
        "DeviceName": device,
        "Ebs": {"VolumeSize": size_gb, "VolumeType": "gp3", "Encrypted": True, **own, "DeleteOnTermination": True},
    }

"""What EC2 says was made, flat, field by field, without what differs between any two machines."""

from __future__ import annotations

import re
from typing import Any

import boto3

from provision.clouds.base import LAUNCH_TAG
from provision.rehearsal.control import Rehearsal

# What EC2 makes up for each machine; what a client's own bookkeeping adds.
_OWN = re.compile(
    r"Id$|Time$|Arn$|Dns|PrivateIpAddress|PublicIp|MacAddress|ClientToken|Description|\.State(Reason)?\.|^State|Reservation|KmsKey|AttachmentId|GroupName"
)
_FOREIGN = re.compile(r"tag:aws:")


def keys_of(ec2: Rehearsal) -> dict[str, str]:
    """The keys of the account's owner, as boto3 takes them."""
    access = ec2.settings("aws")
    return {"aws_access_key_id": access["access_key_id"], "aws_secret_access_key": access["secret_access_key"]}


class Made:
    """One region of the embedded AWS, looked at with a client of its own."""

    def __init__(self, ec2: Rehearsal, region: str) -> None:
        self._ec2: Any = boto3.client("ec2", region_name=region, endpoint_url=ec2.endpoints["aws"], **keys_of(ec2))

    def tags(self, thing: str) -> dict[str, str]:
        """The tags of anything."""
        found = self._ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [thing]}])["Tags"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def attribute(self, instance_id: str, name: str) -> str:
        """An attribute that DescribeInstances does not show."""
        said = self._ec2.describe_instance_attribute(InstanceId=instance_id, Attribute=name)
        key = {"userData": "UserData", "instanceInitiatedShutdownBehavior": "InstanceInitiatedShutdownBehavior"}[name]
        return str(said[key]["Value"])

    def alive(self) -> list[str]:
        """Everything that carries our tag and has not ended."""
        ours = [{"Name": "tag-key", "Values": [LAUNCH_TAG]}]
        reserved = self._ec2.describe_instances(Filters=ours)["Reservations"]
        machines = [i["InstanceId"] for r in reserved for i in r["Instances"] if i["State"]["Name"] != "terminated"]
        groups = [g["GroupId"] for g in self._ec2.describe_security_groups(Filters=ours)["SecurityGroups"]]
        volumes = [v["VolumeId"] for v in self._ec2.describe_volumes(Filters=ours)["Volumes"]]
        templates = [t["LaunchTemplateId"] for t in self._ec2.describe_launch_templates()["LaunchTemplates"]]
        return [*machines, *groups, *volumes, *templates]

    def of(self, instance_id: str) -> dict[str, Any]:
        """The machine, its attributes, disks, interface and groups."""
        (instance,) = self._ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"]
        seen: dict[str, Any] = {"instance": instance}
        for name in ("userData", "instanceInitiatedShutdownBehavior"):
            seen[name] = self.attribute(instance_id, name)
        attached = {"Name": "attachment.instance-id", "Values": [instance_id]}
        volumes = self._ec2.describe_volumes(Filters=[attached])["Volumes"]
        seen["volumes"] = sorted(volumes, key=lambda v: str(v["Attachments"][0]["Device"]))
        groups = sorted({g["GroupId"] for nic in instance["NetworkInterfaces"] for g in nic["Groups"]})
        seen["groups"] = self._ec2.describe_security_groups(GroupIds=groups)["SecurityGroups"]
        seen["names"] = [re.sub("[0-9a-f]{8}$", "LAUNCH-8", g["GroupName"]) for g in seen["groups"]]
        interfaces = [nic["NetworkInterfaceId"] for nic in instance["NetworkInterfaces"]]
        seen["interface-tags"] = [self._ec2.describe_network_interfaces(NetworkInterfaceIds=interfaces)["NetworkInterfaces"][0]["TagSet"]]
        spot = self._ec2.describe_spot_instance_requests(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
        seen["spot"] = [
            {k: v for k, v in r.items() if k in {"Type", "Tags", "InstanceInterruptionBehavior"}} for r in spot["SpotInstanceRequests"]
        ]
        launch = self.tags(instance_id)[LAUNCH_TAG]
        return {
            field: value.replace(launch, "LAUNCH") if isinstance(value, str) else value
            for field, value in _flat("", seen)
            if _shared(field)
        }


def rows(left: dict[str, Any], right: dict[str, Any]) -> list[tuple[str, Any, Any, bool]]:
    """Field, the one, the other, and whether they are the same."""
    return [(f, left.get(f), right.get(f), f in left and f in right and left[f] == right[f]) for f in sorted({*left, *right})]


def _shared(field: str) -> bool:
    return not _OWN.search(field) and not _FOREIGN.search(field)


def _flat(at: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _flat(f"{at}.{key}" if at else key, item)]
    if isinstance(value, list) and value and all(isinstance(item, dict) and set(item) == {"Key", "Value"} for item in value):
        return [(f"{at}.tag:{item['Key']}", item["Value"]) for item in value]
    if isinstance(value, list):
        ordered = sorted(
            value,
            key=lambda item: (
                str(item.get("CidrIp") or item.get("CidrIpv6") or item.get("DeviceName") or "") if isinstance(item, dict) else str(item)
            ),
        )
        return [pair for number, item in enumerate(ordered) for pair in _flat(f"{at}.{number}", item)] or [(at, "none")]
    return [(at, value)]

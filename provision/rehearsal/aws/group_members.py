"""How a group of the embedded AWS launches one more member: RunInstances with its template's data, where there is room."""

from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends

from provision.rehearsal.aws import inside, refreshes, templates
from provision.rehearsal.aws.scaling import Group
from provision.rehearsal.base import Wsgi


def launched(application: Wsgi, group: Group) -> tuple[str, str, str, dict[str, str]]:
    """RunInstances for one more member, in the subnet that has the fewest; the next one where that is refused."""
    template, types = refreshes.launched_from(group)
    data = templates.launch_parameters(group.region, template)
    held = [member.zone for member in group.staying]
    zones = {subnet: zone_of(group.region, subnet) for subnet in group.subnets}
    tags = {tag["Key"]: tag.get("Value", "") for tag in group.tags if tag.get("PropagateAtLaunch")}
    asked_for = data.pop("TagSpecifications", [])
    specifications = [each for each in asked_for if each["ResourceType"] != "instance"]
    own = {tag["Key"]: tag["Value"] for each in asked_for if each["ResourceType"] == "instance" for tag in each["Tags"]}
    listed = [{"Key": key, "Value": value} for key, value in (own | tags).items()]
    data["TagSpecifications"] = [*specifications, *([{"ResourceType": "instance", "Tags": listed}] if listed else [])]
    reserved = (group.given.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    for reservation in (reserved.get("CapacityReservationIds") or [])[:1]:  # the group's own wins over the template's
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    refused: Exception | None = None
    for kind in types or (data.get("InstanceType", ""),):
        for subnet in sorted(zones, key=lambda each: held.count(zones[each])):
            try:
                where = _in({**data, "InstanceType": kind}, subnet)
                reply = inside.ec2(application, group.region).run_instances(**where, MinCount=1, MaxCount=1)
            except Exception as error:  # noqa: BLE001 - the next place may have one
                refused = error
                continue
            made = reply["Instances"][0]
            _marked(group, made["InstanceId"], template)
            return made["InstanceId"], made["Placement"]["AvailabilityZone"], made["InstanceType"], dict(template)
    raise refused or ValueError("the group has no subnet")


def _in(data: dict[str, Any], subnet: str) -> dict[str, Any]:
    """The same launch in a subnet, which is the network card's where there is one."""
    cards = data.get("NetworkInterfaces")
    return {**data, "NetworkInterfaces": [{**cards[0], "SubnetId": subnet}, *cards[1:]]} if cards else {**data, "SubnetId": subnet}


def zone_of(region: str, subnet: str) -> str:
    """The zone of a subnet, or EC2's refusal."""
    return str(ec2_backends[DEFAULT_ACCOUNT_ID][region].get_subnet(subnet).availability_zone)


def _marked(group: Group, instance_id: str, template: dict[str, str]) -> None:
    """The tags that AWS alone may set."""
    ec2_backends[DEFAULT_ACCOUNT_ID][group.region].tags.setdefault(instance_id, {}).update(
        {
            "aws:autoscaling:groupName": group.name,
            "aws:ec2launchtemplate:id": template["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": template["Version"],
        }
    )

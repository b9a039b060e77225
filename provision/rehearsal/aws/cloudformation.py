"""CloudFormation of the embedded AWS: what it does with EC2's resources and moto does not, put into moto's own classes.

moto launches a stack's instance from a handful of properties and ignores its launch template; CloudFormation sends RunInstances with the
template's data, over which the properties of the instance itself go
(docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateSpecification.html). Of a security group, moto drops the descriptions of
the rules and their IPv6 networks. A property that is not modelled here is refused, so that a template never passes in spite of it.
"""

from typing import Any, Final

import tenacity
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import Instance
from moto.ec2.models.security_groups import SecurityGroup

_ENDED_S: Final = 60
_INSTANCE: Final = {"LaunchTemplate"}
_DATA: Final = {
    "BlockDeviceMappings",
    "ImageId",
    "InstanceInitiatedShutdownBehavior",
    "InstanceMarketOptions",
    "InstanceType",
    "MetadataOptions",
    "Placement",
    "SecurityGroupIds",
    "TagSpecifications",
    "UserData",
}
_GROUP: Final = {"GroupName", "GroupDescription", "SecurityGroupIngress", "Tags"}
_RULE: Final = {"IpProtocol", "FromPort", "ToPort", "CidrIp", "CidrIpv6", "Description"}


def patch() -> None:
    """Change moto's classes for this process; after `launch.patch`, whose RunInstances this calls."""
    Instance.create_from_cloudformation_json = classmethod(_instance)
    Instance.delete = _delete
    SecurityGroup.create_from_cloudformation_json = classmethod(_security_group)


def _instance(_cls: Any, /, _name: str, resource: dict[str, Any], account_id: str, region_name: str, **_more: Any) -> Instance:
    """Launch one instance as RunInstances would with the same parameters."""
    backend: Any = ec2_backends[account_id][region_name]
    properties = _checked(resource["Properties"], _INSTANCE)
    template = backend._get_template_from_args(properties["LaunchTemplate"])  # noqa: SLF001 - what moto's own RunInstances calls
    data = _checked(template.data, _DATA)
    reservation = backend.run_instances(
        data["ImageId"],
        1,
        data.get("UserData"),
        [],
        instance_type=data["InstanceType"],
        is_instance_type_default=False,
        placement=data.get("Placement", {}).get("AvailabilityZone"),
        region_name=region_name,
        security_group_ids=list(data.get("SecurityGroupIds", [])),
        tags={spec["ResourceType"]: {tag["Key"]: tag["Value"] for tag in spec["Tags"]} for spec in data.get("TagSpecifications", [])},
        instance_market_options=data.get("InstanceMarketOptions", {}).get("MarketType", {}),
        instance_initiated_shutdown_behavior=data.get("InstanceInitiatedShutdownBehavior"),
        metadata_options=dict(data.get("MetadataOptions", {})),
        block_device_mappings=[{**mapping, "Ebs": dict(mapping["Ebs"])} for mapping in data.get("BlockDeviceMappings", [])],
    )
    instance: Instance = reservation.instances[0]
    instance.add_tags({"aws:ec2launchtemplate:id": template.template.id, "aws:ec2launchtemplate:version": str(template.number)})
    return instance


def _delete(self: Any, _account_id: str, _region: str) -> None:
    """End the instance and wait until it has ended: what it depends on is deleted next."""
    self.ec2_backend.terminate_instances([self.id])
    wait = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda state: state != "terminated"),
        wait=tenacity.wait_fixed(0.05),
        stop=tenacity.stop_after_delay(_ENDED_S),
    )
    wait(lambda: self.state)


def _security_group(_cls: Any, /, name: str, resource: dict[str, Any], account_id: str, region_name: str, **_more: Any) -> SecurityGroup:
    """Make the group, then each of its rules."""
    backend: Any = ec2_backends[account_id][region_name]
    properties = _checked(resource["Properties"], _GROUP)
    group: SecurityGroup = backend.create_security_group(name=name, description=properties["GroupDescription"], vpc_id=None)
    for tag in properties.get("Tags", []):
        group.add_tag(tag["Key"], tag["Value"])
    for rule in properties.get("SecurityGroupIngress", []):
        _checked(rule, _RULE)
        backend.authorize_security_group_ingress(
            group_name_or_id=group.id,
            ip_protocol=rule["IpProtocol"],
            from_port=rule["FromPort"],
            to_port=rule["ToPort"],
            ip_ranges=[{key: rule[key] for key in ("CidrIp", "CidrIpv6", "Description") if key in rule}],
            vpc_id=group.vpc_id,
        )
    return group


def _checked(properties: dict[str, Any], models: set[str]) -> dict[str, Any]:
    extra = sorted(set(properties) - models)
    if extra:
        msg = f"the embedded CloudFormation does not model {', '.join(extra)}"
        raise ValueError(msg)
    return properties

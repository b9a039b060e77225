"""Which permissions the calls of Auto Scaling need in the embedded AWS.

Source: docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html; that whoever makes a group needs
ec2:RunInstances and iam:PassRole for its template:
docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html.
"""

import re
from collections.abc import Iterable
from typing import Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import ServiceException

from provision.rehearsal.aws import service_roles, templates, world
from provision.rehearsal.aws.group_rows import ARN
from provision.rehearsal.aws.permissions import AwsCall, Need
from provision.rehearsal.aws.scaling import Engine
from provision.rehearsal.aws.settings import AwsSettings

_ASKS: Final = re.compile(r"Describe")
_LAUNCHES: Final = {"CreateAutoScalingGroup", "StartInstanceRefresh", "UpdateAutoScalingGroup"}


def asked(engine: Engine, call: AwsCall, settings: AwsSettings) -> Iterable[Need]:
    """What a call of Auto Scaling needs: the call on its group, and for one that launches what the template hands over."""
    if call.service != "autoscaling":
        return
    where = {"aws:RequestedRegion": call.region}
    name = call.params.get("AutoScalingGroupName") or call.params.get("Tags.member.1.ResourceId", "")
    if _ASKS.match(call.action):
        yield Need(f"autoscaling:{call.action}", "*", where)
        return
    group = engine.groups.get((call.region, name))
    if group is None and not name:
        named = call.params.get("InstanceId", "")
        group = next((g for g in engine.groups.values() if g.region == call.region and named in g.members), None)
        name = group.name if group else name
    kept = {tag["Key"]: tag.get("Value", "") for tag in group.tags} if group else {}
    context = {f"{service}:ResourceTag/{key}": value for service in ("aws", "autoscaling") for key, value in kept.items()}
    for key, tag in call.params.items():
        if re.fullmatch(r"Tags\.member\.\d+\.Key", key):
            context[f"aws:RequestTag/{tag}"] = call.params.get(key.removesuffix("Key") + "Value", "")
    yield Need(f"autoscaling:{call.action}", ARN.format(call.region, name), where | context)
    if call.action == "CreateAutoScalingGroup":
        yield from service_roles.need(service_roles.AUTO_SCALING, settings)
    template = next((value for key, value in call.params.items() if key.endswith(".LaunchTemplateId")), "")
    if template and call.action in _LAUNCHES:
        yield from _handed(call.region, template, next((v for k, v in call.params.items() if k.endswith("LaunchTemplate.Version")), "1"))


def _handed(region: str, template: str, version: str) -> Iterable[Need]:
    """What a launch from a template needs of whoever lets a group do it."""
    where = {"aws:RequestedRegion": region}
    tags = world.tags_of(region, template)
    context = {f"{service}:ResourceTag/{key}": value for service in ("aws", "ec2") for key, value in tags.items()}
    yield Need("ec2:RunInstances", f"arn:aws:ec2:{region}:{DEFAULT_ACCOUNT_ID}:launch-template/{template}", where | context)
    try:
        profile = templates.launch_parameters(region, {"LaunchTemplateId": template, "Version": version}).get("IamInstanceProfile")
    except ServiceException:
        return
    if profile:
        role = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/{profile['Name']}"
        yield Need("iam:PassRole", role, where | {"iam:PassedToService": "ec2.amazonaws.com"})

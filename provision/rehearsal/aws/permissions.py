"""Whether an IAM policy document allows a call. moto cannot say: it ignores conditions, and answers with another code than EC2.

This understands what gpuprov's own policies are made of: Effect, Action and Resource with wildcards, and Condition with StringEquals,
StringLike, Bool, their IfExists forms, ForAllValues, ForAnyValue and Null. The tables below say which resources the calls of gpuprov
touch; any other call touches `*`. Source: the Service Authorization Reference of EC2
(docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE

from provision.structs import Struct, field

_ACCOUNT: Final = "123456789012"
_USER: Final = f"arn:aws:iam::{_ACCOUNT}:user/rehearsal"

TagsOf = Callable[[str, str], dict[str, str]]
"""(region, id) → the tags of a resource that exists."""

# Actions on resources that exist: the parameter that names them, and their type in an ARN.
_TOUCHES: Final = {
    "TerminateInstances": ("InstanceId", "instance"),
    "StopInstances": ("InstanceId", "instance"),
    "StartInstances": ("InstanceId", "instance"),
    "GetConsoleOutput": ("InstanceId", "instance"),
    "AuthorizeSecurityGroupIngress": ("GroupId", "security-group"),
    "AuthorizeSecurityGroupEgress": ("GroupId", "security-group"),
    "RevokeSecurityGroupIngress": ("GroupId", "security-group"),
    "DeleteSecurityGroup": ("GroupId", "security-group"),
    "DeleteVolume": ("VolumeId", "volume"),
    "DeleteNetworkInterface": ("NetworkInterfaceId", "network-interface"),
    "CancelSpotInstanceRequests": ("SpotInstanceRequestId", "spot-instances-request"),
    "DeleteLaunchTemplate": ("LaunchTemplateId", "launch-template"),
    "DeregisterImage": ("ImageId", "image"),
    "EnableImageDeprecation": ("ImageId", "image"),
    "DisableImageDeprecation": ("ImageId", "image"),
    "DeleteSnapshot": ("SnapshotId", "snapshot"),
    "CreateLaunchTemplateVersion": ("LaunchTemplateId", "launch-template"),
}
# Actions that make something: what they make, and what they make it of.
_MAKES: Final = {
    "RunInstances": (("instance", "volume", "network-interface"), ("image", "subnet", "security-group")),
    "CreateSecurityGroup": (("security-group",), ("vpc",)),
    "CreateImage": (("image", "snapshot"), ("instance",)),
    "CreateLaunchTemplate": (("launch-template",), ()),
}
# What a launch uses only where it names it.
_NAMES: Final = {
    "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId": "capacity-reservation",
    "Placement.GroupName": "placement-group",
}
_ELSEWHERE: Final = {"autoscaling", "kms", "iam", "s3"}  # whoever knows the resources says what these need
# "No permissions are required to perform this operation", and no policy can deny it (API_GetCallerIdentity).
_ANYBODYS: Final = {"sts:GetCallerIdentity"}
_NAMED_BY: Final = {"image": "ImageId", "subnet": "NetworkInterface.1.SubnetId", "instance": "InstanceId"}
_OF_NO_ACCOUNT: Final = {"image", "snapshot"}  # their ARNs have no account


class AwsCall(Struct):
    """One request, as the wire names it: `service` is that of its signature."""

    service: str
    action: str
    region: str
    params: dict[str, str]


class Need(Struct):
    """One action on one resource that must be allowed, with the condition keys that AWS knows of it."""

    action: str
    resource: str
    context: dict[str, str] = field(default_factory=dict)


def denial(policy: dict[str, Any], call: AwsCall, tags_of: TagsOf, more: Sequence[Need] = ()) -> str:
    """AWS's words for what a service control policy of the organisation denies of a call; empty when it denies nothing.

    Source: docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html, "Access denied due to a service control policy -
    explicit denial".
    """
    for need in (*_needs(call, tags_of), *more):
        if denied(policy, need):
            words = f"User: {_USER} is not authorized to perform: {need.action} on resource: {need.resource}"
            return f"{words} with an explicit deny in a service control policy"
    return ""


def refusal(policy: dict[str, Any], call: AwsCall, tags_of: TagsOf, more: Sequence[Need] = (), user: str = "") -> str:
    """AWS's words for what an identity-based policy document does not allow of a call; empty when it allows all.

    Args:
        policy: the only one that the caller has.
        call: the request.
        tags_of: the tags of what exists.
        more: what the call needs beside what stands in the request alone.
        user: the ARN of the caller; the account's user by default.
    """
    for need in (*_needs(call, tags_of), *more):
        if lacking(policy, need):
            return (
                f"User: {user or _USER} is not authorized to perform: {need.action} on resource: {need.resource} "
                f"because no identity-based policy allows the {need.action} action"
            )
    return ""


def denied(policy: dict[str, Any], need: Need) -> bool:
    """Whether a policy document denies one thing explicitly."""
    return any(statement["Effect"] == "Deny" and _applies(statement, need) for statement in policy["Statement"])


def lacking(policy: dict[str, Any], need: Need) -> bool:
    """Whether a policy document does not allow one thing."""
    effects = [statement["Effect"] for statement in policy["Statement"] if _applies(statement, need)]
    return "Allow" not in effects or "Deny" in effects


def _needs(call: AwsCall, tags_of: TagsOf) -> Iterator[Need]:
    """Everything that must be allowed for a call."""
    where = {"aws:RequestedRegion": call.region, "ec2:Region": call.region}
    action = f"{call.service}:{call.action}"
    if action in _ANYBODYS:
        return
    if call.service == "ssm":
        name = call.params.get("Name", "").lstrip("/")
        account = "" if name.startswith("aws/service/") else _ACCOUNT  # AWS's own parameters belong to no account
        yield Need(action, f"arn:aws:ssm:{call.region}:{account}:parameter/{name}", where)
    elif call.action in _MAKES:
        yield from _creation(call, where, tags_of)
    elif call.action in _TOUCHES:
        name, kind = _TOUCHES[call.action]
        for resource_id in _values(call.params, name):
            yield Need(action, _arn(call.region, kind, resource_id), where | _resource_tags(tags_of(call.region, resource_id)))
    elif call.action == "CreateTags":
        tags = _tags(call.params, "")
        context = where | _request_tags(tags) | {"aws:TagKeys": "\n".join(tags)}
        for resource_id in _values(call.params, "ResourceId"):
            kind = EC2_PREFIX_TO_RESOURCE.get(resource_id.partition("-")[0], "*")
            yield Need(action, _arn(call.region, kind, resource_id), context | _resource_tags(tags_of(call.region, resource_id)))
    elif call.service not in _ELSEWHERE:
        yield Need(action, "*", where)


def _creation(call: AwsCall, where: dict[str, str], tags_of: TagsOf) -> Iterator[Need]:
    """What a call that makes something needs: the call on each resource, and CreateTags on those that it tags."""
    action = f"ec2:{call.action}"
    products, ingredients = _MAKES[call.action]
    if call.params.get("InstanceMarketOptions.MarketType") == "spot":
        products = (*products, "spot-instances-request")
    tags = {
        call.params[key]: _request_tags(_tags(call.params, key.removesuffix("ResourceType")))
        for key in call.params
        if re.fullmatch(r"TagSpecification\.\d+\.ResourceType", key)
    }
    for parameter, kind in _NAMES.items():
        if call.params.get(parameter) and call.action == "RunInstances":
            yield Need(action, _arn(call.region, kind, call.params[parameter]), where)
    for kind in ingredients:
        named = call.params.get(_NAMED_BY.get(kind, ""), "*")
        yield Need(action, _arn(call.region, kind, named), where | _resource_tags(tags_of(call.region, named)))
    for kind in products:
        instance_type = {"ec2:InstanceType": call.params.get("InstanceType", "")} if kind == "instance" else {}
        yield Need(action, _arn(call.region, kind, "*"), where | tags.get(kind, {}) | instance_type)
    for kind, context in tags.items():
        yield Need("ec2:CreateTags", _arn(call.region, kind, "*"), where | context | {"ec2:CreateAction": call.action})


def _arn(region: str, kind: str, resource_id: str) -> str:
    account = "" if kind in _OF_NO_ACCOUNT else _ACCOUNT
    return f"arn:aws:ec2:{region}:{account}:{kind}/{resource_id}"


def _values(params: dict[str, str], name: str) -> list[str]:
    """The values of a parameter that may be a list."""
    return [value for key, value in params.items() if re.fullmatch(rf"{name}(\.\d+)?", key)]


def _tags(params: dict[str, str], prefix: str) -> dict[str, str]:
    keys = {key: value for key, value in params.items() if re.fullmatch(rf"{re.escape(prefix)}Tag\.\d+\.Key", key)}
    return {value: params.get(key.removesuffix("Key") + "Value", "") for key, value in keys.items()}


def _request_tags(tags: dict[str, str]) -> dict[str, str]:
    return {f"aws:RequestTag/{key}": value for key, value in tags.items()}


def _resource_tags(tags: dict[str, str]) -> dict[str, str]:
    return {f"{service}:ResourceTag/{key}": value for service in ("aws", "ec2") for key, value in tags.items()}


def _applies(statement: dict[str, Any], need: Need) -> bool:
    if not any(fnmatchcase(need.action.lower(), pattern.lower()) for pattern in _as_list(statement["Action"])):
        return False
    # A resource that is only about to be made has `*` for an id: a policy that names ids does not allow it.
    if not any(fnmatchcase(need.resource, pattern) for pattern in _as_list(statement["Resource"])):
        return False
    return all(_holds(operator, condition, need.context) for operator, condition in statement.get("Condition", {}).items())


def _holds(operator: str, condition: dict[str, Any], context: dict[str, str]) -> bool:
    if operator == "Null":
        return all((key not in context) == (str(absent).lower() == "true") for key, absent in condition.items())
    if operator.startswith("ForAnyValue:"):
        single = operator.removeprefix("ForAnyValue:")
        return all(
            any(_holds(single, {key: patterns}, {key: one}) for one in context.get(key, "").split("\n"))
            for key, patterns in condition.items()
        )
    of_all = operator.startswith("ForAllValues:")
    name, optional = operator.removeprefix("ForAllValues:").removesuffix("IfExists"), operator.endswith("IfExists") or of_all
    name = "StringEquals" if name == "Bool" else name
    if name not in {"StringEquals", "StringLike"}:
        msg = f"the embedded IAM does not know the condition operator {operator}"
        raise ValueError(msg)
    for key, patterns in condition.items():
        value = context.get(key)
        if value is None:
            if not optional:
                return False
            continue
        for one in value.split("\n") if of_all else [value]:
            if not any(one == pattern if name == "StringEquals" else fnmatchcase(one, pattern) for pattern in _as_list(patterns)):
                return False
    return True


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value

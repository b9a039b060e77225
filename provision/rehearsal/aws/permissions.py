"""Whether an IAM policy document allows a call, which moto does not judge: it ignores conditions and answers EC2 with another code.

Judged are the statements that gpuprov's own policies are made of: Effect, Action and Resource with wildcards, and Condition with
StringEquals, StringLike, their IfExists forms and ForAllValues. Which resources a call touches is listed below for the calls that
gpuprov makes; any other call touches `*`. Source: the Service Authorization Reference of EC2
(docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

_ACCOUNT: Final = "123456789012"
_USER: Final = f"arn:aws:iam::{_ACCOUNT}:user/rehearsal"

TagsOf = Callable[[str, str], dict[str, str]]

# Actions that touch resources that exist: the parameter that names them, and their type in an ARN.
_TOUCHES: Final = {
    "TerminateInstances": ("InstanceId", "instance"),
    "StopInstances": ("InstanceId", "instance"),
    "StartInstances": ("InstanceId", "instance"),
    "GetConsoleOutput": ("InstanceId", "instance"),
    "AuthorizeSecurityGroupIngress": ("GroupId", "security-group"),
    "RevokeSecurityGroupIngress": ("GroupId", "security-group"),
    "DeleteSecurityGroup": ("GroupId", "security-group"),
    "DeleteVolume": ("VolumeId", "volume"),
    "DeleteNetworkInterface": ("NetworkInterfaceId", "network-interface"),
    "CancelSpotInstanceRequests": ("SpotInstanceRequestId", "spot-instances-request"),
    "ReleaseAddress": ("AllocationId", "elastic-ip"),
    "DeleteKeyPair": ("KeyPairId", "key-pair"),
    "DeleteLaunchTemplate": ("LaunchTemplateId", "launch-template"),
}
# Actions that make something: what they tag when they are asked to, and what else they use.
_MAKES: Final = {
    "RunInstances": (("instance", "volume", "network-interface"), ("image", "subnet", "security-group")),
    "CreateSecurityGroup": (("security-group",), ("vpc",)),
}
_TYPES: Final = {
    "i": "instance",
    "vol": "volume",
    "sg": "security-group",
    "eni": "network-interface",
    "sir": "spot-instances-request",
    "key": "key-pair",
}


@dataclass(frozen=True, slots=True)
class AwsCall:
    """One request, as the wire names it: `service` is that of its signature."""

    service: str
    action: str
    region: str
    params: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Need:
    action: str
    resource: str
    context: dict[str, str] = field(default_factory=dict)


def refusal(policy: dict[str, Any], call: AwsCall, tags_of: TagsOf) -> str:
    """AWS's words for what the policy does not allow of a call; empty when it allows all.

    Args:
        policy: an identity-based policy document.
        call: the request.
        tags_of: (region, id) → the tags of a resource that exists.
    """
    for need in _needs(call, tags_of):
        if not _allowed(policy, need):
            return (
                f"User: {_USER} is not authorized to perform: {need.action} on resource: {need.resource} "
                f"because no identity-based policy allows the {need.action} action"
            )
    return ""


def _needs(call: AwsCall, tags_of: TagsOf) -> Iterator[_Need]:
    """Everything that must be allowed for a call."""
    where = {"aws:RequestedRegion": call.region, "ec2:Region": call.region}
    action = f"{call.service}:{call.action}"
    if call.service == "ssm":
        yield _Need(action, f"arn:aws:ssm:{call.region}::parameter/{call.params.get('Name', '').lstrip('/')}", where)
    elif call.action in _MAKES:
        yield from _makes(call, where)
    elif call.action in _TOUCHES:
        name, kind = _TOUCHES[call.action]
        for resource_id in _listed(call.params, name):
            yield _Need(action, _arn(call.region, kind, resource_id), where | _resource_tags(tags_of(call.region, resource_id)))
    elif call.action == "CreateTags":
        tags = _tags(call.params, "")
        given = {f"aws:RequestTag/{key}": value for key, value in tags.items()} | {"aws:TagKeys": "\n".join(tags)}
        for resource_id in _listed(call.params, "ResourceId"):
            kind = _TYPES.get(resource_id.partition("-")[0], "*")
            yield _Need(action, _arn(call.region, kind, resource_id), where | given | _resource_tags(tags_of(call.region, resource_id)))
    else:
        yield _Need(action, "*", where)


def _makes(call: AwsCall, where: dict[str, str]) -> Iterator[_Need]:
    """What a call that makes something needs: the call on each resource, and CreateTags on those that it tags."""
    made, used = _MAKES[call.action]
    if call.params.get("InstanceMarketOptions.MarketType") == "spot":
        made = (*made, "spot-instances-request")
    specified = {
        call.params[key]: _tags(call.params, key.removesuffix("ResourceType"))
        for key in call.params
        if re.fullmatch(r"TagSpecification\.\d+\.ResourceType", key)
    }
    for kind in used:
        named = {"image": "ImageId", "subnet": "NetworkInterface.1.SubnetId"}.get(kind, "")
        resource_id = call.params.get(named, "*")
        yield _Need(f"ec2:{call.action}", _arn(call.region, kind, resource_id), where)
    for kind in made:
        given = {f"aws:RequestTag/{key}": value for key, value in specified.get(kind, {}).items()}
        if kind == "instance":
            given["ec2:InstanceType"] = call.params.get("InstanceType", "")
        yield _Need(f"ec2:{call.action}", _arn(call.region, kind, "*"), where | given)
    for kind, tags in specified.items():
        given = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
        yield _Need("ec2:CreateTags", _arn(call.region, kind, "*"), where | given | {"ec2:CreateAction": call.action})


def _arn(region: str, kind: str, resource_id: str) -> str:
    account = "" if kind == "image" else _ACCOUNT
    return f"arn:aws:ec2:{region}:{account}:{kind}/{resource_id}"


def _listed(params: dict[str, str], name: str) -> list[str]:
    return [value for key, value in params.items() if re.fullmatch(rf"{name}(\.\d+)?", key)]


def _tags(params: dict[str, str], prefix: str) -> dict[str, str]:
    keys = {key: value for key, value in params.items() if re.fullmatch(rf"{re.escape(prefix)}Tag\.\d+\.Key", key)}
    return {value: params.get(key.removesuffix("Key") + "Value", "") for key, value in keys.items()}


def _resource_tags(tags: dict[str, str]) -> dict[str, str]:
    return {f"{service}:ResourceTag/{key}": value for service in ("aws", "ec2") for key, value in tags.items()}


def _allowed(policy: dict[str, Any], need: _Need) -> bool:
    applies = [s["Effect"] for s in policy["Statement"] if _applies(s, need)]
    return "Allow" in applies and "Deny" not in applies


def _applies(statement: dict[str, Any], need: _Need) -> bool:
    if not any(fnmatchcase(need.action.lower(), pattern.lower()) for pattern in _several(statement["Action"])):
        return False
    # A resource that is only about to be made has `*` for an id: a policy that names ids does not allow it.
    if not any(fnmatchcase(need.resource, pattern) for pattern in _several(statement["Resource"])):
        return False
    return all(_holds(operator, wanted, need.context) for operator, wanted in statement.get("Condition", {}).items())


def _holds(operator: str, wanted: dict[str, Any], context: dict[str, str]) -> bool:
    of_all = operator.startswith("ForAllValues:")
    name, optional = operator.removeprefix("ForAllValues:").removesuffix("IfExists"), operator.endswith("IfExists") or of_all
    if name not in {"StringEquals", "StringLike"}:
        msg = f"the embedded IAM does not know the condition operator {operator}"
        raise ValueError(msg)
    for key, values in wanted.items():
        given = context.get(key)
        if given is None:
            if not optional:
                return False
            continue
        for one in given.split("\n") if of_all else [given]:
            if not any(one == value if name == "StringEquals" else fnmatchcase(one, value) for value in _several(values)):
                return False
    return True


def _several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value

"""The permissions that our calls need, apart from the SDK so that a plan can name them in milliseconds.

The conditions are those of the Service Authorization Reference of EC2
(docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html). Describing cannot be narrowed to resources there.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, get_args

from provision.clouds import base
from provision.clouds.aws import data, disk_key, identity, image_choice
from provision.clouds.aws.capacity import used
from provision.clouds.aws.place import AwsPlace, place_of

Command = Literal[
    "find", "launch", "zones", "examine", "wait", "host_keys", "notices", "stop", "start", "extend", "allow", "things", "remove"
]
COMMANDS: Final[tuple[Command, ...]] = get_args(Command)

_SERVICE_ROLE: Final = "iam:CreateServiceLinkedRole"  # once in the life of an account
_READ_ROLE: Final = "iam:GetRole"  # for `plan --ask` alone
_SPOT: Final = {"ec2:CancelSpotInstanceRequests", "ec2:DescribeSpotInstanceRequests", _SERVICE_ROLE, _READ_ROLE}
_RESERVED: Final = {"ec2:DescribeCapacityReservations"}
_BLOCK: Final = "ec2:DescribeCapacityBlockOfferings"  # for `plan --ask` alone
_PLACEMENT: Final = {"ec2:DescribePlacementGroups"}
_FABRIC: Final = {"ec2:AuthorizeSecurityGroupEgress"}
_PARAMETER: Final = {"ssm:GetParameter"}
_LAUNCH: Final = (
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateSecurityGroup",
    "ec2:CreateTags",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:RunInstances",
    _SERVICE_ROLE,
    "ssm:GetParameter",
)
NEEDS: Final[dict[Command, tuple[str, ...]]] = {
    "find": ("ec2:DescribeInstances",),
    "launch": _LAUNCH,
    "zones": ("ec2:DescribeCapacityReservations", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSubnets"),
    "examine": (
        "ec2:CreateSecurityGroup",
        "ec2:CreateTags",
        "ec2:DescribeCapacityReservations",
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeRegions",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcBlockPublicAccessOptions",
        "ec2:DescribeVpcs",
        "ec2:RunInstances",
        _READ_ROLE,
        "servicequotas:GetAWSDefaultServiceQuota",
        "servicequotas:GetServiceQuota",
        "ssm:GetParameter",
    ),
    "wait": ("ec2:DescribeInstances",),
    "host_keys": ("ec2:DescribeInstances", "ec2:GetConsoleOutput"),
    "notices": ("ec2:DescribeInstanceStatus", "ec2:DescribeSpotInstanceRequests"),
    "stop": ("ec2:DescribeInstances", "ec2:StopInstances"),
    "start": ("ec2:DescribeInstances", "ec2:StartInstances"),
    "extend": ("ec2:CreateTags",),
    "allow": ("ec2:AuthorizeSecurityGroupIngress", "ec2:DescribeSecurityGroups", "ec2:RevokeSecurityGroupIngress"),
    "things": (
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSpotInstanceRequests",
        "ec2:DescribeTags",
        "ec2:DescribeVolumes",
    ),
    "remove": (
        "ec2:CancelSpotInstanceRequests",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteSecurityGroup",
        "ec2:DeleteVolume",
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeVolumes",
        "ec2:TerminateInstances",
    ),
}
"""What each call of the contract needs; those about spot, reservations, placement groups and EFA only where a place has one.

A launch asks Systems Manager for the image where a parameter finds it, and EC2 where an owner and a name do, or where it is one's own.
"""

PERMISSIONS: Final = tuple(sorted({action for needed in NEEDS.values() for action in needed}))
"""What all of them need, and nothing else."""

_MADE: Final = ("instance", "volume", "network-interface", "security-group")
_OURS: Final = {
    "instance": ("ec2:GetConsoleOutput", "ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances"),
    "security-group": (
        "ec2:AuthorizeSecurityGroupEgress",
        "ec2:AuthorizeSecurityGroupIngress",
        "ec2:DeleteSecurityGroup",
        "ec2:RevokeSecurityGroupIngress",
    ),
    "volume": ("ec2:DeleteVolume",),
    "network-interface": ("ec2:DeleteNetworkInterface",),
    "spot-instances-request": ("ec2:CancelSpotInstanceRequests",),
}


def permissions(order: base.Order) -> tuple[str, ...]:
    """Everything from the first question to the last removal of an order, sorted."""
    keys = disk_key.ACTIONS if disk_key.in_use(order, "") else ()
    unneeded = _unneeded([place_of(order)], spot=order.market == "spot", subnet=order.subnet)
    unneeded |= set() if parameters_of([order.place], order.os) else _PARAMETER
    role = (identity.HAND_OVER,) if identity.of(order) else ()
    return tuple(sorted({*PERMISSIONS, *keys, *role, *_of_blocks([place_of(order)])} - unneeded))


def _of_blocks(places: Iterable[AwsPlace | None]) -> tuple[str, ...]:
    """What asking for the price of a capacity block needs, where a place names one."""
    return (_BLOCK,) if any(place.capacity and place.capacity.block for place in places if place) else ()


def _unneeded(places: Sequence[AwsPlace | None], *, spot: bool, subnet: str) -> set[str]:
    """What is needed by other launches only."""
    adapters = any(place.adapters for place in places if place)
    capacities = [place.capacity for place in places if place and place.capacity]
    return {
        *(() if spot else _SPOT),
        *(("ec2:DescribeVpcs",) if subnet else ()),
        *(() if any(capacity.reserved for capacity in capacities) else _RESERVED),
        *(() if any(capacity.placement_group for capacity in capacities) else _PLACEMENT),
        *(() if adapters else _FABRIC),
    }


def policy_document(
    *,
    name: str,
    regions: Sequence[str],
    instance_types: Sequence[str],
    spot: bool,
    subnet: str = "",
    places: Sequence[AwsPlace] = (),
    parameters: Sequence[str] = ("/aws/service/*",),
    commands: Iterable[Command] = COMMANDS,
) -> dict[str, Any]:
    """The smallest identity-based IAM policy document with which these commands work for one launch.

    Args:
        name: of the launch, NAME_TAG; with `*` in it, of all launches that it matches.
        regions: where it may be.
        instance_types: which machines may be launched.
        spot: whether a place is spot.
        subnet: the only one that may be launched into; empty for any.
        places: of the profile, for what they name beside the machine.
        parameters: those of Systems Manager that hold images; none where no image is found so.
        commands: the calls of the contract that must work.

    Returns:
        The document as data. What exists is touched only when it carries the name's tag; what is made must carry it.
    """
    needed = {action for command in commands for action in NEEDS[command]} - _unneeded(places, spot=spot, subnet=subnet)
    needed -= set() if parameters else _PARAMETER
    kinds = (*_MADE, "spot-instances-request") if spot else _MADE
    operator, region_is = "StringLike" if "*" in name else "StringEquals", {"aws:RequestedRegion": sorted(regions)}
    requested = {f"aws:RequestTag/{base.NAME_TAG}": name}
    machines = [kind for kind in kinds if kind not in {"instance", "security-group"}]
    tagging = {"ec2:CreateAction": ["CreateSecurityGroup", "RunInstances"]}
    reads = [action for action in needed if action.startswith(("ec2:Describe", "servicequotas:")) and action != "ec2:DescribeRegions"]
    owned = {operator: {f"ec2:ResourceTag/{base.NAME_TAG}": name}}
    statements = [
        _statement("Ask", [*reads, *_of_blocks(places)], ["*"], {"StringEquals": region_is}),
        _statement("AskAboutRegions", needed & {"ec2:DescribeRegions"}, ["*"], {}),
        _statement("FindImage", needed & {"ssm:GetParameter"}, _parameter_arns(regions, parameters), {}),
        _statement("LaunchWith", needed & {"ec2:RunInstances"}, _used(regions, subnet, places), {}),
        _statement(
            "LaunchMachines",
            needed & {"ec2:RunInstances"},
            _arns(regions, ["instance"]),
            _merged({operator: requested}, {"StringEquals": {"ec2:InstanceType": sorted(instance_types)}}),
        ),
        _statement("LaunchTheirParts", needed & {"ec2:RunInstances"}, _arns(regions, machines), {operator: requested}),
        _statement("GroupIn", needed & {"ec2:CreateSecurityGroup"}, _arns(regions, ["vpc"]), {}),
        _statement("Group", needed & {"ec2:CreateSecurityGroup"}, _arns(regions, ["security-group"]), {operator: requested}),
        _statement(
            "TagWhatIsMade", needed & {"ec2:CreateTags"}, _arns(regions, kinds), _merged({operator: requested}, {"StringEquals": tagging})
        ),
        *(_statement(f"Own{_title(kind)}", needed & set(actions), _arns(regions, [kind]), owned) for kind, actions in _OURS.items()),
    ]
    if "extend" in set(commands):
        deadline_only = {"ForAllValues:StringEquals": {"aws:TagKeys": [base.DEADLINE_TAG]}}
        statements.append(_statement("MoveDeadline", {"ec2:CreateTags"}, _arns(regions, ["instance"]), _merged(owned, deadline_only)))
    role, wanted = service_role("EC2Spot", regions), tuple(places)
    asked = _statement("AskAboutSpotRole", needed & {_READ_ROLE}, role["Resource"], {})
    statements += [*([role] if _SERVICE_ROLE in needed else []), asked, *disk_key.statements(wanted), *identity.statements(wanted)]
    return {"Version": "2012-10-17", "Statement": [s for s in statements if s["Action"]]}


def service_role(kind: Literal["AutoScaling", "EC2Spot"], regions: Sequence[str]) -> dict[str, Any]:
    """The statement that lets a service make its own role in an account that has never used it, and nothing else.

    docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html;
    docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
    """
    service = {"AutoScaling": "autoscaling", "EC2Spot": "spot"}[kind] + ".amazonaws.com"
    parts = dict.fromkeys(map(disk_key.partition, regions))
    roles = [f"arn:{part}:iam::*:role/aws-service-role/{service}/AWSServiceRoleFor{kind}" for part in parts]
    return _statement(f"ServiceRole{kind}", {_SERVICE_ROLE}, roles, {"StringEquals": {"iam:AWSServiceName": service}})


def parameters_of(places: Iterable[Any], os: tuple[str, str]) -> tuple[str, ...]:
    """The parameters that hold the images of places, each once."""
    record = data.image(os)
    shipped = record.parameter if record else None
    named = [own.parameter if (own := image_choice.own_of(place)) is not None else shipped for place in places]
    return tuple(dict.fromkeys(parameter for parameter in named if parameter))


def _parameter_arns(regions: Sequence[str], parameters: Sequence[str]) -> list[str]:
    """AWS's own parameters belong to no account."""
    names = [(name, "" if name.startswith("/aws/service/") else "*") for name in parameters]
    return [f"arn:{disk_key.partition(region)}:ssm:{region}:{account}:parameter{name}" for region in regions for name, account in names]


def _used(regions: Sequence[str], subnet: str, places: Sequence[AwsPlace]) -> list[str]:
    """What a launch uses and does not make: subnets, or the one, the group, the images, which are of others, and what the places name."""
    subnets = [f"{_ec2(region)}:*:subnet/{subnet or '*'}" for region in regions]
    named = dict.fromkeys(arn for place in places for region in place.regions for arn in used(place.capacity, region))
    return [*subnets, *_arns(regions, ["security-group"]), *(f"{_ec2(region)}::image/*" for region in regions), *named]


def _statement(sid: str, actions: Iterable[str], resources: list[str], condition: dict[str, Any]) -> dict[str, Any]:
    statement: dict[str, Any] = {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement


def _merged(*conditions: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All of the conditions; two of the same operator become one with the keys of both."""
    merged: dict[str, dict[str, Any]] = {}
    for condition in conditions:
        for operator, keys in condition.items():
            merged[operator] = {**merged.get(operator, {}), **keys}
    return merged


def _ec2(region: str) -> str:
    return f"arn:{disk_key.partition(region)}:ec2:{region}"


def _arns(regions: Sequence[str], kinds: Iterable[str]) -> list[str]:
    # The account is left open: a policy is bound to that of whoever it is attached to, and resources of others are in none of ours.
    return [f"{_ec2(region)}:*:{kind}/*" for region in regions for kind in kinds]


def _title(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.split("-"))

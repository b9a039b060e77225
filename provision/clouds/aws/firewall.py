"""The security group of a launch: port 22 for the order's networks, and nothing else.

A group is also the claim of a launch to its name. It is called after the name alone, and EC2 makes one group of a name in a VPC
(docs/sources/clouds.md §1.5). So of two launches of one name only one gets as far as RunInstances.
"""

import functools
import re
from collections.abc import Callable, Sequence
from operator import call
from typing import Any, Final

import tenacity

from provision.clouds import base
from provision.clouds.aws.answers import tags_of
from provision.clouds.aws.api import AwsRegionApi, poll_ec2
from provision.clouds.aws.errors import cloud_errors, is_about_profile, is_refusal, unless_refused
from provision.clouds.aws.place import place_of
from provision.clouds.aws.requests import group_name, ingress, members, resource_name, security_group
from provision.clouds.caller import resolve
from provision.clouds.claim import taken
from provision.concurrent import at_once
from provision.errors import CloudInvalidError, CloudUnreachableError, InstanceNotFoundError
from provision.structs import Struct

_SSH: Final = 22
# EC2 is eventually consistent: other calls may not know a thing for a while after the call that made it named it
# (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html gives no bound).
UNSEEN_S: Final = 10.0
_DESCRIBED: Final = re.compile(r"gpuprov [a-z0-9-]+: SSH, launch ([0-9a-f]+)")


class AwsSubnet(Struct):
    """A subnet: it lies in one zone of one VPC."""

    vpc: str
    zone: str


def subnet_of(api: AwsRegionApi, order: base.Order) -> AwsSubnet | None:
    """Ask for the subnet of an order; None, without a call, where the order names none.

    Raises:
        CloudInvalidError: the region has no such subnet.
    """
    if not order.subnet:
        return None
    with cloud_errors("ec2:DescribeSubnets", api.region):
        (raw,) = api.ec2.describe_subnets(SubnetIds=[order.subnet])["Subnets"]
    return AwsSubnet(raw["VpcId"], raw["AvailabilityZone"])


def ensure_group(api: AwsRegionApi, order: base.Order, made: dict[str, str] | None = None) -> str:
    """Make the group of an order, or find it, and open port 22 to the order's networks; returns the group's id.

    The group stands in the VPC of the order's subnet, or in the default one. `made` gets the id of a new one under that of its launch, also
    where a later call fails.

    Raises:
        NameTakenError: another launch has the name.
        CloudInvalidError: a group of that name is not of gpuprov.
    """
    kept = {} if made is None else made
    (group,), networks = at_once(call, (lambda: [_group(api, order, kept)], lambda: resolve(order.ssh_from, api.access.caller_address_url)))
    if networks:  # none where the machine is reached without an open port
        _authorize(api, group, networks)
    place = place_of(order)
    if place and place.adapters:
        _join(api, group)
    return group


def _join(api: AwsRegionApi, group: str) -> None:
    """Let the members of a group reach one another, in and out, which EFA needs: EC2's own way out names networks, and EFA has none."""
    rule = {"GroupId": group, "IpPermissions": [members(group)]}

    def ingress_rule() -> dict[str, Any]:
        reply: dict[str, Any] = api.ec2_once.authorize_security_group_ingress(**rule)
        return reply

    def egress_rule() -> dict[str, Any]:
        reply: dict[str, Any] = api.ec2_once.authorize_security_group_egress(**rule)
        return reply

    for action, work in (("ec2:AuthorizeSecurityGroupIngress", ingress_rule), ("ec2:AuthorizeSecurityGroupEgress", egress_rule)):
        with cloud_errors(action, api.region):
            unless_refused(functools.partial(once_visible, work), "InvalidPermission.Duplicate")


def _group(api: AwsRegionApi, order: base.Order, made: dict[str, str]) -> str:
    subnet = subnet_of(api, order)
    request = security_group(order, subnet.vpc if subnet else "")
    with cloud_errors("ec2:CreateSecurityGroup", api.region):
        reply = unless_refused(lambda: api.ec2_once.create_security_group(**request), "InvalidGroup.Duplicate")
    if reply is not None:
        return made.setdefault(order.launch_id, str(reply["GroupId"]))
    name = resource_name(order)

    def of_name() -> list[dict[str, Any]]:
        return [g for g in groups_named(api, order.name) if not subnet or g["VpcId"] == subnet.vpc]

    def is_enough(groups: list[dict[str, Any]]) -> bool:
        return any(launch_of(g) == order.launch_id for g in groups) or (bool(groups) and all(_names_its_owner(g) for g in groups))

    groups = poll_ec2(of_name, is_enough, timeout_s=UNSEEN_S)  # a call whose reply was lost may have made it a moment ago
    ours = [g for g in groups if launch_of(g) == order.launch_id]
    if ours:
        return str(ours[0]["GroupId"])
    if groups:
        tags = {base.LAUNCH_TAG: launch_of(groups[0]), **tags_of(groups[0])}
        if tags[base.LAUNCH_TAG]:
            raise taken(order.name, f"security group {groups[0]['GroupId']} in {api.region}", tags)
        # Whoever made it may have opened it to anybody.
        msg = f"security group {name} in {api.region} is not of gpuprov"
        raise CloudInvalidError(msg, hint="ask its owner to rename it, or choose another --name")
    msg = f"EC2 has security group {name} in {api.region} but does not show it yet"
    raise CloudUnreachableError(msg, hint="run the same command again; it goes on where it stopped")


def groups_named(api: AwsRegionApi, name: str) -> list[dict[str, Any]]:
    """The groups that are called as that of a launch of this name is, whoever made them."""
    return _groups(api, {"Name": "group-name", "Values": [group_name(name)]})


def launch_of(group: dict[str, Any]) -> str:
    """The launch that a group was made for, by its description, which EC2 shows at once, or by its tags; empty for one that is not ours."""
    described = _DESCRIBED.fullmatch(str(group.get("Description", "")))
    return described[1] if described else tags_of(group).get(base.LAUNCH_TAG, "")


def _names_its_owner(group: dict[str, Any]) -> bool:
    """Whether the tags of a group are shown, which come after its description; one that is not ours has no owner's."""
    return not launch_of(group) or base.OWNER_TAG in tags_of(group)


def _groups(api: AwsRegionApi, by: dict[str, Any]) -> list[dict[str, Any]]:
    with cloud_errors("ec2:DescribeSecurityGroups", api.region):
        groups: list[dict[str, Any]] = api.ec2.describe_security_groups(Filters=[by])["SecurityGroups"]
    return groups


def _authorize(api: AwsRegionApi, group: str, networks: Sequence[str]) -> None:
    def authorize() -> dict[str, Any]:
        reply: dict[str, Any] = api.ec2_once.authorize_security_group_ingress(GroupId=group, IpPermissions=[ingress(networks)])
        return reply

    with cloud_errors("ec2:AuthorizeSecurityGroupIngress", api.region):
        unless_refused(lambda: once_visible(authorize), "InvalidPermission.Duplicate")


def once_visible(work: Callable[[], dict[str, Any]], unknown: str = "InvalidGroup.NotFound") -> dict[str, Any]:
    """Make a call that names a new group, or another new thing; repeat it while EC2 does not know that or an instance profile yet."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: is_refusal(error, unknown) or is_about_profile(error)),
        wait=tenacity.wait_exponential(multiplier=0.1, exp_base=1.5, max=2),
        stop=tenacity.stop_after_delay(UNSEEN_S),
        reraise=True,
    )(work)


def allow(api: AwsRegionApi, name: str, networks: Sequence[str]) -> None:
    """Open port 22 of a launch's groups to these networks, then close it to all others, so that no open session is cut in between.

    Args:
        api: the region.
        name: of the launch.
        networks: all that may reach port 22 from now on.

    Raises:
        InstanceNotFoundError: the launch has no group here.
    """
    groups = [group for group in groups_named(api, name) if launch_of(group)]
    if not groups:
        msg = f"{name!r} has no security group in {api.region}"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what exists")
    for group in groups:
        open_now, extra = _compared(group["GroupId"], group["IpPermissions"], networks)
        new = [network for network in networks if network not in open_now]
        if new:
            _authorize(api, group["GroupId"], new)
        if extra:
            with cloud_errors("ec2:RevokeSecurityGroupIngress", api.region):
                api.ec2.revoke_security_group_ingress(GroupId=group["GroupId"], IpPermissions=extra)


def _compared(group: str, rules: Sequence[dict[str, Any]], networks: Sequence[str]) -> tuple[set[str], list[dict[str, Any]]]:
    """The networks that the rules already admit to port 22, and the parts of the rules that admit anything else to it."""
    open_now: set[str] = set()
    extra: list[dict[str, Any]] = []
    for rule in rules:
        low, high = rule.get("FromPort", 0), rule.get("ToPort", 65_535)
        if rule["IpProtocol"] not in {"tcp", "-1", "6"} or (rule["IpProtocol"] != "-1" and not low <= _SSH <= high):
            continue
        exact = rule["IpProtocol"] in {"tcp", "6"} and low == high == _SSH
        part: dict[str, Any] = {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in rule}
        for key, field in (("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6")):
            sources = [entry[field] for entry in rule.get(key, [])]
            right = {source for source in sources if exact and source in networks}
            open_now |= right
            part[key] = [{field: source} for source in sources if source not in right]
        # The members of the group itself: the launch's own machines, which EFA joins.
        pairs = [pair for pair in rule.get("UserIdGroupPairs", []) if pair.get("GroupId") != group]
        part |= {"UserIdGroupPairs": pairs, "PrefixListIds": rule.get("PrefixListIds", [])}
        part = {key: value for key, value in part.items() if value != []}
        if any(isinstance(value, list) for value in part.values()):
            extra.append(part)
    return open_now, extra

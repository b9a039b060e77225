"""The calls of a launch on AWS, for those who review it: the client's own requests, in their order."""

from __future__ import annotations

from typing import Any

from provision.clouds.aws import data, requests
from provision.clouds.base import NAME_TAG, Order
from provision.clouds.terms import PlannedCall


def calls(order: Order, region: str) -> list[PlannedCall]:
    """The calls that change something, and those that find what they need.

    Args:
        order: of the first attempt; words stand in it for what only the launch decides.
        region: where.
    """
    name, tags = requests.resource_name(order), requests.tag_list(order)
    image = data.image(order.os)
    group = {
        "GroupName": name,
        "Description": f"gpuprov {order.name}: SSH",
        "TagSpecifications": [{"ResourceType": "security-group", "Tags": tags}],
    }
    rule = requests.ingress("<the address of the caller>" if network == "caller" else network for network in order.ssh_from)
    run = {
        **requests.run_instances(order, region, "<the group>"),
        "ClientToken": "<derived from the launch and the attempt>",
        "ImageId": order.image_id or "<the image>",
    }
    planned: list[tuple[str, str, dict[str, Any]]] = [
        ("ec2:DescribeInstances", "find what an earlier run made", {"Filters": [{"Name": f"tag:{NAME_TAG}", "Values": [order.name]}]}),
        ("ec2:CreateSecurityGroup", "make the group", group),
        ("ec2:RunInstances", "make the instance", run),
        ("ec2:GetConsoleOutput", "read the host keys", {"InstanceId": "<the instance>", "Latest": True}),
    ]
    if order.ssh_from:
        opening = {"GroupId": "<the group>", "IpPermissions": [rule]}
        planned.insert(2, ("ec2:AuthorizeSecurityGroupIngress", "open SSH and nothing else", opening))
    if order.image_id is None:
        lookup = {"Name": image.parameter if image else None}
        planned.insert(1, ("ssm:GetParameter", "find the image, whose id the lock does not have", lookup))
    return [PlannedCall("aws", action, purpose, parameters) for action, purpose, parameters in planned]

"""What making an image needs beside a launch: the smallest policy of whoever runs `gpuprov bake`.

Source of the resources and conditions: the Service Authorization Reference of EC2, CreateImage, DeregisterImage, DeleteSnapshot,
EnableImageDeprecation (docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html).
"""

from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws.disk_key import partition
from provision.clouds.aws.permissions import parameters_of, policy_document
from provision.clouds.baked import LINE_TAG
from provision.clouds.terms import Grant

_OWN_IMAGES: Final = ("ec2:DeregisterImage", "ec2:DisableImageDeprecation", "ec2:EnableImageDeprecation")
_READS: Final = (
    *("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeInstanceRefreshes"),
    *("ec2:DescribeImages", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeSnapshots"),
)
ACTIONS: Final = tuple(sorted({"ec2:CreateImage", "ec2:CreateTags", "ec2:DeleteSnapshot", *_OWN_IMAGES, *_READS}))
"""What making, replacing and removing images needs; the machine needs what any launch needs."""


def bake_policy(grant: Grant, line: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The actions, and the policy document with which images of one line are made and removed.

    Args:
        grant: of the machine that an image is made of.
        line: of the images; those of other lines are not touched.
    """
    document = policy_document(
        name=grant.name,
        regions=grant.regions,
        instance_types=grant.instance_types,
        spot=False,
        subnet=grant.subnet,
        places=grant.places,
        parameters=parameters_of(grant.places, grant.os) if grant.os else ("/aws/service/*",),
    )
    made = [f"arn:{partition(region)}:ec2:{region}::{kind}/*" for region in grant.regions for kind in ("image", "snapshot")]
    images, snapshots = made[::2], made[1::2]
    machines = [f"arn:{partition(region)}:ec2:{region}:*:instance/*" for region in grant.regions]
    of_the_line = {"StringEquals": {f"ec2:ResourceTag/{LINE_TAG}": line}}
    tagged = {"StringEquals": {f"aws:RequestTag/{LINE_TAG}": line}}
    tagging = {"StringEquals": {**tagged["StringEquals"], "ec2:CreateAction": ["CreateImage"]}}
    of_the_machine = {"StringEquals": {f"ec2:ResourceTag/{base.NAME_TAG}": grant.name}}
    more = (
        ("AskAboutImages", _READS, ["*"], {"StringEquals": {"aws:RequestedRegion": sorted(grant.regions)}}),
        ("ImageOfTheMachine", ("ec2:CreateImage",), machines, of_the_machine),
        ("Image", ("ec2:CreateImage",), made, tagged),
        ("TagImage", ("ec2:CreateTags",), made, tagging),
        ("OwnImages", _OWN_IMAGES, images, of_the_line),
        ("OwnSnapshots", ("ec2:DeleteSnapshot",), snapshots, of_the_line),
    )
    statements = [
        {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resources, "Condition": condition}
        for sid, actions, resources, condition in more
    ]
    granted = {action for statement in document["Statement"] for action in statement["Action"]}
    return tuple(sorted({*ACTIONS, *granted})), {**document, "Statement": [*document["Statement"], *statements]}

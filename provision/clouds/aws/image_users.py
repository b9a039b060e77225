"""What starts machines from images, in one region of AWS: Auto Scaling groups, and launch templates that no group has.

A group starts its next member from the version of its template that it names, and during a refresh from that of the refresh; its other
versions start nothing. A template that no group has starts a machine from its newest or its default version, for whoever names it.
Groups with a launch configuration are older than launch templates and are not looked at. Source: DescribeAutoScalingGroups,
DescribeInstanceRefreshes and DescribeLaunchTemplateVersions (docs.aws.amazon.com/autoscaling/ec2/APIReference,
docs.aws.amazon.com/AWSEC2/latest/APIReference).
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from provision.clouds.aws import fleet_requests
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors, unless_refused
from provision.concurrent import at_once
from provision.structs import Struct

_GONE: Final = "InvalidLaunchTemplateId.NotFound"
_NEWEST, _DEFAULT = "$Latest", "$Default"
_AT_ONCE: Final = 10  # as many connections as the client keeps


class _Template(Struct):
    """The images of a template's versions, by their numbers and by `$Latest` and `$Default`."""

    images: dict[str, str]

    @classmethod
    def of(cls, rows: Iterable[dict[str, Any]]) -> "_Template":
        """The template of its versions' descriptions."""
        images: dict[str, str] = {}
        newest = 0
        for row in rows:
            number, image = int(row["VersionNumber"]), str(row["LaunchTemplateData"].get("ImageId", ""))
            images[str(number)] = image
            if row.get("DefaultVersion"):
                images[_DEFAULT] = image
            if number > newest:
                newest, images[_NEWEST] = number, image
        return cls(images)


def users_of(api: AwsRegionApi, images: Collection[str]) -> dict[str, tuple[str, ...]]:
    """What starts its next machine from each of these images, in words; an image that nothing starts from is left out.

    Raises:
        CloudError: a call was refused or not answered, so nobody knows.
    """
    groups = _groups(api)
    named = {each["LaunchTemplateId"]: each for group in groups for each in _specified(group)}
    templates = dict(zip(named, at_once(lambda template_id: _template(api, template_id), named, most=_AT_ONCE), strict=True))

    def started(group: dict[str, Any]) -> set[str]:
        chosen = _specified(group)
        if any(set(images) & set(templates[each["LaunchTemplateId"]].images.values()) for each in chosen):
            chosen = [*chosen, *_refreshed(api, group)]
        found = {_template_of(api, templates, each).images.get(each.get("Version") or _DEFAULT, "") for each in chosen}
        return found | {str(each["ImageId"]) for each in _overrides(group) if each.get("ImageId")}

    pairs = [(f"Auto Scaling group {group['AutoScalingGroupName']}", started(group)) for group in groups]
    pairs += [(f"launch template {name}", found) for name, found in _without_group(api, set(templates)).items()]
    using = {image: tuple(what for what, found in pairs if image in found) for image in images}
    return {image: what for image, what in using.items() if what}


def _groups(api: AwsRegionApi) -> list[dict[str, Any]]:
    with cloud_errors("autoscaling:DescribeAutoScalingGroups", api.region):
        pages = api.client("autoscaling").get_paginator("describe_auto_scaling_groups").paginate()
        return [group for page in pages for group in page["AutoScalingGroups"]]


def _overrides(described: dict[str, Any]) -> list[dict[str, Any]]:
    return list(described.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {}).get("Overrides", ()))


def _specified(described: dict[str, Any]) -> list[dict[str, Any]]:
    """The versions of templates that a group names, or the configuration that a refresh brings it to."""
    mixed = described.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
    each = (described.get("LaunchTemplate"), mixed.get("LaunchTemplateSpecification"))
    own = (override.get("LaunchTemplateSpecification") for override in _overrides(described))
    return [found for found in (*each, *own) if found]


def _refreshed(api: AwsRegionApi, group: dict[str, Any]) -> list[dict[str, Any]]:
    """What the refresh of a group that is under way starts members from. The newest comes first, so it is on the first page."""
    name = {"AutoScalingGroupName": group["AutoScalingGroupName"]}
    with cloud_errors("autoscaling:DescribeInstanceRefreshes", api.region):
        rows = api.client("autoscaling").describe_instance_refreshes(**name)["InstanceRefreshes"]
    wanted = [row.get("DesiredConfiguration", {}) for row in rows if row["Status"] not in fleet_requests.ENDED]
    return [each for configuration in wanted for each in _specified(configuration)]


def _template_of(api: AwsRegionApi, known: dict[str, _Template], specified: dict[str, Any]) -> _Template:
    template_id = specified["LaunchTemplateId"]
    return known.get(template_id) or _template(api, template_id)


def _template(api: AwsRegionApi, template_id: str) -> _Template:
    """A template with all of its versions; without any where it is gone, so that its group can start nothing."""
    pager = api.ec2.get_paginator("describe_launch_template_versions")

    def described() -> dict[str, Any]:
        return {"rows": [row for page in pager.paginate(LaunchTemplateId=template_id) for row in page["LaunchTemplateVersions"]]}

    with cloud_errors("ec2:DescribeLaunchTemplateVersions", api.region):
        return _Template.of((unless_refused(described, _GONE) or {}).get("rows", ()))


def _without_group(api: AwsRegionApi, known: Collection[str]) -> dict[str, set[str]]:
    """The images of the newest and the default version of each template that no group has, by the template's name."""
    found: dict[str, set[str]] = {}
    with cloud_errors("ec2:DescribeLaunchTemplateVersions", api.region):
        pages = api.ec2.get_paginator("describe_launch_template_versions").paginate(Versions=[_NEWEST, _DEFAULT])
        for row in (row for page in pages for row in page["LaunchTemplateVersions"]):
            if row["LaunchTemplateId"] not in known:
                found.setdefault(str(row["LaunchTemplateName"]), set()).add(str(row["LaunchTemplateData"].get("ImageId", "")))
    return found

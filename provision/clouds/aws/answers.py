"""What EC2's descriptions mean in our words: pure functions of its answers."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws import data
from provision.clouds.aws.requests import ADDRESS_TAG, LOGIN_TAG, OS_TAG

_GROUP_TAG: Final = "aws:autoscaling:groupName"  # from memory; nobody but AWS can write tags that begin with `aws:`


def tags_of(raw: dict[str, Any]) -> dict[str, str]:
    """The tags of anything that EC2 described."""
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags") or raw.get("TagSet") or []}


def instances_of(raws: Iterable[dict[str, Any]], region: str) -> list[base.Instance]:
    """Our instances for EC2's, the oldest first."""
    return sorted((instance_of(raw, region) for raw in raws), key=lambda i: (i.launched_at, i.name))


def instance_of(raw: dict[str, Any], region: str, known: Mapping[str, str] | None = None) -> base.Instance:
    """Our instance for EC2's, with the tags that are `known` while its own are late.

    Its number among several follows from its place in its own RunInstances.
    """
    tags = {**(known or {}), **tags_of(raw)}
    system = tags.get(OS_TAG, "ubuntu 24.04").partition(" ")
    image = data.image((system[0], system[2]))
    group = tags.get(base.NAME_TAG, "")
    count = base.count_of(tags)
    index = base.count_of(tags, base.FIRST_TAG) + int(raw.get("AmiLaunchIndex", 0))
    return base.Instance(
        name=base.host_name(group, count, index),
        group=group,
        id=raw["InstanceId"],
        cloud="aws",
        region=region,
        zone=raw.get("Placement", {}).get("AvailabilityZone", ""),
        type=raw["InstanceType"],
        market=raw.get("InstanceLifecycle", "on-demand"),
        state=raw["State"]["Name"],
        address=raw.get("PrivateIpAddress" if tags.get(ADDRESS_TAG) == "private" else "PublicIpAddress", ""),
        login=tags.get(LOGIN_TAG) or (image.login if image else "ubuntu"),
        launch_id=tags.get(base.LAUNCH_TAG, ""),
        profile=tags.get(base.PROFILE_TAG, ""),
        profile_digest=tags.get(base.PROFILE_DIGEST_TAG, ""),
        owner=tags.get(base.OWNER_TAG, ""),
        launched_at=raw["LaunchTime"].astimezone(dt.UTC).isoformat(timespec="seconds"),
        deadline=tags.get(base.DEADLINE_TAG, ""),
        count=count,
        tags=tuple(sorted(base.added(tags).items())),
        in_fleet=tags.get(_GROUP_TAG) == f"gpuprov-{group}",
    )

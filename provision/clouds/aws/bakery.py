"""Images that gpuprov makes itself, in one region of AWS.

The machine is stopped before, so its disk is whole. Its root volume was encrypted at its launch, and so are the snapshots: CreateImage
cannot change that. The name of an image has its digest and is unique in an account and region: two who bake the same get one image.
Source of the calls: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html and its neighbours.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from provision.clouds.aws.answers import tags_of
from provision.clouds.aws.api import AwsRegionApi, poll_ec2
from provision.clouds.aws.errors import cloud_errors, is_refusal, unless_refused
from provision.clouds.aws.image_choice import ami_of, root_device, wanted
from provision.clouds.aws.image_users import users_of
from provision.clouds.aws.images import Images
from provision.clouds.baked import DIGEST_TAG, LINE_TAG, PARTS, BakedImage, BaseImage, ImageFailedError, Recipe, part_tag
from provision.clouds.baked import tags_of as tags_for
from provision.clouds.base import OWNER_TAG, Instance, Order, Step

_TAKEN: Final = "InvalidAMIName.Duplicate"
_UNKNOWN: Final = ("InvalidAMIID.NotFound", "InvalidAMIID.Unavailable")
_UNSEEN_S: Final = 60.0  # EC2 may not show a new image at once
_SNAPSHOT_PLURAL: Final = {True: "snapshot", False: "snapshots"}
# `DeprecateAt` is rounded to the minute and may not be in the past (API_EnableImageDeprecation).
_AHEAD: Final = dt.timedelta(minutes=2)
_STATES: Final[dict[str, Literal["pending", "available", "failed"]]] = {
    "available": "available",
    "pending": "pending",
    "transient": "pending",
}


def name_of(recipe: Recipe, base_id: str) -> str:
    """The name of an image; EC2 takes no colon, and 128 characters at most."""
    return f"gpuprov/{recipe.line}/sha256-{recipe.digest(base_id)}"


def request_of(instance_id: str, recipe: Recipe, base_id: str, added: dict[str, str], devices: Sequence[str] = ()) -> dict[str, Any]:
    """CreateImage of a stopped machine: tags on the image and its snapshots, and of its disks the root alone.

    Args:
        instance_id: the machine.
        recipe: what the image is made of.
        base_id: the image that the machine started from.
        added: the tags of its profile.
        devices: its other disks, which are left out.
    """
    name = name_of(recipe, base_id)
    tags = [{"Key": key, "Value": value} for key, value in sorted({"Name": name, **tags_for(recipe, base_id, added)}.items())]
    without = [{"DeviceName": device, "NoDevice": ""} for device in devices]
    return {
        "InstanceId": instance_id,
        "Name": name,
        "Description": f"{recipe.line}, made by gpuprov from {base_id}",
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("image", "snapshot")],
        **({"BlockDeviceMappings": without} if without else {}),
    }


class AwsBakery:
    """See `baked.Bakery`."""

    def __init__(self, api: AwsRegionApi, images: Images) -> None:
        self._api = api
        self._known = images

    def base(self, order: Order) -> BaseImage:
        """The image of the order's place or system."""
        found = self._known.find(wanted(order), root_device(order))
        return BaseImage(found.id, found.name)

    def images(self, line: str | None = None) -> list[BakedImage]:
        """Ours in this region, by tag."""
        tag = {"Name": f"tag:{LINE_TAG}", "Values": [line]} if line else {"Name": "tag-key", "Values": [LINE_TAG]}
        return self._described([tag])

    def _described(self, filters: list[dict[str, Any]]) -> list[BakedImage]:
        with cloud_errors("ec2:DescribeImages", self._api.region):
            pages = self._api.ec2.get_paginator("describe_images").paginate(Owners=["self"], Filters=filters, IncludeDeprecated=True)
            found = [self._image(raw) for page in pages for raw in page["Images"]]
        return sorted(found, key=lambda image: (image.made_at, image.id), reverse=True)

    def _image(self, raw: dict[str, Any]) -> BakedImage:
        tags, ami = tags_of(raw), ami_of(raw)
        ends = raw.get("DeprecationTime")
        snapshots = (mapping.get("Ebs", {}).get("SnapshotId", "") for mapping in raw.get("BlockDeviceMappings", []))
        return BakedImage(
            id=ami.id,
            name=ami.name,
            line=tags.get(LINE_TAG, ""),
            digest=tags.get(DIGEST_TAG, ""),
            cloud="aws",
            region=self._api.region,
            state=_STATES.get(raw.get("State", ""), "failed"),
            made_at=str(raw.get("CreationDate", ""))[:19],
            size_gb=ami.root_gb,
            deprecated=bool(ends),
            encrypted=ami.encrypted,
            owner=tags.get(OWNER_TAG, ""),
            parts={part: tags[part_tag(part)] for part in PARTS if part_tag(part) in tags},
            snapshots=tuple(filter(None, snapshots)),
            why=str(raw.get("StateReason", {}).get("Message", "")),
        )

    def make(self, instance: Instance, recipe: Recipe, base: BaseImage) -> BakedImage:
        """CreateImage; the name that is taken is the same image, by somebody else or an earlier try of ours."""
        (raw,) = self._api.instances([{"Name": "instance-id", "Values": [instance.id]}])
        root = raw.get("RootDeviceName", "/dev/sda1")
        others = [m["DeviceName"] for m in raw.get("BlockDeviceMappings", []) if m["DeviceName"] != root]
        request = request_of(instance.id, recipe, base.id, dict(instance.tags), others)
        with cloud_errors("ec2:CreateImage", self._api.region):
            try:
                image_id = str(self._api.ec2_once.create_image(**request)["ImageId"])
            except Exception as error:
                if not is_refusal(error, _TAKEN):
                    raise
                image_id = ""
        one = {"Name": "image-id", "Values": [image_id]} if image_id else {"Name": "name", "Values": [request["Name"]]}
        for image in poll_ec2(lambda: self._described([one]), lambda found: any(each.digest for each in found), timeout_s=_UNSEEN_S):
            if image_id and not image.digest:
                break  # it is ours, and its tags are late
            if image.digest != recipe.digest(base.id):
                msg = f"{image.id} in {self._api.region} has the name {image.name}, and is not of that digest"
                raise ImageFailedError(msg, hint="somebody made or changed it by hand: deregister it, and run the same command again")
            return image
        msg = f"{self._api.region} accepted the image {image_id or request['Name']}, and does not show it with its tags yet"
        raise ImageFailedError(msg, hint="run the same `gpuprov bake make` again; it goes on with that image once it shows")

    def wait(self, image: BakedImage, *, timeout_s: float, on_step: Step) -> BakedImage:
        """Poll the image; its snapshot says how far it is."""

        def ask() -> BakedImage | None:
            current = next(iter(self._described([{"Name": "image-id", "Values": [image.id]}])), None)
            if current is not None and current.state == "pending":
                on_step(f"waiting for {image.id}{self._progress(current.snapshots)}")
            return current

        found = poll_ec2(ask, lambda current: current is None or current.state != "pending", timeout_s=timeout_s)
        if found is not None and found.state == "available":
            return found
        state = "is gone" if found is None else f"is still pending after {timeout_s:g} s" if found.state == "pending" else "failed"
        msg = f"the image {image.id} in {self._api.region} {state}{f': {found.why}' if found and found.why else ''}"
        raise ImageFailedError(
            msg, hint="run the same `gpuprov bake make` again; it goes on with an image that is pending, and replaces one that failed"
        )

    def _progress(self, snapshots: Sequence[str]) -> str:
        """How much of the snapshots is written, where EC2 shows them by now."""
        if not snapshots:
            return ""
        with cloud_errors("ec2:DescribeSnapshots", self._api.region):
            filters = [{"Name": "snapshot-id", "Values": list(snapshots)}]
            found = self._api.ec2.describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
        written = [str(snapshot["Progress"]) for snapshot in found if snapshot.get("Progress")]
        return f", {' and '.join(written)} written" if written else ""

    def deprecate(self, images: Sequence[BakedImage], *, lift: bool = False) -> None:
        """EnableImageDeprecation, from now on, or DisableImageDeprecation.

        A group or template that names a deprecated image goes on launching from it (EC2 User Guide, "Deprecate an AMI").
        """
        ends = (dt.datetime.now(dt.UTC) + _AHEAD).replace(second=0, microsecond=0)
        for image in images:
            if lift:
                with cloud_errors("ec2:DisableImageDeprecation", self._api.region):
                    self._api.ec2.disable_image_deprecation(ImageId=image.id)
            else:
                with cloud_errors("ec2:EnableImageDeprecation", self._api.region):
                    self._api.ec2.enable_image_deprecation(ImageId=image.id, DeprecateAt=ends)

    def users(self, images: Sequence[BakedImage]) -> Mapping[str, tuple[str, ...]]:
        """The region's groups and launch templates."""
        return users_of(self._api, [image.id for image in images])

    def remove(self, images: Sequence[BakedImage], *, on_step: Step) -> list[str]:
        """DeregisterImage, which takes the snapshots along in the same call, so that none of them stays."""
        phrases = []
        for image in images:
            on_step(f"removing {image.id} with {len(image.snapshots)} {_SNAPSHOT_PLURAL[len(image.snapshots) == 1]}")
            with cloud_errors("ec2:DeregisterImage", self._api.region):
                unless_refused(lambda: self._api.ec2.deregister_image(ImageId=image.id, DeleteAssociatedSnapshots=True), *_UNKNOWN)  # noqa: B023
            phrases.append(f"image {image.id} in {self._api.region}")
        return phrases

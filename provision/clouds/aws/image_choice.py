"""Which image an order starts from: its own, its lock's, or the newest of its system; and what is wrong with the others.

DescribeImages is asked where an owner and a name find the image, and for every image of one's own, whose root device nobody else knows.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws import data
from provision.clouds.aws.own_image import AwsOwnImage
from provision.errors import ImageNotFoundError
from provision.structs import Struct

FIXED_FILTERS: Final = {"state": "available", "architecture": "x86_64", "virtualization-type": "hvm", "ena-support": "true"}
"""What a form of another tool filters by, beside the name: the stack is for x86_64, and no GPU machine starts without ENA."""
_NAMED: Final = 3  # images that a refusal names


class Wanted(Struct):
    """How an order's image is found, and what it must fit.

    Attributes:
        id, parameter, owner, name: one way to find it: the id, a parameter, or an owner and a pattern.
        own: whether it is the profile's own image, or one that was baked.
        instance_type: what starts from it.
    """

    instance_type: str
    id: str = ""
    parameter: str = ""
    owner: str = ""
    name: str = ""
    own: bool = False

    @property
    def described(self) -> bool:
        """Whether DescribeImages is asked."""
        return self.own or bool(self.name)

    def __str__(self) -> str:
        if self.name:
            return f"{self.name!r} of {self.owner}"
        return self.id or self.parameter


class Ami(Struct):
    """An image as EC2 describes it, as far as a launch needs it; `root_gb` is the least size of its root volume."""

    id: str
    root_device: str
    name: str = ""
    owner: str = ""
    created: str = ""
    root_gb: int = 0
    encrypted: bool = False


def own_of(place: Any) -> AwsOwnImage | None:
    """The image that a place names; None where there is none, or no place."""
    image: AwsOwnImage | None = getattr(place, "image", None)
    return image


def wanted(order: base.Order) -> Wanted:
    """How the image of an order is found.

    Raises:
        ImageNotFoundError: the catalog has no image of its system.
    """
    if order.baked:
        return Wanted(order.instance_type, id=order.baked, own=True)
    own = own_of(order.place)
    if own is not None:
        keys = {"id": own.id or "", "parameter": own.parameter or "", "owner": own.owner or "", "name": own.name or ""}
        return Wanted(order.instance_type, own=True, **keys)
    if order.image_id is not None:
        return Wanted(order.instance_type, id=order.image_id)
    return of_system(data.image_of(order.os), order.instance_type)


def of_system(record: data.AwsImage, instance_type: str = "") -> Wanted:
    """How the newest image of a system is found."""
    if record.parameter:
        return Wanted(instance_type, parameter=record.parameter)
    return Wanted(instance_type, owner=record.owner or "", name=record.pattern or "")


def root_device(order: base.Order) -> str:
    """The name of the root device where the image was not described: that of the system's images."""
    record = data.image(order.os)
    return record.root_device if record else "/dev/sda1"


def choose(raws: Iterable[dict[str, Any]], want: Wanted, region: str, now: dt.datetime | None = None) -> Ami:
    """The newest image that the type can start from.

    Args:
        raws: what DescribeImages answered.
        want: how they were found, and the type.
        region: for messages.
        now: what an image's deprecation is compared with.

    Raises:
        ImageNotFoundError: there is none, or none that can be used.
    """
    images = sorted(raws, key=lambda raw: (str(raw.get("CreationDate", "")), raw["ImageId"]), reverse=True)
    refusals = {raw["ImageId"]: problem(raw, want.instance_type, now or dt.datetime.now(dt.UTC)) for raw in images}
    usable = next((raw for raw in images if not refusals[raw["ImageId"]]), None)
    if usable is not None:
        return ami_of(usable)
    if not refusals:
        msg = f"{region} has no image {want}"
        hint = "see its owner, name and region: an image belongs to one region, and its owner must have shared it with this account"
        raise ImageNotFoundError(msg, hint=hint)
    said = "; ".join(f"{image_id} {why}" for image_id, why in list(refusals.items())[:_NAMED])
    more = f"; and {len(refusals) - _NAMED} more" if len(refusals) > _NAMED else ""
    msg = f"no image {want} in {region} can be used: {said}{more}"
    raise ImageNotFoundError(msg, hint="name another image in `image:` of the place, or leave that out for the system's own")


def problem(raw: dict[str, Any], instance_type: str, now: dt.datetime) -> str:
    """Why an image is not used; empty where it can be. The words follow its id."""
    checks: tuple[Callable[[], str], ...] = (
        lambda: "" if raw.get("State", "available") == "available" else f"is {raw['State']}",
        lambda: "is a copy in AWS's Marketplace, which needs a subscription" if raw.get("ProductCodes") else "",
        lambda: "is of Windows" if raw.get("Platform") else "",
        lambda: _deprecated(raw, now),
        lambda: "" if raw.get("VirtualizationType", "hvm") == "hvm" else f"is of {raw['VirtualizationType']} virtualization",
        lambda: "has no ENA driver, without which no GPU machine starts" if raw.get("EnaSupport") is False else "",
        lambda: "starts from no EBS volume" if raw.get("RootDeviceType", "ebs") != "ebs" else "",
        lambda: "is not allowed in this account (Allowed AMIs)" if raw.get("ImageAllowed") is False else "",
        lambda: _unfit(raw, instance_type),
    )
    return next((why for check in checks if (why := check())), "")


def _deprecated(raw: dict[str, Any], now: dt.datetime) -> str:
    moment = base.parsed_deadline(str(raw.get("DeprecationTime") or ""))
    return f"is deprecated since {moment:%F}" if moment and moment <= now else ""


def _unfit(raw: dict[str, Any], instance_type: str) -> str:
    """Why a type does not start from an image: another processor, or another firmware."""
    record = data.types().get(instance_type)
    machine = record.machine if record else "x86_64"
    architecture = raw.get("Architecture", machine)
    if architecture != machine:
        return f"is for {architecture}, and {instance_type or 'the stack'} has {machine}"
    mode = raw.get("BootMode", "")
    if record and mode in {"uefi", "legacy-bios"} and record.boot and mode not in record.boot:
        return f"starts by {mode} only, and {instance_type} by {' or '.join(record.boot)}"
    return ""


def ami_of(raw: dict[str, Any]) -> Ami:
    """What a launch needs of an image."""
    device = raw.get("RootDeviceName") or "/dev/sda1"
    root: dict[str, Any] = next((m["Ebs"] for m in raw.get("BlockDeviceMappings", []) if m.get("DeviceName") == device and "Ebs" in m), {})
    return Ami(
        id=raw["ImageId"],
        root_device=device,
        name=raw.get("Name", ""),
        owner=raw.get("OwnerId", ""),
        created=str(raw.get("CreationDate", ""))[:10],
        root_gb=int(root.get("VolumeSize") or 0),
        encrypted=bool(root.get("Encrypted")),
    )

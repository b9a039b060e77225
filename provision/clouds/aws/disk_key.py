"""A key of KMS that an account keeps itself, for the volumes of a machine: how it is written, where it is valid, and what its use needs.

What the caller needs is "Permissions for users" of docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html. EC2 tries the
key only after it has answered RunInstances, so `power.py` reads what became of the instance.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints

from provision.clouds.own import CloudOption
from provision.errors import UsageError

if TYPE_CHECKING:
    from provision.clouds.base import Order

_REGION: Final = "[a-z]{2}(?:-[a-z]+){1,3}-[0-9]"
_ALIAS: Final = "alias/[A-Za-z0-9/_-]{1,250}"
_ID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}"
_ARN: Final = re.compile(rf"(arn:aws[a-z-]*:kms):({_REGION}):([0-9]{{12}}):(key/(?:{_ID})|{_ALIAS})")
_OF_AWS: Final = "alias/aws/"
AwsDiskKey = Annotated[
    str,
    StringConstraints(pattern=rf"^(?:arn:aws[a-z-]*:kms:{_REGION}:[0-9]{{12}}:(?:key/(?:{_ID})|{_ALIAS})|{_ALIAS})$", max_length=400),
    Field(description="a key of KMS: the ARN of a key or an alias, or alias/NAME, which each region has its own of"),
]
_USE: Final = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo")
_GRANT: Final = "kms:CreateGrant"
ACTIONS: Final = tuple(sorted((_GRANT, *_USE)))
"""What the caller needs on the key."""
_ENCRYPTED_IMAGE: Final = CloudOption(
    "image",
    "an image whose snapshot is encrypted needs its own key as well; `image.snapshot_key` names it",
    severity="note",
    title="An encrypted image needs the use of its own key as well",
    reason="EC2 reads the snapshot with the key that it was encrypted with: that key's policy must allow kms:DescribeKey, kms:Decrypt, "
    "kms:CreateGrant and kms:ReEncrypt* to whoever launches; an image shared by another account cannot use that account's aws/ebs",
    narrower="`image.snapshot_key`, with which the computed permissions have that key, and no other",
)


def partition(region: str) -> str:
    """What ARNs of a region begin with after `arn:`."""
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"


def problem(key: str, regions: Sequence[str], written: str = "disk_key") -> str:
    """Why a key cannot be that of volumes in these regions, in words for whoever wrote it under this name; empty when it can."""
    parsed = _ARN.fullmatch(key)
    name = parsed[4] if parsed else key
    if name.startswith(_OF_AWS):
        return f"{name} is AWS's own key, which encrypts disks anyway; name one of yours, or leave {written} out"
    if parsed is None:
        return ""
    if parsed[2] not in regions and regions:
        return f"the key is of {parsed[2]}, and the place names {', '.join(regions)}; a key encrypts disks of its own region"
    if len(set(regions)) > 1 and not name.startswith("key/mrk-"):
        return (
            f"this key exists in {parsed[2]} alone, and the place names other regions, too; write a place for each region, "
            "a multi-Region key (mrk-), or alias/NAME"
        )
    return ""


def in_region(key: str, region: str) -> str:
    """The key as that region knows it: a multi-Region key has an ARN in each."""
    parsed = _ARN.fullmatch(key)
    return f"{parsed[1]}:{region}:{parsed[3]}:{parsed[4]}" if parsed and parsed[4].startswith("key/mrk-") else key


def is_arn_of_key(key: str) -> bool:
    """Whether it is the ARN of a key, and not an alias that stands for one."""
    parsed = _ARN.fullmatch(key)
    return parsed is not None and parsed[4].startswith("key/")


def of(order: Order, region: str) -> str | None:
    """The key of an order's place in a region; None where the place names none."""
    key: str | None = getattr(order.place, "disk_key", None)
    return in_region(key, region) if key is not None else None


def by_use(order: Order, region: str) -> tuple[str | None, str | None]:
    """The key of the disks, and the key of the image's own snapshot, as a region knows them; None where the place names none."""
    disks, snapshot = (in_region(key, region) if key is not None else None for key in _written(order.place))
    return disks, snapshot


def in_use(order: Order, region: str) -> tuple[str, ...]:
    """Every key that a launch in a region uses, once."""
    return tuple(dict.fromkeys(filter(None, by_use(order, region))))


def _written(place: Any) -> tuple[str | None, str | None]:
    return getattr(place, "disk_key", None), getattr(getattr(place, "image", None), "snapshot_key", None)


def statements(places: Iterable[Any]) -> list[dict[str, Any]]:
    """The statements of a policy that allow the use of the places' keys, and of no others.

    A statement cannot name an alias as its resource. The condition on the key's aliases stands for it:
    docs.aws.amazon.com/kms/latest/developerguide/alias-authorization.html.
    """
    resources: dict[str, list[str]] = {"": []}
    for place in places:
        for written, region in itertools.product(filter(None, _written(place)), place.regions):
            key = in_region(written, region)
            parsed = _ARN.fullmatch(key)
            if parsed and parsed[4].startswith("key/"):
                resources[""].append(key)
            else:
                whose = f"{parsed[1]}:{parsed[2]}:{parsed[3]}" if parsed else f"arn:{partition(region)}:kms:{region}:*"
                resources.setdefault(parsed[4] if parsed else key, []).append(f"{whose}:key/*")
    found: list[dict[str, Any]] = []
    for number, (alias, arns) in enumerate(resources.items()):
        if arns:
            named = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [alias]}} if alias else {}
            grant = {**named, "Bool": {"kms:GrantIsForAWSResource": "true"}}
            common = {"Effect": "Allow", "Resource": list(dict.fromkeys(arns))}
            suffix = str(number) if number else ""
            use: dict[str, Any] = {"Sid": f"UseDiskKey{suffix}", "Action": list(_USE), **common}
            found.append({**use, "Condition": named} if named else use)
            found.append({"Sid": f"GrantDiskKey{suffix}", "Action": [_GRANT], **common, "Condition": grant})
    return found


def group_statements(region: str) -> list[dict[str, Any]]:
    """What the policy of a key needs beside before a group can launch with it: the group's role has no right to keys of the account's own.

    docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html, example 1; of a key of another account,
    example 2. In the policy of a key, `*` is that key.
    """
    role = f"arn:{partition(region)}:iam::ACCOUNT-ID:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    whose: dict[str, Any] = {"Effect": "Allow", "Principal": {"AWS": [role]}, "Resource": "*"}
    use = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    grant = {"Action": [_GRANT], "Condition": {"Bool": {"kms:GrantIsForAWSResource": True}}}
    return [{"Sid": "GroupUse", **whose, "Action": use}, {"Sid": "GroupGrant", **whose, **grant}]


def store_statements(key: str) -> list[dict[str, Any]]:
    """What whoever writes and reads objects under a key needs of it, by way of S3 alone; nothing without a key.

    docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html, "Permissions";
    docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html, kms:ViaService.

    Raises:
        UsageError: it is not the ARN of a key.
    """
    if not key:
        return []
    parsed = _ARN.fullmatch(key)
    if parsed is None or not is_arn_of_key(key):
        msg = f"{key!a} is not the ARN of a key of KMS"
        raise UsageError(msg, hint="`aws s3api get-bucket-encryption --bucket BUCKET` shows the key, and `aws kms describe-key` its ARN")
    service = f"s3.{parsed[2]}.amazonaws.com" + (".cn" if parsed[2].startswith("cn-") else "")
    use: dict[str, Any] = {"Sid": "UseStoreKey", "Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": [key]}
    return [{**use, "Condition": {"StringEquals": {"kms:ViaService": service}}}]


def _snapshot(key: str) -> CloudOption:
    return CloudOption(
        "image",
        f"the image's disk is read with {key}",
        severity="note",
        title="The image's own disk is under a key",
        reason=f"EC2 reads the image's snapshot with {key}, so the launch may use that key, and a launch without it ends at once",
    )


def options(place: Any, *, nvme: bool) -> tuple[CloudOption, ...]:
    """What the plan and the review say about the key of a place.

    Args:
        place: of a profile.
        nvme: whether its machine type has disks inside.
    """
    image = getattr(place, "image", None)
    own = () if image is None else (_snapshot(image.snapshot_key) if getattr(image, "snapshot_key", None) else _ENCRYPTED_IMAGE,)
    if place.disk_key is None:
        return own
    key = CloudOption(
        "disk_key",
        f"disks encrypted with {place.disk_key}",
        title="Disks are encrypted with a key of your own",
        reason=f"{place.disk_key}: whoever disables it makes the disks unreadable, and its use is recorded in the account's trail",
        safer=True,
    )
    inside = CloudOption(
        "disk_key",
        "the NVMe disks inside the machine take no key",
        severity="note",
        title="The machine's own NVMe disks are not under the key",
        reason="the hardware encrypts them with a key that AWS makes for each machine and destroys when it stops",
        narrower="`disks.data.source: volume`",
    )
    return (key, *([inside] if nvme else []), *own)

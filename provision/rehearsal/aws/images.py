"""Images of the embedded EC2: the catalogue's own in every region, copies and old ones that must not be chosen, and those of the settings.

The fields are those of botocore's `Image`: a name filter with wildcards, owners, product codes of the Marketplace, a time of deprecation,
architecture and firmware. moto's own 1300 images of 2017 are left out.
"""

import datetime as dt
import hashlib
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses.amis import AmisResponse
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

from provision.clouds.aws import data
from provision.clouds.aws.disk_key import in_region
from provision.clouds.aws.own_image import AwsOwnImage
from provision.rehearsal.aws import late
from provision.rehearsal.aws.guardrails import is_admitted, is_hidden
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse, tags_of

_OWNERS: Final = {"ubuntu": "099720109477", "debian": "136693071363", "amazon-linux": "137112412989"}  # docs/sources/clouds.md §10.1
_DEEP_LEARNING: Final = "898082745236"  # the account of AWS's Deep Learning images (from memory); their alias is amazon
_MARKETPLACE: Final = "679593333241"
_ACCOUNT: Final = "123456789012"
_DAY: Final = "2026-11-01"
_SNAPSHOT_GB: Final = 10
_FILTERS: Final = {
    "architecture": "Architecture",
    "ena-support": "EnaSupport",
    "image-id": "ImageId",
    "name": "Name",
    "owner-id": "OwnerId",
    "root-device-type": "RootDeviceType",
    "state": "State",
    "virtualization-type": "VirtualizationType",
}
Row = dict[str, Any]


def patch(settings: AwsSettings) -> None:
    """Change what moto answers about images, and about the parameters that hold their ids."""
    original = SimpleSystemManagerBackend.get_parameter

    @method_of(AmiBackend)
    def _load_amis(self: Any) -> None:
        for row in rows_of(self.region_name, settings):
            _add(self, row)

    @method_of(SimpleSystemManagerBackend)
    def get_parameter(self: Any, name: str) -> Parameter | None:
        row = next((row for row in rows_of(self.region_name, settings) if row.get("Parameter") == name), None)
        if row is None:
            return original(self, name)
        return Parameter(self.account_id, name, row["ImageId"], "String", None, None, None, utcnow(), 1, "aws:ec2:image")

    @method_of(AmisResponse)
    def describe_images(self: Any) -> ActionResult:
        self.error_on_dryrun()
        every = (row for row in rows_of(self.ec2_backend.region_name, settings) if not late.is_late(row["ImageId"], settings))
        rows = [row for row in every if not is_hidden(settings, str(row["OwnerId"]))]
        ids, owners = self._get_param("ImageIds", []), self._get_param("Owners", [])
        unknown = sorted(set(ids) - {row["ImageId"] for row in rows})
        if unknown:
            refuse("InvalidAMIID.NotFound", f"The image id '[{', '.join(unknown)}]' does not exist")
        filters = self._filters_from_querystring()
        strange = sorted(name for name in filters if name not in _FILTERS and name != "tag-key" and not name.startswith("tag:"))
        if strange:
            refuse("InvalidParameterValue", f"The filter '{strange[0]}' is invalid")
        old_too = bool(ids) or self._get_bool_param("IncludeDeprecated", if_none=False)
        chosen = [
            row
            for row in rows
            if (not ids or row["ImageId"] in ids)
            and (not owners or _is_of(row, owners))
            and all(any(fnmatchcase(each, value) for each in _filtered(row, name) for value in values) for name, values in filters.items())
            and (old_too or not is_deprecated(row))
        ]
        return ActionResult({"Images": [_answered(row) | _admission(settings, str(row["OwnerId"])) for row in chosen]})


def _filtered(row: Row, name: str) -> list[str]:
    """What a filter of that name is compared with."""
    tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", [])}
    if name == "tag-key":
        return list(tags)
    if name.startswith("tag:"):
        return [value for key, value in tags.items() if key == name.removeprefix("tag:")]
    return [_text(row.get(_FILTERS[name]))]


def _admission(settings: AwsSettings, owner: str) -> dict[str, bool]:
    """What an account with Allowed AMIs says of each image; others say nothing."""
    return {} if settings.allowed_amis is None else {"ImageAllowed": is_admitted(settings, owner)}


_OURS: Final = frozenset({"Parameter", "Login", "Region", "System", "SnapshotKey", "Ready", "Failure"})  # of a row, and not EC2's
_FIELDS: Final = {"Architecture": "x86_64", "VirtualizationType": "hvm", "EnaSupport": True, "State": "available", "Public": True}


def rows_of(region: str, settings: AwsSettings) -> Iterator[Row]:
    """Every image of a region as DescribeImages shows it; with its parameter and its first user, where there are."""
    for record in data.aws().images:
        owner = record.owner or _OWNERS[record.os]
        name = f"{record.os}/images/hvm-ssd/{record.os}-{record.version}-amd64-server-rehearsal"
        name = (record.pattern or name).replace("*", "-20261101.0-", 1).replace("*", "")
        key = record.parameter or f"{record.owner} {record.pattern}"
        newest = _row(region, key, OwnerId=owner, Name=name, RootDeviceName=record.root_device, Login=record.login)
        newest["System"] = f"{record.os} {record.version}"
        yield {**newest, **({"Parameter": record.parameter} if record.parameter else {})}
        if record.pattern:  # what a hasty choice would take: newer ones of other kinds
            yield from _traps(region, record, name)
    for image in data.aws().driver_images:
        name = f"Deep Learning Base OSS Nvidia Driver GPU AMI ({image.os.title()} {image.version}) 20260717"
        deep = _row(region, image.parameter, OwnerId=_DEEP_LEARNING, Name=name, ImageOwnerAlias="amazon", Parameter=image.parameter)
        yield {**deep, "RootDeviceName": "/dev/sda1", "Login": "ubuntu"}
    for given in settings.amis:
        if given.get("Region", region) == region:
            named = str(given.get("ImageId") or image_id(region, str(given)))
            row = {**_row(region, named, OwnerId=_ACCOUNT, Public=False), **given, "ImageId": named}
            if "SnapshotKey" in given:
                row["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] = True
            yield row
    yield from (_made(row, settings) for row in settings.made_images if row["Region"] == region)


def _made(row: Row, settings: AwsSettings) -> Row:
    """An image that a client made, in the state that it has by now; its tags are shown as late as those of anything."""
    ready, ami = row["Ready"] <= time.time(), row["ImageId"]
    tags = {} if late.is_late(f"tags {ami}", settings, settings.tags_s) else tags_of(row["Region"], row["ImageId"])
    state = "pending" if not ready else "failed" if row["Failure"] else "available"
    reason = {"StateReason": {"Code": "Client.InternalError", "Message": row["Failure"]}} if state == "failed" else {}
    whole = {**_row(row["Region"], row["ImageId"], OwnerId=_ACCOUNT), **row, "State": state, **reason}
    return {**whole, "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())]}


def _answered(row: Row) -> Row:
    """The row without what is ours; moto writes the day of creation itself."""
    fields = {key: value for key, value in row.items() if key not in _OURS}
    return {**fields, "CreationDate": dt.datetime.fromisoformat(row["CreationDate"])}


def _traps(region: str, record: data.AwsImage, name: str) -> Iterator[Row]:
    common = {"RootDeviceName": record.root_device, "CreationDate": "2026-11-15T00:00:00.000Z", "Login": record.login}
    code = [{"ProductCodeId": "0123456789abcdefghijklmno", "ProductCodeType": "marketplace"}]
    yield _row(
        region, f"{name} marketplace", OwnerId=_MARKETPLACE, Name=name, ProductCodes=code, ImageOwnerAlias="aws-marketplace", **common
    )
    arm = name.replace("x86_64", "aarch64")
    yield _row(region, arm, OwnerId=record.owner, Name=arm, Architecture="arm64", BootMode="uefi", **common)
    ended = {**common, "CreationDate": "2025-01-15T00:00:00.000Z", "DeprecationTime": "2026-01-15T00:00:00.000Z"}
    yield _row(region, f"{name} old", OwnerId=record.owner, Name=name.replace("20261101", "20250115"), **ended)


def _row(region: str, key: str, **fields: Any) -> Row:
    device = fields.get("RootDeviceName", "/dev/sda1")
    disk = {"VolumeSize": _SNAPSHOT_GB, "VolumeType": "gp3", "Encrypted": False, "SnapshotId": f"snap-{_digest(region, key)}"}
    return {
        **_FIELDS,
        "ImageId": image_id(region, key),
        "Name": key,
        "CreationDate": f"{_DAY}T00:00:00.000Z",
        "ImageType": "machine",
        "Hypervisor": "xen",
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "RootDeviceType": "ebs",
        "RootDeviceName": device,
        "BootMode": "uefi-preferred",
        "BlockDeviceMappings": [{"DeviceName": device, "Ebs": {**disk, "DeleteOnTermination": True}}],
        **fields,
    }


def of_id(region: str, ami: str, settings: AwsSettings) -> Row | None:
    """One image of a region."""
    return next((row for row in rows_of(region, settings) if row["ImageId"] == ami), None)


def check(backend: Any, row: Row | None, ami: str, instance_type: str, mappings: list[dict[str, Any]]) -> None:
    """Refuse an image that a type does not start from, as RunInstances does; one of the settings is made known to moto."""
    if row is None:
        refuse("InvalidAMIID.NotFound", f"The image id '[{ami}]' does not exist")
    if ami not in backend.amis:
        _add(backend, row)
    if row["State"] != "available":
        refuse("InvalidAMIID.Unavailable", f"The image ID '{ami}' is no longer available")
    if row.get("ProductCodes"):
        words = "In order to use this AWS Marketplace product you need to accept terms and subscribe."
        refuse("OptInRequired", words)
    machine, architecture = INSTANCE_TYPES[instance_type]["ProcessorInfo"]["SupportedArchitectures"], row["Architecture"]
    if architecture not in machine:
        words = f"The architecture '{machine[-1]}' of the specified instance type does not match the architecture '{architecture}' of the"
        refuse("InvalidParameterValue", f"{words} specified AMI.")
    modes, mode = INSTANCE_TYPES[instance_type].get("SupportedBootModes", []), row.get("BootMode", "")
    if modes and mode in {"uefi", "legacy-bios"} and mode not in modes:
        refuse("InvalidParameterValue", f"The boot mode '{mode}' of the AMI is not supported by instance type {instance_type}.")
    root = row["BlockDeviceMappings"][0]
    for mapping in mappings:
        size, least = int(mapping["Ebs"].get("VolumeSize") or 0), int(root["Ebs"]["VolumeSize"])
        if mapping["DeviceName"] == root["DeviceName"] and size < least:
            snapshot = root["Ebs"]["SnapshotId"]
            words = f"Volume of size {size}GB is smaller than snapshot '{snapshot}', expect size >= {least}GB"
            refuse("InvalidBlockDeviceMapping", words)


def stand_in(image: AwsOwnImage, region: str, login: str, system: str) -> Row:
    """The row that a rehearsal adds for the own image of a place: what its key says, and otherwise a plain image."""
    named = {"ImageId": image.id} if image.id else {}
    name = (image.name or "an image of one's own").replace("*", "rehearsal").replace("?", "x")
    owner = image.owner if image.owner and image.owner.isdigit() else _ACCOUNT
    alias = {"ImageOwnerAlias": "amazon"} if image.owner == "amazon" else {}
    parameter = {"Parameter": image.parameter} if image.parameter else {}
    key = {"SnapshotKey": in_region(image.snapshot_key, region)} if image.snapshot_key else {}
    return {"Region": region, **named, "Name": name, "OwnerId": owner, "Login": login, "System": system, **alias, **parameter, **key}


def is_deprecated(row: Row) -> bool:
    """Whether the time of deprecation is over."""
    ends = row.get("DeprecationTime")
    return ends is not None and dt.datetime.fromisoformat(ends) <= dt.datetime.now(dt.UTC)


def image_id(region: str, key: str) -> str:
    """The id under which a region has an image; ids differ between regions, as on EC2."""
    return key if key.startswith("ami-") else f"ami-{_digest(region, key)}"


def _digest(region: str, key: str) -> str:
    return hashlib.sha256(f"{region} {key}".encode()).hexdigest()[:17]


def _is_of(row: Row, owners: list[str]) -> bool:
    names = {_ACCOUNT if owner == "self" else owner for owner in owners}
    return bool(names & {row["OwnerId"], row.get("ImageOwnerAlias", "")})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add(backend: Any, row: Row) -> None:
    backend.amis[row["ImageId"]] = Ami(
        backend,
        row["ImageId"],
        name=row["Name"],
        owner_id=row["OwnerId"],
        public=row["Public"],
        virtualization_type="hvm",
        architecture=row["Architecture"],
        root_device_type="ebs",
        root_device_name=row["RootDeviceName"],
        region_name=backend.region_name,
    )

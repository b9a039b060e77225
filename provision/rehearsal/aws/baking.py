"""Images that a client makes at the embedded EC2: the disk of an instance becomes one, and instances start from it.

moto's CreateImage tags no snapshots, has the state `available` at once, and none of the calls of deprecation. Messages and codes:
docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
"""

import datetime as dt
import time
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.ec2.responses.amis import AmisResponse
from moto.ec2.responses.elastic_block_store import ElasticBlockStore
from moto.ec2.utils import random_ami_id

from provision.rehearsal.aws import images, late
from provision.rehearsal.aws.permissions import AwsCall, Need
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse
from provision.rehearsal.hosts import HostPark

_IMAGEABLE: Final = {"running", "stopped"}


def patch(settings: AwsSettings, park: HostPark | None) -> None:
    """Let CreateImage, DeregisterImage and the calls of deprecation do what EC2 does, with the disks of the park's hosts."""
    _patch_creation(settings, park)
    _patch_removal(settings, park)
    _patch_deprecation(settings)


def _patch_creation(settings: AwsSettings, park: HostPark | None) -> None:
    @method_of(AmisResponse)
    def create_image(self: Any) -> ActionResult:
        self.error_on_dryrun()
        backend, name = self.ec2_backend, str(self._get_param("Name"))
        instance = backend.get_instance(self._get_param("InstanceId"))
        if instance.state not in _IMAGEABLE:
            refuse("IncorrectInstanceState", f"Instance is not in state 'running' or 'stopped': '{instance.id}' is {instance.state}")
        region = backend.region_name
        taken = next((row for row in settings.made_images if row["Region"] == region and row["Name"] == name), None)
        if taken is not None:
            words = f"AMI name {name} is already in use by AMI {taken['ImageId']}"
            refuse("InvalidAMIName.Duplicate", words)
        tags = {kind: _tags(self._get_param("TagSpecifications", []), kind) for kind in ("image", "snapshot")}
        left_out = {each["DeviceName"] for each in self._get_param("BlockDeviceMappings", []) if "NoDevice" in each}
        image_id = random_ami_id()
        late.born(image_id)
        if park:
            park.keep_image(instance.id, image_id)
        origin = images.of_id(region, instance.image_id, settings) or {}
        mappings = [
            _snapshot(backend, instance, device, image_id, tags["snapshot"])
            for device in instance.block_device_mapping
            if device not in left_out
        ]
        backend.create_tags([image_id], tags["image"])
        settings.made_images.append(
            {
                **{key: origin[key] for key in ("Login", "System", "RootDeviceName", "Architecture", "BootMode") if key in origin},
                "Region": region,
                "ImageId": image_id,
                "Name": name,
                "Description": str(self._get_param("Description") or ""),
                "OwnerId": DEFAULT_ACCOUNT_ID,
                "Public": False,
                "CreationDate": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
                "BlockDeviceMappings": mappings,
                **_key_of(backend, instance),
                "SourceInstanceId": instance.id,
                "Ready": time.time() + settings.image_s,
                "Failure": settings.image_failure,
            }
        )
        return ActionResult({"ImageId": image_id})


def _patch_removal(settings: AwsSettings, park: HostPark | None) -> None:
    @method_of(AmisResponse)
    def deregister_image(self: Any) -> ActionResult:
        self.error_on_dryrun()
        backend, row = self.ec2_backend, _row_of(self, settings)
        settings.made_images.remove(row)
        backend.delete_tags([row["ImageId"]], dict.fromkeys(backend.tags.get(row["ImageId"], {})))
        if park:
            park.drop_image(row["ImageId"])
        snapshots = _snapshots_of(row)
        both = self._get_bool_param("DeleteAssociatedSnapshots", if_none=False)
        for snapshot in snapshots if both else ():
            backend.delete_snapshot(snapshot)
        results = [{"SnapshotId": snapshot, "ReturnCode": "success"} for snapshot in snapshots] if both else []
        return ActionResult({"Return": True, "DeleteSnapshotResults": results})

    delete = ElasticBlockStore.delete_snapshot

    @method_of(ElasticBlockStore)
    def delete_snapshot(self: Any) -> Any:
        snapshot = self._get_param("SnapshotId")
        holder = next((row for row in settings.made_images if snapshot in _snapshots_of(row)), None)
        if holder is not None:
            refuse("InvalidSnapshot.InUse", f"The snapshot {snapshot} is currently in use by {holder['ImageId']}")
        return delete(self)


def _patch_deprecation(settings: AwsSettings) -> None:
    @method_of(AmisResponse)
    def enable_image_deprecation(self: Any) -> ActionResult:
        self.error_on_dryrun()
        row, ends = _row_of(self, settings), self._get_param("DeprecateAt")
        moment = ends if isinstance(ends, dt.datetime) else dt.datetime.fromisoformat(str(ends))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        if moment <= dt.datetime.now(dt.UTC):
            refuse("InvalidParameter", "The date and time for DeprecateAt cannot be in the past")
        row["DeprecationTime"] = moment.isoformat()
        return ActionResult({"Return": True})

    @method_of(AmisResponse)
    def disable_image_deprecation(self: Any) -> ActionResult:
        self.error_on_dryrun()
        _row_of(self, settings).pop("DeprecationTime", None)
        return ActionResult({"Return": True})


def _row_of(response: Any, settings: AwsSettings) -> images.Row:
    """The image of a request, which the account itself made."""
    image_id, region = response._get_param("ImageId"), response.ec2_backend.region_name  # noqa: SLF001 - moto's own way to parameters
    found = next((row for row in settings.made_images if (row["Region"], row["ImageId"]) == (region, image_id)), None)
    if found is None:
        refuse("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    return found


def _snapshots_of(row: images.Row) -> list[str]:
    return [str(mapping["Ebs"]["SnapshotId"]) for mapping in row["BlockDeviceMappings"]]


def _tags(specifications: list[dict[str, Any]], kind: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for each in specifications if each["ResourceType"] == kind for tag in each["Tags"]}


def _snapshot(backend: Any, instance: Any, device: str, image_id: str, tags: dict[str, str]) -> dict[str, Any]:
    """The snapshot of one volume: encrypted as the volume is, and with its key."""
    volume = backend.volumes[instance.block_device_mapping[device].volume_id]
    snapshot = backend.create_snapshot(volume.id, f"Created by CreateImage({instance.id}) for {image_id}")
    backend.create_tags([snapshot.id], tags)
    disk = {"VolumeSize": int(volume.size), "VolumeType": "gp3", "Encrypted": bool(volume.encrypted), "SnapshotId": snapshot.id}
    return {"DeviceName": device, "Ebs": {**disk, "DeleteOnTermination": True}}


def _key_of(backend: Any, instance: Any) -> dict[str, str]:
    """The key of an instance's disks, which a launch from their image has to use."""
    ids = (device.volume_id for device in instance.block_device_mapping.values())
    key = next((volume.kms_key_id for volume_id in ids if (volume := backend.volumes.get(volume_id)) and volume.kms_key_id), "")
    return {"SnapshotKey": str(key)} if key else {}


def asked(call: AwsCall, settings: AwsSettings) -> tuple[Need, ...]:
    """What DeregisterImage needs where it takes the snapshots along: DeleteSnapshot on each of them."""
    if call.service != "ec2" or call.action != "DeregisterImage" or call.params.get("DeleteAssociatedSnapshots") != "true":
        return ()
    row = next((row for row in settings.made_images if row["ImageId"] == call.params.get("ImageId")), None)
    tags = ec2_backends[DEFAULT_ACCOUNT_ID][call.region].tags
    where = {"aws:RequestedRegion": call.region, "ec2:Region": call.region}
    return tuple(
        Need(
            "ec2:DeleteSnapshot",
            f"arn:aws:ec2:{call.region}::snapshot/{snapshot}",
            where | {f"{service}:ResourceTag/{key}": value for service in ("aws", "ec2") for key, value in tags.get(snapshot, {}).items()},
        )
        for snapshot in (_snapshots_of(row) if row else ())
    )

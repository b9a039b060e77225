"""An instance as RunInstances and DescribeInstances show it: the fields that EC2 has and moto does not, and those that an ended one loses.

The fields, their values and defaults: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html and the types that it links, and
botocore's model of EC2. That an ended instance has no network any more: the same page says "in which the instance is running" of
its subnet and VPC.
"""

import copy
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import StateReason
from moto.ec2.responses.instances import InstanceResponse

from provision.rehearsal.aws import images
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of

_ZONES: Final = {zone.name: zone.zone_id for zones in RegionsAndZonesBackend.zones.values() for zone in zones}
_FIELDS: Final[dict[str, Any]] = {
    "ena_support": True,
    "enclave_options": {"Enabled": False},
    "hibernation_options": {"Configured": False},
    "maintenance_options": {"AutoRecovery": "default", "RebootMigration": "default"},
    "network_performance_options": {"BandwidthWeighting": "default"},
    "operator": {"Managed": False},
    "platform_details": "Linux/UNIX",
    "private_dns_name_options": {
        "HostnameType": "ip-name",
        "EnableResourceNameDnsARecord": False,
        "EnableResourceNameDnsAAAARecord": False,
    },
    "sriov_net_support": None,  # of types without ENA, which none of the catalog's are
    "usage_operation": "RunInstances",
}
_LOST: Final[dict[str, Any]] = {
    "block_device_mappings": [],
    "dynamic_group_list": [],
    "network_interfaces": [],
    "private_dns_name": "",
    "private_ip_address": None,
    "public_ip_address": None,
    "public_dns_name": "",
    "subnet_id": None,
    "vpc_id": None,
}


class _Shown:
    """moto's instance with other values of some fields."""

    def __init__(self, instance: Any, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields, _instance=instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_instance"], name)


_Shown.__name__ = "Instance"  # by which moto finds its fields


def _shown(instance: Any, settings: AwsSettings) -> _Shown:
    cpus = INSTANCE_TYPES[instance.instance_type].get("VCpuInfo", {})
    modes = INSTANCE_TYPES[instance.instance_type].get("SupportedBootModes", [])
    boots = str((images.of_id(instance.region_name, instance.image_id, settings) or {}).get("BootMode", ""))
    placed = copy.copy(instance.placement)
    placed.availability_zone_id = _ZONES.get(placed.zone)
    reserved = instance.__dict__.get("reserved", "")
    target = {"CapacityReservationTarget": {"CapacityReservationId": reserved}} if reserved else {"CapacityReservationPreference": "open"}
    fields = _FIELDS | {
        "boot_mode": boots or None,
        "current_instance_boot_mode": "uefi" if boots.startswith("uefi") and "uefi" in modes else "legacy-bios",
        "capacity_reservation_id": reserved or None,
        "capacity_reservation_specification": target,
        "cpu_options": {"CoreCount": cpus.get("DefaultCores"), "ThreadsPerCore": cpus.get("DefaultThreadsPerCore")},
        "placement": placed,
        "state_reason": _reason(instance),
        "usage_operation_update_time": instance.launch_time,
    }
    disks = [{**each, "Ebs": _with_card(each["Ebs"])} for each in instance.block_device_mappings]
    return _Shown(instance, fields | ({"block_device_mappings": disks} if instance.state != "terminated" else _LOST))


def _reason(instance: Any) -> Any:
    """Why it is in its state; of one that is not yet running, the answers that cloud-custodian recorded have `pending`."""
    if instance.state == "pending":
        return StateReason("pending", "pending")
    return instance.state_reason if instance.state_reason and instance.state_reason.code else None


def _with_card(disk: Any) -> Any:
    disk.ebs_card_index = 0
    return disk


def patch(settings: AwsSettings) -> None:
    """Put the fields into moto's answers."""
    describe, run = InstanceResponse.describe_instances, InstanceResponse.run_instances

    def whole(reservation: Any) -> Any:
        answered = copy.copy(reservation)
        answered.instances = [_shown(instance, settings) for instance in reservation.instances]
        return answered

    @method_of(InstanceResponse)
    def describe_instances(self: Any) -> ActionResult:
        result: Any = describe(self).result
        return ActionResult({**result, "Reservations": [whole(each) for each in result["Reservations"]]})

    @method_of(InstanceResponse)
    def run_instances(self: Any) -> Any:
        answer = run(self)
        return ActionResult(whole(answer.result)) if isinstance(answer, ActionResult) else answer

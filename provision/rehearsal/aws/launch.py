"""RunInstances of the embedded EC2: one set of machines for one client token, as many as zones and quotas have, and real hosts."""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Final

from moto.ec2 import utils as ec2_utils
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance, InstanceBackend
from moto.ec2.responses.instances import InstanceResponse

from provision.rehearsal.aws import spot
from provision.rehearsal.aws.offers import offering_zones
from provision.rehearsal.aws.quota import quota_code, used_vcpus, vcpus
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import error_xml, loopback, refuse, set_address, show_state
from provision.rehearsal.base import Park
from provision.rehearsal.hosts import HostSpec

_NO_TOKEN: Final = {"", "ABCDE"}  # the last is moto's own default when none was sent
_asked: Final = threading.local()  # MaxCount, which moto's response does not hand to its backend


class _NoCapacityError(Exception):
    """EC2 answers it as its own failure, with HTTP 500: facts/emulators.md §A, fault table."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What a RunInstances asks for, apart from what moto does with it."""

    region: str
    kind: str
    zone: str
    market: str
    least: int
    most: int


def patch(settings: AwsSettings, park: Park | None, lock: threading.RLock) -> None:
    """Change how moto launches.

    Args:
        settings: the capacity and the quotas.
        park: makes the hosts; None for loopback addresses.
        lock: held for a whole launch, so that two clients with one token make one set of machines.
    """
    make = InstanceBackend.run_instances
    seen: dict[tuple[str, str], tuple[str, Any]] = {}

    def run_instances(self: Any, image_id: str, count: int, user_data: Any, names: list[str], **wanted: Any) -> Any:
        region, token = str(wanted.get("region_name")), str(wanted.get("client_token") or "")
        asked = _Request(
            region=region,
            kind=str(wanted["instance_type"]),
            zone=str(wanted.get("placement") or ""),
            market="spot" if wanted.get("instance_market_options") == "spot" else "on-demand",
            least=count,
            most=getattr(_asked, "most", count),
        )
        digest = json.dumps([image_id, asked.least, asked.most, str(user_data), names, wanted], sort_keys=True, default=str)
        card: dict[str, Any] = next(iter(wanted.get("nics") or []), {})
        with lock:
            if token not in _NO_TOKEN and (region, token) in seen:
                before, reservation = seen[region, token]
                if before != digest:
                    refuse("IdempotentParameterMismatch", "The request uses the same client token as an earlier one with other parameters.")
                return reservation
            asked = _in_subnet(self, asked, card)
            _validate(self, image_id, asked, wanted)
            zone, granted = _granted(asked, settings)
            for mapping in wanted.get("block_device_mappings", []):
                mapping["Ebs"].setdefault("DeleteOnTermination", True)
            # moto shows the groups of an instance and not those of its card alone, as EC2 does.
            groups = {"security_group_ids": card["Groups"]} if card.get("Groups") else {}
            reservation = make(self, image_id, granted, user_data, names, **{**wanted, **groups, "placement": zone})
            if zone in settings.zone_capacity:
                settings.zone_capacity[zone] -= granted
            if token not in _NO_TOKEN:
                seen[region, token] = (digest, reservation)
            for instance in reservation.instances:
                instance.client_token = token
                instance.shutdown_behavior = wanted.get("instance_initiated_shutdown_behavior") or "stop"
                instance.launched = time.monotonic()
                show_state(instance, "pending", 0, settings.pending_s)
                instance.private = card.get("AssociatePublicIpAddress") is False
                if park:
                    set_address(instance, park.create(_spec(self, instance, wanted)))
                else:  # a private address is moto's, which is of the subnet
                    set_address(instance, None if instance.private else loopback())
                if asked.market == "spot":
                    spot.record(self, instance, wanted.get("tags", {}).get("spot-instances-request", {}))
        return reservation

    InstanceBackend.run_instances = run_instances
    _patch_response()
    ec2_utils.filter_dict_attribute_mapping["client-token"] = "client_token"


def _in_subnet(backend: Any, asked: _Request, card: dict[str, Any]) -> _Request:
    """The same request in the zone of its subnet, whose VPC the groups must be of."""
    if not card.get("SubnetId"):
        return asked
    subnet = backend.get_subnet(card["SubnetId"])  # or InvalidSubnetID.NotFound
    zone = str(subnet.availability_zone)
    for group in card.get("Groups", []):
        if group not in backend.groups[subnet.vpc_id]:
            refuse("InvalidGroup.NotFound", f"The security group '{group}' does not exist in VPC '{subnet.vpc_id}'")
    if asked.zone not in {"", zone}:
        refuse("InvalidParameterValue", f"The availability zone {asked.zone} is not that of subnet {card['SubnetId']} ({zone})")
    return replace(asked, zone=zone)


def _patch_response() -> None:
    answer = InstanceResponse.run_instances

    def respond(self: Any) -> Any:
        for name in ("MinCount", "MaxCount"):
            if not self._get_param(name):
                refuse("MissingParameter", f"The request must contain the parameter {name}")
        least, most = int(self._get_param("MinCount")), int(self._get_param("MaxCount"))
        if not 1 <= least <= most:
            refuse("InvalidParameterValue", f"Value ({least}) for parameter minCount is invalid. It must be from 1 to maxCount ({most}).")
        _asked.most = most
        try:
            return answer(self)
        except _NoCapacityError as error:
            return error_xml("InsufficientInstanceCapacity", str(error)), {"status": 500, "Content-Type": "text/xml"}

    InstanceResponse.run_instances = respond


def _validate(backend: Any, image_id: str, asked: _Request, wanted: dict[str, Any]) -> None:
    """Refuse as EC2 does: unknown image, type, zone or key, and a type that the region or the zone does not have."""
    if image_id not in backend.amis:
        refuse("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    if asked.kind not in INSTANCE_TYPES:
        refuse("InvalidParameterValue", f"Invalid value '{asked.kind}' for InstanceType.")
    if wanted.get("key_name") and wanted["key_name"] not in backend.key_pairs:
        refuse("InvalidKeyPair.NotFound", f"The key pair '{wanted['key_name']}' does not exist")
    zones = offering_zones(asked.region, asked.kind)
    if not zones:
        refuse(
            "Unsupported",
            "The requested configuration is currently not supported. Please check the documentation for supported configurations.",
        )
    if asked.zone and asked.zone not in {z.name for z in backend.describe_availability_zones()}:
        refuse("InvalidParameterValue", f"Invalid availability zone: [{asked.zone}]")
    if asked.zone and asked.zone not in zones:
        words = (
            f"Your requested instance type ({asked.kind}) is not supported in your requested Availability Zone ({asked.zone}). "
            f"Please retry your request by not specifying an Availability Zone or choosing {', '.join(zones)}."
        )
        refuse("Unsupported", words)


def _granted(asked: _Request, settings: AwsSettings) -> tuple[str, int]:
    """The zone and how many machines of it: as many as asked for, or what there is when that is at least MinCount."""
    most = min(asked.most, _under_quota(asked, settings))
    zones = offering_zones(asked.region, asked.kind)
    left = {zone: settings.zone_capacity.get(zone, most) for zone in zones}
    # Without a wish: the first that has all, else the one that has most.
    zone = asked.zone or next((z for z in zones if left[z] >= most), max(zones, key=lambda z: left[z]))
    granted = min(most, left[zone])
    if granted >= asked.least:
        return zone, granted
    raise _NoCapacityError(_words(asked, [z for z in zones if left[z] >= asked.least]))


def _words(asked: _Request, others: list[str]) -> str:
    """How EC2 says it; https://github.com/danvk/mapsnap/pull/432 quotes the hint about other zones (shared/facts/peers.md §2)."""
    more = "Our system will be working on provisioning additional capacity."
    if not asked.zone:
        return f"We currently do not have sufficient {asked.kind} capacity in zones with support for 'gp3' volumes. {more}"
    said = f"We currently do not have sufficient {asked.kind} capacity in the Availability Zone you requested ({asked.zone}). {more}"
    if not others:
        return said
    choosing = f"by not specifying an Availability Zone in your request or choosing {', '.join(others)}."
    return f"{said} You can currently get {asked.kind} capacity {choosing}"


def _under_quota(asked: _Request, settings: AwsSettings) -> int:
    """How many machines the quota still has room for."""
    limit = settings.vcpu_limit.get(asked.region)
    if limit is None:
        return asked.most
    room = (limit - used_vcpus(asked.region, quota_code(asked.kind, asked.market))) // vcpus(asked.kind)
    if room < asked.least and asked.market == "spot":
        refuse("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    if room < asked.least:
        words = (
            f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket that "
            "the specified instance type belongs to."
        )
        refuse("VcpuLimitExceeded", words)
    return room


def _spec(backend: Any, instance: Instance, wanted: dict[str, Any]) -> HostSpec:
    """The host of an instance: its first disk is the root, which the host has anyway; the others are volumes."""
    key = backend.key_pairs.get(wanted.get("key_name"))
    material = key.material_public if key else b""
    volumes = tuple(int(m["Ebs"].get("VolumeSize") or 8) for m in wanted.get("block_device_mappings", [])[1:])
    return HostSpec(
        instance_id=instance.id,
        hostname=f"ip-{instance.private_ip}".replace(".", "-"),
        user_data=_decoded(instance.user_data),
        authorized_keys=(material.decode() if isinstance(material, bytes) else str(material),) if material else (),
        instance_store_gb=int(INSTANCE_TYPES[instance.instance_type].get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        volume_gb=volumes,
        keeps_address=instance.private,
    )


def _decoded(user_data: Any) -> bytes:
    try:
        return base64.b64decode(str(user_data), validate=True) if user_data else b""
    except binascii.Error:
        return str(user_data).encode()

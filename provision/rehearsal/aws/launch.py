"""RunInstances of the embedded EC2: one set of instances for each client token, as many as zones and quotas allow, on real hosts."""

import base64
import binascii
import json
import threading
import time
from typing import Any, Final

from moto.ec2 import utils as ec2_utils
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance, InstanceBackend, StateReason
from moto.ec2.responses.instances import InstanceResponse

from provision.rehearsal import rootfs
from provision.rehearsal.aws import capacity, identities, images, inside, keys, late, service_roles, spot
from provision.rehearsal.aws.offers import offering_zones
from provision.rehearsal.aws.quota import quota_code, used_vcpus, vcpus
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import error_xml, loopback, method_of, refuse, set_address, show_state
from provision.rehearsal.hosts import HostPark, HostSpec
from provision.structs import Struct, replace

_NO_TOKEN: Final = {"", "ABCDE"}  # the last is moto's own default when none was sent
# `most` is the request's MaxCount and `response` moto's object with all its parameters, which do not reach moto's backend.
_counts: Final = threading.local()


class _NoCapacityError(Exception):
    """EC2 answers it as its own failure, with HTTP 500 (docs/sources/emulators.md §A)."""


class _Request(Struct):
    """The parameters of RunInstances that decide where and how many."""

    region: str
    instance_type: str
    zone: str
    market: str
    least: int
    most: int


def patch(settings: AwsSettings, park: HostPark | None) -> None:
    """Change how moto launches, with the hosts of the park or, without one, with loopback addresses."""
    run = InstanceBackend.run_instances
    lock = threading.RLock()  # for a whole launch, so that two clients with one token get one set of instances
    launches: dict[tuple[str, str], tuple[str, Any]] = {}

    @method_of(InstanceBackend)
    def run_instances(self: Any, image_id: str, count: int, user_data: Any, names: list[str], **params: Any) -> Any:
        region, token = str(params.get("region_name")), str(params.get("client_token") or "")
        market = "spot" if params.get("instance_market_options") == "spot" else "on-demand"
        most = getattr(_counts, "most", count)
        request = _Request(region, str(params["instance_type"]), str(params.get("placement") or ""), market, count, most)
        digest = json.dumps([image_id, count, most, str(user_data), names, params], sort_keys=True, default=str)
        card: dict[str, Any] = next(iter(params.get("nics") or []), {})
        with lock:
            if token not in _NO_TOKEN and (region, token) in launches:
                before, reservation = launches[region, token]
                if before != digest:
                    refuse("IdempotentParameterMismatch", "The request uses the same client token as an earlier one with other parameters.")
                if all(instance.state in {"shutting-down", "terminated"} for instance in reservation.instances):
                    refuse("IdempotentInstanceTerminated", "The instance of an earlier request with this client token has been terminated.")
                return reservation
            request = _in_subnet(self, request, card or {"SubnetId": params.get("subnet_id")})
            _check_cards(request.instance_type, params.get("nics") or [])
            request, reserved = _in_reservation(request, settings)
            _validate(self, image_id, request, params, settings)
            zone, number = _allocation(request, settings)
            if market == "spot":
                _check_spot(settings, request, zone)
            for mapping in params.get("block_device_mappings", []):
                mapping["Ebs"].setdefault("DeleteOnTermination", True)
            # moto shows the groups of an instance and not those of its card alone, as EC2 does.
            groups = {"security_group_ids": card["Groups"]} if card.get("Groups") else {}
            reservation = run(self, image_id, number, user_data, names, **{**params, **groups, "placement": zone})
            if zone in settings.zone_capacity:
                settings.zone_capacity[zone] -= number
            capacity.taken(settings, reserved, number)
            if token not in _NO_TOKEN:
                launches[region, token] = (digest, reservation)
            for instance in reservation.instances:
                instance.reserved = reserved
                instance.private = card.get("AssociatePublicIpAddress") is False
                _begin(self, instance, params, settings, park)
        return reservation

    _patch_response(settings)
    identities.patch()
    ec2_utils.filter_dict_attribute_mapping["client-token"] = "client_token"


def _check_cards(instance_type: str, cards: list[dict[str, Any]]) -> None:
    """Refuse what a network card of the type cannot be: "Valid values" of NetworkCardInfo.InterfaceTypes, DescribeInstanceTypes.

    The example is p6-b300, whose first card has no EFA: https://github.com/aws/aws-parallelcluster/issues/7143. The words are from memory.
    """
    known = INSTANCE_TYPES.get(instance_type, {}).get("NetworkInfo", {}).get("NetworkCards", [])
    types = {int(card["NetworkCardIndex"]): card.get("InterfaceTypes", []) for card in known}
    taken = set()
    for card in cards:
        index, kind = int(card.get("NetworkCardIndex") or 0), str(card.get("InterfaceType") or "interface")
        slot = (index, int(card.get("DeviceIndex") or 0))
        if slot in taken:
            refuse("InvalidParameterValue", f"Network interfaces with the same device index {slot[1]} on network card {index}.")
        taken.add(slot)
        if types and kind not in types.get(index, []):
            refuse("InvalidParameterCombination", f"Network card {index} of {instance_type} does not support interface type {kind}.")


def _check_spot(settings: AwsSettings, request: _Request, zone: str) -> None:
    response = getattr(_counts, "response", None)
    service_roles.use_spot(settings, by_group=inside.is_group(response))
    if response is not None:
        spot.check_limit(response, request.instance_type, zone)


def _begin(backend: Any, instance: Any, params: dict[str, Any], settings: AwsSettings, park: HostPark | None) -> None:
    """Give an instance what moto does not: its token, its first state, a host and its spot request."""
    instance.client_token = str(params.get("client_token") or "")
    instance.shutdown_behavior = params.get("instance_initiated_shutdown_behavior") or "stop"
    instance.launched = time.monotonic()
    late.born(instance.id)
    response = getattr(_counts, "response", None)
    instance.disable_api_termination = bool(response and response._get_bool_param("DisableApiTermination", if_none=False))  # noqa: SLF001
    show_state(instance, "pending", 0, settings.pending_s)
    if params.get("iam_instance_profile_name"):  # moto gives it to the first one alone, and again at each repetition
        backend.associate_iam_instance_profile(instance.id, params["iam_instance_profile_name"])
    image = images.of_id(backend.region_name, instance.image_id, settings) or {}
    volumes, own = params.get("block_device_mappings", []), str(image.get("SnapshotKey", ""))
    by_group = inside.is_group(getattr(_counts, "response", None))
    code, words = keys.failure(backend.region_name, volumes, own, settings, by_group=by_group)
    if backend.region_name in settings.ends:  # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
        code = settings.ends[backend.region_name]
        words = f"{code}: it ended while it started"
    if code:  # pending for a while, then terminated
        instance.terminate()
        instance.state_reason = StateReason(words, code)
        show_state(instance, "pending", 0, settings.pending_s)
    elif park:
        set_address(instance, park.create(_spec(backend, instance, params, settings)))
        show_state(instance, "pending", 0, settings.pending_s)  # from the answer on, however long the host took
    else:  # a private address is moto's, which is of the subnet
        set_address(instance, None if instance.private else loopback())
    if params.get("instance_market_options") == "spot":
        spot.record(backend, instance, params.get("tags", {}).get("spot-instances-request", {}))


def _in_subnet(backend: Any, request: _Request, card: dict[str, Any]) -> _Request:
    """The same request in the zone of its subnet, in whose VPC the groups must be."""
    if not card.get("SubnetId"):
        return request
    subnet = backend.get_subnet(card["SubnetId"])  # or InvalidSubnetID.NotFound
    zone = str(subnet.availability_zone)
    for group in card.get("Groups", []):
        if group not in backend.groups[subnet.vpc_id]:
            refuse("InvalidGroup.NotFound", f"The security group '{group}' does not exist in VPC '{subnet.vpc_id}'")
    if request.zone not in {"", zone}:
        refuse("InvalidParameterValue", f"The availability zone {request.zone} is not that of subnet {card['SubnetId']} ({zone})")
    return replace(request, zone=zone)


def _in_reservation(request: _Request, settings: AwsSettings) -> tuple[_Request, str]:
    """The same request in the zone of its capacity reservation, and the reservation's id; what it cannot use is refused."""
    response = getattr(_counts, "response", None)
    if response is None:
        return request, ""
    zone = capacity.narrowed(settings, response, request.region)
    # Where the request names no zone, EC2 chooses one, and nothing says that it would be the reservation's.
    chosen = request.zone or next(iter(offering_zones(request.region, request.instance_type)), "")
    if zone and chosen != zone:
        refuse("InvalidParameterValue", f"The availability zone {chosen} is not that of the reservation ({zone})")
    return replace(request, zone=zone or request.zone), capacity.target_of(response)


def _patch_response(settings: AwsSettings) -> None:
    answer = InstanceResponse.run_instances

    @method_of(InstanceResponse)
    def run_instances(self: Any) -> Any:
        for name in ("MinCount", "MaxCount"):
            if not self._get_param(name):
                refuse("MissingParameter", f"The request must contain the parameter {name}")
        least, most = int(self._get_param("MinCount")), int(self._get_param("MaxCount"))
        if not 1 <= least <= most:
            refuse("InvalidParameterValue", f"Value ({least}) for parameter minCount is invalid. It must be from 1 to maxCount ({most}).")
        _counts.most = most
        _counts.response = self
        identities.check(str(self._get_param("IamInstanceProfile.Name") or ""), settings)
        try:
            return answer(self)
        except _NoCapacityError as error:
            return error_xml("InsufficientInstanceCapacity", str(error)), {"status": 500, "Content-Type": "text/xml"}


def _validate(backend: Any, image_id: str, request: _Request, params: dict[str, Any], settings: AwsSettings) -> None:
    """Refuse as EC2 does: an unknown image, type, zone or key, and a type that the region or the zone does not have."""
    row = images.of_id(request.region, image_id, settings)
    if request.instance_type not in INSTANCE_TYPES:
        refuse("InvalidParameterValue", f"Invalid value '{request.instance_type}' for InstanceType.")
    images.check(backend, row, image_id, request.instance_type, params.get("block_device_mappings", []))
    if params.get("key_name") and params["key_name"] not in backend.key_pairs:
        refuse("InvalidKeyPair.NotFound", f"The key pair '{params['key_name']}' does not exist")
    zones = offering_zones(request.region, request.instance_type)
    if not zones:
        words = "The requested configuration is currently not supported. Please check the documentation for supported configurations."
        refuse("Unsupported", words)
    if request.zone and request.zone not in {z.name for z in backend.describe_availability_zones()}:
        refuse("InvalidParameterValue", f"Invalid availability zone: [{request.zone}]")
    if request.zone and request.zone not in zones:
        words = (
            f"Your requested instance type ({request.instance_type}) is not supported in your requested Availability Zone "
            f"({request.zone}). Please retry your request by not specifying an Availability Zone or choosing {', '.join(zones)}."
        )
        refuse("Unsupported", words)


def _allocation(request: _Request, settings: AwsSettings) -> tuple[str, int]:
    """The zone and how many instances in it: up to MaxCount, as long as there is room for at least MinCount."""
    most = min(request.most, _under_quota(request, settings))
    zones = offering_zones(request.region, request.instance_type)
    room = {zone: settings.zone_capacity.get(zone, most) for zone in zones}
    # Without a zone in the request: the first that has room for all, else the one with the most.
    zone = request.zone or next((z for z in zones if room[z] >= most), max(zones, key=lambda z: room[z]))
    number = min(most, room[zone])
    if number < request.least:
        raise _NoCapacityError(_no_capacity(request, [z for z in zones if room[z] >= request.least]))
    return zone, number


def _no_capacity(request: _Request, others: list[str]) -> str:
    """EC2's words; https://github.com/danvk/mapsnap/pull/432 quotes the hint about other zones (docs/sources/peers.md §2)."""
    lack = f"We currently do not have sufficient {request.instance_type} capacity in"
    more = "Our system will be working on provisioning additional capacity."
    if not request.zone:
        return f"{lack} zones with support for 'gp3' volumes. {more}"
    words = f"{lack} the Availability Zone you requested ({request.zone}). {more}"
    if not others:
        return words
    choosing = f"by not specifying an Availability Zone in your request or choosing {', '.join(others)}."
    return f"{words} You can currently get {request.instance_type} capacity {choosing}"


def _under_quota(request: _Request, settings: AwsSettings) -> int:
    """How many instances the quota still has room for."""
    limit = settings.vcpu_limit.get(request.region)
    if limit is None:
        return request.most
    use = used_vcpus(request.region, quota_code(request.instance_type, request.market))
    room = (limit - use) // vcpus(request.instance_type)
    if room < request.least and request.market == "spot":
        refuse("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    if room < request.least:
        words = (
            f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket that "
            "the specified instance type belongs to."
        )
        refuse("VcpuLimitExceeded", words)
    return room


def _spec(backend: Any, instance: Instance, params: dict[str, Any], settings: AwsSettings) -> HostSpec:
    """The host of an instance: its first disk is the root, which the host has anyway; the others are volumes.

    cloud-init gives the key of the user data to the image's first user, whose name is the image's own.
    """
    row = images.of_id(backend.region_name, instance.image_id, settings)
    about = row or {}
    login, data = about.get("Login", rootfs.LOGIN), _decode(instance.user_data)
    key = backend.key_pairs.get(params.get("key_name"))
    material = key.material_public if key else b""
    volumes = tuple(int(m["Ebs"].get("VolumeSize") or 8) for m in params.get("block_device_mappings", [])[1:])
    return HostSpec(
        instance_id=instance.id,
        hostname=f"ip-{instance.private_ip}".replace(".", "-"),
        user_data=data,
        accounts=tuple((login, given) for given in _keys(data) if login != rootfs.LOGIN),
        authorized_keys=(material.decode() if isinstance(material, bytes) else str(material),) if material else (),
        instance_store_gb=int(INSTANCE_TYPES[instance.instance_type].get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        volume_gb=volumes,
        disk_link=disk_link,
        keeps_address=instance.private,
        system=about.get("System", ""),
        image=instance.image_id if "Ready" in about else "",
    )


def disk_link(_number: int, serial: str, ephemeral: bool) -> str:  # noqa: FBT001
    """The link that udev makes for an NVMe disk of EC2 (docs/sources/clouds.md §11, "NVMe names")."""
    return f"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{serial}" if ephemeral else f"nvme-Amazon_Elastic_Block_Store_vol{serial.lower()}"


def _keys(user_data: bytes) -> list[str]:
    """The keys of a `#cloud-config` that is JSON, as gpuprov's is."""
    try:
        document = json.loads(user_data.partition(b"\n")[2])
    except ValueError:
        return []
    return [str(key) for key in document.get("ssh_authorized_keys", [])] if isinstance(document, dict) else []


def _decode(user_data: Any) -> bytes:
    try:
        return base64.b64decode(str(user_data), validate=True) if user_data else b""
    except binascii.Error:
        return str(user_data).encode()

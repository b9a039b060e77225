"""What EC2 does and moto does not, put into moto's own classes; which gaps there are is listed in shared/facts/emulators.md §A.

Client tokens, timed state changes, validation of types and images, Canonical's image parameters, quotas, dependencies of security
groups, console output, and instances that are real hosts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2 import utils as ec2_utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState
from moto.ec2.models.key_pairs import KeyPairBackend
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.responses.general import General
from moto.ec2.responses.instances import InstanceResponse
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

from provision.catalog import read as catalog
from provision.rehearsal.hosts import HostSpec

__all__ = ["Park", "Settings", "instances", "patch"]

_CANONICAL: Final = "099720109477"  # owner of Ubuntu's images: shared/facts/stack-facts.md §10.1


class Park(Protocol):
    """What is needed of `hosts.HostPark`."""

    def create(self, spec: HostSpec) -> str: ...  # noqa: D102 - as in HostPark
    def console(self, instance_id: str) -> str: ...  # noqa: D102
    def reboot(self, instance_id: str) -> None: ...  # noqa: D102
    def stop(self, instance_id: str) -> None: ...  # noqa: D102
    def start(self, instance_id: str) -> str: ...  # noqa: D102
    def destroy(self, instance_id: str) -> None: ...  # noqa: D102


@dataclass(slots=True)
class Settings:
    """What can be changed while it runs.

    Attributes:
        pending_s: from RunInstances or StartInstances to running.
        ending_s: from StopInstances or TerminateInstances to stopped or terminated.
        console_delay_s: how long the console stays empty after a launch; minutes on EC2.
        vcpu_limit: region → vCPUs that may run at once; a region that is not here has no limit.
    """

    pending_s: float = 0.3
    ending_s: float = 0.3
    console_delay_s: float = 0.0
    vcpu_limit: dict[str, int] = field(default_factory=dict)


def _refuse(answer: tuple[str, str]) -> EC2ClientError:
    """EC2's error code and its words."""
    return EC2ClientError(*answer)


_NO_TOKEN: Final = {"", "ABCDE"}  # the last is moto's own default when none was sent
_MISMATCH: Final = ("IdempotentParameterMismatch", "The request uses the same client token as an earlier one with other parameters.")
_NOT_OFFERED: Final = (
    "Unsupported",
    "The requested configuration is currently not supported. Please check the documentation for supported configurations.",
)
_ONE_COUNT: Final = ("UnsupportedOperation", "The embedded cloud launches exactly MinCount instances: ask for MaxCount = MinCount.")


def instances(region: str | None = None) -> list[Instance]:
    """Every instance of the account, terminated ones included."""
    backends = ec2_backends[DEFAULT_ACCOUNT_ID]
    regions = [region] if region else list(backends)
    return [i for name in regions for r in backends[name].reservations.copy().values() for i in r.instances]


def patch(settings: Settings, park: Park | None) -> None:
    """Change moto's classes for this process. With a park, instances are its hosts; without, their addresses are loopback ones."""
    lock = threading.RLock()
    _patch_states(settings)
    _patch_launch(settings, park, lock)
    _patch_power(settings, park)
    _patch_console(settings, park)
    _patch_keys_and_groups()
    _patch_images()


# --- launching ----------------------------------------------------------------------------------------------------


def _patch_launch(settings: Settings, park: Park | None, lock: threading.RLock) -> None:
    make = InstanceBackend.run_instances
    seen: dict[tuple[str, str], tuple[str, Any]] = {}
    numbers: dict[str, int] = defaultdict(int)

    def run_instances(self: Any, image_id: str, count: int, user_data: Any, names: list[str], **wanted: Any) -> Any:
        token, region = str(wanted.get("client_token") or ""), str(wanted.get("region_name"))
        asked = json.dumps([image_id, count, str(user_data), names, wanted], sort_keys=True, default=str)
        with lock:
            if token not in _NO_TOKEN and (region, token) in seen:
                before, reservation = seen[region, token]
                if before != asked:
                    raise _refuse(_MISMATCH)
                return reservation
            _validate(self, image_id, str(wanted["instance_type"]), region=region, count=count, settings=settings)
            if wanted.get("key_name") and wanted["key_name"] not in self.key_pairs:
                raise _refuse(("InvalidKeyPair.NotFound", f"The key pair '{wanted['key_name']}' does not exist"))
            for mapping in wanted.get("block_device_mappings", []):
                mapping["Ebs"].setdefault("DeleteOnTermination", True)
            reservation = make(self, image_id, count, user_data, names, **wanted)
            if token not in _NO_TOKEN:
                seen[region, token] = (asked, reservation)
            for instance in reservation.instances:
                instance.client_token = token
                instance.shutdown_behavior = wanted.get("instance_initiated_shutdown_behavior") or "stop"
                instance.launched = time.monotonic()
                _transition(instance, "pending", 0, settings.pending_s)
                numbers[region] += 1
                loopback = f"127.77.{len(seen) % 250}.{numbers[region] % 250 + 2}"
                _set_address(instance, park.create(_spec(self, instance, wanted)) if park else loopback)
        return reservation

    InstanceBackend.run_instances = run_instances
    answer = InstanceResponse.run_instances

    def respond(self: Any) -> Any:
        if self._get_param("MaxCount", "1") != self._get_param("MinCount", "1"):
            raise _refuse(_ONE_COUNT)
        return answer(self)

    InstanceResponse.run_instances = respond
    ec2_utils.filter_dict_attribute_mapping["client-token"] = "client_token"


def _validate(backend: Any, image_id: str, kind: str, *, region: str, count: int, settings: Settings) -> None:
    """Refuse as EC2 does: unknown image, unknown type, a type that the region does not have, the vCPU quota."""
    if image_id not in backend.amis:
        raise _refuse(("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist"))
    if kind not in INSTANCE_TYPES:
        raise _refuse(("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType."))
    if not any(offer["InstanceType"] == kind for offer in INSTANCE_TYPE_OFFERINGS["region"].get(region, [])):
        raise _refuse(_NOT_OFFERED)
    limit = settings.vcpu_limit.get(region)
    if limit is not None:
        running = sum(_vcpus(i.instance_type) for i in instances(region) if i.state not in {"terminated", "stopped", "shutting-down"})
        if running + count * _vcpus(kind) > limit:
            words = (
                f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket that "
                "the specified instance type belongs to."
            )
            raise _refuse(("VcpuLimitExceeded", words))


def _vcpus(kind: str) -> int:
    return int(INSTANCE_TYPES[kind]["VCpuInfo"]["DefaultVCpus"])


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
    )


def _decoded(user_data: Any) -> bytes:
    try:
        return base64.b64decode(str(user_data), validate=True) if user_data else b""
    except binascii.Error:
        return str(user_data).encode()


def _set_address(instance: Instance, address: str) -> None:
    instance.nics[0].public_ip = address


# --- states -------------------------------------------------------------------------------------------------------


def _transition(instance: Instance, name: str, code: int, seconds: float) -> None:
    """Show another state for a while before the one that moto holds."""
    instance.__dict__["_via"] = (InstanceState(name, code), time.monotonic() + seconds)


def _patch_states(settings: Settings) -> None:
    def shown(self: Any) -> InstanceState | None:
        via = self.__dict__.get("_via")
        if via and time.monotonic() < via[1]:
            return InstanceState(via[0].name, via[0].code)
        held = self.__dict__.get("_held")
        return held if isinstance(held, InstanceState) else None

    def hold(self: Any, state: InstanceState) -> None:
        self.__dict__["_held"] = state

    Instance._state = property(shown, hold)  # noqa: SLF001 - moto offers no other way to its states

    def wrap(method: str, name: str, code: int, then: tuple[str, int], seconds: str) -> None:
        original = getattr(Instance, method)

        def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
            before = original(self, *args, **kwargs)
            self._state = InstanceState(*then)  # what moto changed may have been a shown state, which is not kept
            _transition(self, name, code, getattr(settings, seconds))
            return before

        setattr(Instance, method, changed)

    wrap("start", "pending", 0, ("running", 16), "pending_s")
    wrap("stop", "stopping", 64, ("stopped", 80), "ending_s")
    wrap("terminate", "shutting-down", 32, ("terminated", 48), "ending_s")


def _patch_power(_settings: Settings, park: Park | None) -> None:
    """Let what is asked of instances happen to their hosts."""
    if park is None:
        return

    def follow(method: str, act: Any) -> None:
        original = getattr(InstanceBackend, method)

        def changed(self: Any, instance_ids: list[str]) -> Any:
            alive = {i.id for i in self.get_multi_instances_by_id(instance_ids) if i.state not in {"terminated", "shutting-down"}}
            done = original(self, instance_ids)
            for instance in self.get_multi_instances_by_id(instance_ids):
                if instance.id in alive:
                    act(instance)
            return done

        setattr(InstanceBackend, method, changed)

    follow("start_instances", lambda i: _set_address(i, park.start(i.id)))
    follow("stop_instances", lambda i: park.stop(i.id))
    follow("reboot_instances", lambda i: park.reboot(i.id))
    follow("terminate_instances", lambda i: park.destroy(i.id))


def ended_by_itself(park: Park, instance_id: str) -> None:
    """A host powered itself off: EC2 terminates or stops the instance, as its shutdown behaviour says."""
    for instance in instances():
        if instance.id == instance_id and instance.state not in {"terminated", "stopped", "shutting-down", "stopping"}:
            if instance.shutdown_behavior == "terminate":
                instance.terminate()
                park.destroy(instance_id)
            else:
                instance.stop()
                park.stop(instance_id)


# --- the rest -----------------------------------------------------------------------------------------------------


def _patch_console(settings: Settings, park: Park | None) -> None:
    def get_console_output(self: Any) -> ActionResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        shown = park is not None and time.monotonic() - instance.launched >= settings.console_delay_s and instance.state != "terminated"
        text = park.console(instance.id)[-65_536:] if park and shown else ""
        output = base64.b64encode(text.encode()).decode()
        return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": output})

    General.get_console_output = get_console_output


def _patch_keys_and_groups() -> None:
    import_key = KeyPairBackend.import_key_pair

    def import_key_pair(self: Any, key_name: str, public_key_material: bytes, *rest: Any, **named: Any) -> Any:
        try:
            return import_key(self, key_name, public_key_material, *rest, **named)
        except (ValueError, TypeError, IndexError) as error:
            raise _refuse(("InvalidKey.Format", "Key is not in valid OpenSSH public key format")) from error

    KeyPairBackend.import_key_pair = import_key_pair
    delete_group = SecurityGroupBackend.delete_security_group

    def delete_security_group(self: Any, name: str | None = None, group_id: str | None = None) -> None:
        for instance in instances(self.region_name):
            if instance.state != "terminated" and any(group.id == group_id for group in instance.security_groups):
                raise _refuse(("DependencyViolation", f"resource {group_id} has a dependent object"))
        delete_group(self, name, group_id)

    SecurityGroupBackend.delete_security_group = delete_security_group


def image_id(region: str, parameter: str) -> str:
    """The id under which a region has the image of a parameter; ids differ between regions, as on EC2."""
    return f"ami-{hashlib.sha256(f'{region} {parameter}'.encode()).hexdigest()[:17]}"


def _patch_images() -> None:
    """Ubuntu's images and parameters in every region; moto's own 1300 images of 2017 are not loaded."""

    def load_amis(self: Any) -> None:
        for image in catalog.aws().images:
            if image.parameter is None:
                continue  # found by a name pattern, which nothing launches yet
            ami = image_id(self.region_name, image.parameter)
            self.amis[ami] = Ami(
                self,
                ami,
                name=f"{image.os}/images/hvm-ssd/{image.os}-{image.version}-amd64-server-rehearsal",
                owner_id=_CANONICAL,
                public=True,
                virtualization_type="hvm",
                architecture="x86_64",
                root_device_type="ebs",
                root_device_name=image.root_device,
                region_name=self.region_name,
            )

    AmiBackend._load_amis = load_amis  # noqa: SLF001 - nor to its images
    get_parameter = SimpleSystemManagerBackend.get_parameter
    known = {image.parameter for image in catalog.aws().images if image.parameter}

    def get(self: Any, name: str) -> Parameter | None:
        if name not in known:
            return get_parameter(self, name)
        value = image_id(self.region_name, name)
        return Parameter(self.account_id, name, value, "String", None, None, None, utcnow(), 1, "aws:ec2:image")

    SimpleSystemManagerBackend.get_parameter = get

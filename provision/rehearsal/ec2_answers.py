"""Answers of the embedded EC2 that moto has not or has otherwise: keys, groups, images, regions, quotas, the status of instances."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ec2.models.key_pairs import KeyPairBackend
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.responses.availability_zones_and_regions import AvailabilityZonesAndRegions
from moto.ec2.responses.instances import InstanceResponse
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

from provision.catalog import read as catalog
from provision.rehearsal.ec2_model import DEFAULT_VCPU_LIMIT, Settings, instances, refuse

__all__ = ["patch"]

_CANONICAL: Final = "099720109477"  # owner of Ubuntu's images: shared/facts/stack-facts.md §10.1


def patch(settings: Settings) -> None:
    """Change moto's answers."""
    _patch_keys_and_groups()
    _patch_images()
    _patch_regions(settings)
    _patch_quotas(settings)
    _patch_status(settings)


def _patch_keys_and_groups() -> None:
    import_key = KeyPairBackend.import_key_pair

    def import_key_pair(self: Any, key_name: str, public_key_material: bytes, *rest: Any, **named: Any) -> Any:
        try:
            return import_key(self, key_name, public_key_material, *rest, **named)
        except (ValueError, TypeError, IndexError):
            refuse("InvalidKey.Format", "Key is not in valid OpenSSH public key format")

    KeyPairBackend.import_key_pair = import_key_pair
    delete_group = SecurityGroupBackend.delete_security_group

    def delete_security_group(self: Any, name: str | None = None, group_id: str | None = None) -> None:
        for instance in instances(self.region_name):
            if instance.state != "terminated" and any(group.id == group_id for group in instance.security_groups):
                refuse("DependencyViolation", f"resource {group_id} has a dependent object")
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


def _patch_regions(settings: Settings) -> None:
    def describe_regions(self: Any) -> ActionResult:
        wanted, everything = self._get_param("RegionNames", []), self._get_bool_param("AllRegions", if_none=False)
        listed = []
        for region in self.ec2_backend.describe_regions(wanted):
            status = "not-opted-in" if region.name in settings.not_opted_in else region.opt_in_status
            if everything or status != "not-opted-in":
                listed.append({"RegionName": region.name, "Endpoint": region.endpoint, "OptInStatus": status})
        unknown = set(wanted) - {r["RegionName"] for r in listed}
        if unknown:
            refuse("InvalidParameterValue", f"Invalid region provided: [{min(unknown)}]")
        return ActionResult({"Regions": listed})

    AvailabilityZonesAndRegions.describe_regions = describe_regions


def _patch_quotas(settings: Settings) -> None:
    known = {quota.code: quota for quota in catalog.aws().quotas}

    def get_service_quota(self: Any, service_code: str, quota_code: str) -> dict[str, Any]:
        quota = known.get(quota_code)
        if service_code != "ec2" or quota is None:
            raise NoSuchResource
        families = " and ".join(family.upper() for family in quota.families)
        return {
            "ServiceCode": "ec2",
            "QuotaCode": quota_code,
            "QuotaName": f"{families} instances, {quota.market}",
            "Value": float(settings.vcpu_limit.get(self.region_name, DEFAULT_VCPU_LIMIT)),
            "Unit": "None",
            "Adjustable": True,
        }

    ServiceQuotasBackend.get_service_quota = get_service_quota


def _patch_status(settings: Settings) -> None:
    def describe_instance_status(self: Any) -> ActionResult:
        found = self.ec2_backend.describe_instance_status(
            self._get_param("InstanceIds", []),
            self._get_bool_param("IncludeAllInstances", if_none=False),
            [{"name": k, "values": v} for k, v in self._filters_from_querystring().items()],
        )
        return ActionResult({"InstanceStatuses": [_status(instance, settings) for instance in found]})

    InstanceResponse.describe_instance_status = describe_instance_status


def _status(instance: Any, settings: Settings) -> dict[str, Any]:
    fine = {"Status": "ok" if instance.state == "running" else "not-applicable"}
    events = [
        {**event, **({"NotBefore": dt.datetime.fromisoformat(event["NotBefore"])} if "NotBefore" in event else {})}
        for event in settings.events.get(instance.id, [])
    ]
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.placement.zone,
        "InstanceState": {"Name": instance._state.name, "Code": instance._state.code},  # noqa: SLF001 - moto offers no other way
        "InstanceStatus": fine,
        "SystemStatus": fine,
        "Events": events,
    }

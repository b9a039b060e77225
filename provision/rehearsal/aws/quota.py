"""Quotas of the embedded EC2: limits out of the settings, use out of what runs."""

import json
from typing import Any, Final

from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse

from provision.clouds.aws import data
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import instances, method_of

_DEFAULT_VCPU_LIMIT: Final = 100_000  # more than any rehearsal runs
_NOT_COUNTED: Final = {"terminated", "stopped", "shutting-down"}


def vcpus(instance_type: str) -> int:
    """How many vCPUs an instance of this type has."""
    return int(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


def quota_code(instance_type: str, market: str) -> str:
    """The quota that an instance type counts against; types without GPU share one."""
    return data.quota(instance_type, market) or f"others-{market}"


def used_vcpus(region: str, code: str) -> int:
    """How many vCPUs run under a quota."""
    counted = [i for i in instances(region) if i.state not in _NOT_COUNTED]
    return sum(vcpus(i.instance_type) for i in counted if quota_code(i.instance_type, i.lifecycle or "on-demand") == code)


def patch(settings: AwsSettings) -> None:
    """Let Service Quotas answer with the limits of the settings, and with AWS's default for a quota that the account does not have.

    https://github.com/hashicorp/terraform-provider-aws/issues/10929.
    """
    quotas = {quota.code: quota for quota in data.aws().quotas}

    @method_of(ServiceQuotasBackend)
    def get_service_quota(self: Any, service_code: str, quota_code: str) -> dict[str, Any]:
        if quota_code in settings.unset_quotas:
            raise NoSuchResource
        return row(self, service_code, quota_code)

    @method_of(ServiceQuotasResponse)
    def get_aws_default_service_quota(self: Any) -> str:
        asked = json.loads(self.body)
        return json.dumps({"Quota": row(self.backend, str(asked.get("ServiceCode")), str(asked.get("QuotaCode")))})

    def row(self: Any, service_code: str, quota_code: str) -> dict[str, Any]:
        quota = quotas.get(quota_code)
        if service_code != "ec2" or quota is None:
            raise NoSuchResource
        families = " and ".join(family.upper() for family in quota.families)
        return {
            "ServiceCode": "ec2",
            "QuotaCode": quota_code,
            "QuotaName": f"{families} instances, {quota.market}",
            "Value": float(settings.vcpu_limit.get(self.region_name, _DEFAULT_VCPU_LIMIT)),
            "Unit": "None",
            "Adjustable": True,
        }

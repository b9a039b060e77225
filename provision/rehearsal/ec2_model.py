"""What the parts of the embedded EC2 share: its settings, its hosts, its instances, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instances import Instance

from provision.catalog import places
from provision.rehearsal.hosts import HostSpec

__all__ = ["Park", "Settings", "instances", "offering_zones", "quota_code", "refuse", "tags_of", "used_vcpus", "vcpus"]


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
        unseen_s: how long DescribeInstances does not show a new instance: EC2 is eventually consistent.
        console_delay_s: how long the console stays empty after a launch; minutes on EC2.
        vcpu_limit: region → vCPUs that may run at once under each quota; a region that is not here has `default_vcpu_limit`.
        zone_capacity: zone → machines left in it, counted down by launches; a zone that is not here has no end of them.
        not_opted_in: regions that the account has not enabled: they refuse its credentials.
        events: instance id → events of its status, with Code, Description and, as ISO 8601, NotBefore.
        spot_status: instance id → the code of its spot request's status, such as `marked-for-termination`.
        allowed: an IAM policy document, the only one that the caller has; None for an account's owner, who may do everything.
    """

    pending_s: float = 0.3
    ending_s: float = 0.3
    unseen_s: float = 0.0
    console_delay_s: float = 0.0
    vcpu_limit: dict[str, int] = field(default_factory=dict)
    zone_capacity: dict[str, int] = field(default_factory=dict)
    not_opted_in: list[str] = field(default_factory=list)
    events: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    spot_status: dict[str, str] = field(default_factory=dict)
    allowed: dict[str, Any] | None = None


DEFAULT_VCPU_LIMIT: Final = 100_000
"""What GetServiceQuota says where no limit is set: more than any rehearsal runs."""
_NOT_COUNTED: Final = {"terminated", "stopped", "shutting-down"}


def refuse(code: str, words: str) -> NoReturn:
    """Answer with EC2's error code and its words.

    Raises:
        EC2ClientError: always.
    """
    raise EC2ClientError(code, words)


def instances(region: str | None = None) -> list[Instance]:
    """Every instance of the account, terminated ones included."""
    backends = ec2_backends[DEFAULT_ACCOUNT_ID]
    regions = [region] if region else list(backends)
    return [i for name in regions for r in backends[name].reservations.copy().values() for i in r.instances]


def offering_zones(region: str, kind: str) -> list[str]:
    """The zones of a region that have an instance type."""
    offers = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return sorted(offer["Location"] for offer in offers if offer["InstanceType"] == kind)


def vcpus(kind: str) -> int:
    """How many a machine of this type has."""
    return int(INSTANCE_TYPES[kind]["VCpuInfo"]["DefaultVCpus"])


def quota_code(kind: str, market: str) -> str:
    """The quota that an instance type counts against; types without GPU share one."""
    return places.quota_of("aws", kind, None, market) or f"others-{market}"


def used_vcpus(region: str, code: str) -> int:
    """How many vCPUs run under a quota."""
    running = [i for i in instances(region) if i.state not in _NOT_COUNTED]
    return sum(vcpus(i.instance_type) for i in running if quota_code(i.instance_type, i.lifecycle or "on-demand") == code)


def tags_of(region: str, resource_id: str) -> dict[str, str]:
    """The tags of anything of EC2's; none for what there is not."""
    return dict(ec2_backends[DEFAULT_ACCOUNT_ID][region].tags.get(resource_id, {}))

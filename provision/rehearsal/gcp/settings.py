"""What can be changed in the embedded GCP while it runs, and its one project."""

from dataclasses import dataclass, field
from typing import Any, Final

PROJECT: Final = "gpuprov-rehearsal"


@dataclass(slots=True)
class GcpSettings:
    """The fields of `/_rehearsal/settings` that are GCP's."""

    gce_operation_s: float = 0.2  # seconds from a call to the end of its operation
    gce_running_s: float = 0.3  # seconds from insert or start to RUNNING; half of them PROVISIONING, half STAGING
    gce_guest_attributes_s: float = 0.0  # seconds from RUNNING to the host keys in the guest attributes
    # region, or `global`, → metric → limit; a metric without an entry has `gce_default_quota`
    gce_quota: dict[str, dict[str, float]] = field(default_factory=dict)
    gce_default_quota: float = 1000.0  # the limit of every other metric
    # zone → how many instances it can run at once; a zone without an entry has no end of them
    gce_capacity: dict[str, int] = field(default_factory=dict)
    # name of an instance → its `resourceStatus.upcomingMaintenance`
    gce_maintenance: dict[str, dict[str, Any]] = field(default_factory=dict)
    # a constraint of the organisation's policy → what it allows, where it is a list: image projects, regions and zones
    gce_constraints: dict[str, list[str]] = field(default_factory=dict)
    gce_allowed: list[str] | None = None  # the IAM permissions of the caller; None for all
    # the smallest maxRunDuration in seconds: docs.cloud.google.com/compute/docs/instances/limit-vm-runtime, "Restrictions"
    gce_shortest_run_s: float = 30.0

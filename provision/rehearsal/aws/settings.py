"""What can be changed in the embedded AWS while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class AwsSettings:
    """The fields of `/_rehearsal/settings` that are AWS's.

    Attributes:
        pending_s: seconds from RunInstances or StartInstances to running.
        ending_s: seconds from StopInstances or TerminateInstances to stopped or terminated.
        unseen_s: seconds for which DescribeInstances does not show a new instance: EC2 is eventually consistent.
        console_delay_s: seconds for which the console stays empty after a launch; minutes on EC2.
        vcpu_limit: region → vCPUs that may run at once under each quota; a region without an entry has no limit.
        zone_capacity: zone → instances that it still has room for, counted down by launches; a zone without an entry has no end of them.
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

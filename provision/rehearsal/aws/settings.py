"""What can be changed in the embedded AWS while it runs."""

from typing import Any

from provision.structs import MutableStruct, field


class AwsSettings(MutableStruct):
    """The fields of `/_rehearsal/settings` that are AWS's."""

    pending_s: float = 0.3  # seconds from RunInstances or StartInstances to running
    ending_s: float = 0.3  # seconds from StopInstances or TerminateInstances to stopped or terminated
    terminated_s: float = 3600.0  # seconds for which an instance that ended is still described: about an hour on EC2
    # EC2 is eventually consistent: for a share of these seconds, drawn by the seed for each thing, other calls do not know what was made,
    # nor its tags
    lag_s: float = 0.3
    lag_seed: int = 1
    unseen_s: float = 0.0  # seconds for which DescribeInstances does not show a new instance, whatever the seed draws
    tags_s: float = 0.0  # seconds from the first tag of a thing for which no answer shows its tags or finds it by them, as well
    console_delay_s: float = 0.0  # seconds for which the console stays empty after a launch; minutes on EC2
    # region → the code of the state reason with which what is launched there ends, after a while; a region without an entry has none
    ends: dict[str, str] = field(default_factory=dict)
    # region → vCPUs that may run at once under each quota; a region without an entry has no limit
    vcpu_limit: dict[str, int] = field(default_factory=dict)
    unset_quotas: list[str] = field(default_factory=list)  # codes of quotas of which the account has no value of its own
    # zone → instances that it still has room for, counted down by launches; a zone without an entry has no end of them
    zone_capacity: dict[str, int] = field(default_factory=dict)
    not_opted_in: list[str] = field(default_factory=list)  # regions that the account has not enabled: they refuse its credentials
    # region → the code with which the account's state refuses there: OptInRequired, PendingVerification or Blocked
    account_state: dict[str, str] = field(default_factory=dict)
    no_default_vpc: list[str] = field(default_factory=list)  # regions whose default VPC somebody has deleted
    # instance id → events of its status, with Code, Description and, as ISO 8601, NotBefore
    events: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    # instance id → the code of its spot request's status, such as `marked-for-termination`
    spot_status: dict[str, str] = field(default_factory=dict)
    # reservation id → instance_type, zone, total, free, state, kind (default or capacity-block), begins and ends, as ISO 8601; None: any
    # id exists
    capacity_reservations: dict[str, dict[str, Any]] | None = None
    # instance type → US dollars for a machine and hour of the capacity blocks on offer; a type without an entry has none on offer
    block_prices: dict[str, float] = field(default_factory=dict)
    placement_groups: list[str] | None = None  # their names; None: any exists
    # an IAM policy document, the only one that the caller has; None for an account's owner, who may do everything
    allowed: dict[str, Any] | None = None
    # images beside the catalogue's, as DescribeImages shows them, and with `Region`, the `Parameter` of the id, `Login`, the first user,
    # and `System`, such as `rocky 9`
    amis: list[dict[str, Any]] = field(default_factory=list)
    # images that clients made, as DescribeImages shows them, and what is needed to start from them
    made_images: list[dict[str, Any]] = field(default_factory=list)
    image_s: float = 0.3  # seconds from CreateImage to an image that is available; minutes on EC2
    image_failure: str = ""  # why images that are made from now on end as failed; empty where they become available
    # a service control policy of the account's organisation: what it denies is denied to everybody
    guardrail: dict[str, Any] | None = None
    # what the account does not have although a request names it, as the request does: keys of KMS, instance profiles, buckets; it has all
    # others
    missing: list[str] = field(default_factory=list)
    profile_s: float = 0.0  # seconds from the first request that names an instance profile for which EC2 does not know it: it is new
    # the account's Allowed AMIs: `state` is `enabled` or `audit-mode`, `owners` are the account ids whose images it allows
    allowed_amis: dict[str, Any] | None = None
    imds_tokens_enforced: bool = False  # HttpTokensEnforced of the account's metadata defaults
    clock_ahead_s: float = 0.0  # seconds by which the clock of the Auto Scaling groups is ahead
    group_retry_s: float = 1.0  # seconds from a failed launch of a group to its next one
    # role → the IAM policy document that holds the machines with its credentials; a role without an entry may do nothing
    role_policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    # keys of KMS, as requests name them, whose own policies let the role of Auto Scaling use them; its groups can use no other
    group_keys: list[str] = field(default_factory=list)
    bucket_keys: dict[str, str] = field(default_factory=dict)  # bucket → the ARN of the key of KMS that its objects are encrypted with
    block_public_access: dict[str, str] = field(default_factory=dict)  # region → InternetGatewayBlockMode; without an entry `off`
    exclusions_allowed: str = "allowed"  # ExclusionsAllowed of Block Public Access, `allowed` or `not-allowed`
    # the services whose service-linked role the account has, such as spot.amazonaws.com; None: of all of them
    service_roles: list[str] | None = None

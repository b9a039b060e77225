"""What can be changed in the embedded GCP while it runs, and its one project."""

from typing import Any, Final

from provision.structs import MutableStruct, field

PROJECT: Final = "gpuprov-rehearsal"


class GcpSettings(MutableStruct):
    """The fields of `/_rehearsal/settings` that are GCP's."""

    gce_operation_s: float = 0.2  # seconds from a call to the end of its operation
    # Of what is late or refused now and then (unkind.py): lists, firewalls, deletions, a network that somebody changes. None: nothing is
    gce_seed: int | None = 1
    gce_unseen_s: float = 0.0  # seconds from a call for which no list shows what it makes, beside those of the seed; a `get` does
    # zone → why a machine that was made there without an error is STOPPING at once: Instance.statusMessage of Google's document
    gce_stops: dict[str, str] = field(default_factory=dict)
    # zones in which the machine stays whose operation a fault lets fail: skypilot-org/skypilot#1797
    gce_kept: list[str] = field(default_factory=list)
    gce_running_s: float = 0.3  # seconds from insert or start to RUNNING; half of them PROVISIONING, half STAGING
    gce_guest_attributes_s: float = 0.0  # seconds from RUNNING to the host keys in the guest attributes
    # region, or `global`, → metric → limit; a metric without an entry has `gce_default_quota`
    gce_quota: dict[str, dict[str, float]] = field(default_factory=dict)
    gce_default_quota: float = 1000.0  # the limit of every other metric
    # zone → how many instances it can run at once; a zone without an entry has no end of them
    gce_capacity: dict[str, int] = field(default_factory=dict)
    # name of an instance → its `resourceStatus.upcomingMaintenance`
    gce_maintenance: dict[str, dict[str, Any]] = field(default_factory=dict)
    # name → zone, machine_type, count and used of a reservation; None: any name exists and has room
    gce_reservations: dict[str, dict[str, Any]] | None = None
    gce_placement_policies: list[str] | None = None  # their names, in every region; None: any exists
    # images of projects beside the public ones: `project`, `name`, `system`, such as `rocky 9`, and any other field of an
    # image as `images.get` shows it
    gce_images: list[dict[str, Any]] = field(default_factory=list)
    gce_made_images: list[dict[str, Any]] = field(default_factory=list)  # images that clients made, in the same form
    # A constraint of the organisation's policy → what it allows, where it is a list: image projects, regions and zones. Google's managed
    # ones are named `compute.managed.…`; those of the organisation, `custom.…`, forbid each insert, and their first word is the reason.
    gce_constraints: dict[str, list[str]] = field(default_factory=dict)
    gce_allowed: list[str] | None = None  # the IAM permissions of the caller; None for all
    # the smallest maxRunDuration in seconds: docs.cloud.google.com/compute/docs/instances/limit-vm-runtime, "Restrictions"
    gce_shortest_run_s: float = 30.0
    gce_shortest_wait_s: float = 90.0  # of flex-start
    # the keys of Cloud KMS, as requests name them, that do not exist or that Compute Engine's service agent may not use
    gce_keys_refused: list[str] = field(default_factory=list)
    gce_login_external: bool = False  # whether the caller is of another organization, without a role of OS Login in the project's
    gce_login_accounts: bool = True  # whether a profile of OS Login has a POSIX account
    gce_caller: str = "user@example.com"  # whose credentials all callers have, for OS Login
    # of the project's IAM policy: `role` and `members`, and `condition` where it holds under one
    gce_bindings: list[dict[str, Any]] = field(default_factory=list)
    gce_billing: bool = True  # whether an open billing account pays for the project
    gce_apis_off: list[str] = field(default_factory=list)  # the APIs that are not enabled, such as `oslogin.googleapis.com`
    gce_missing_accounts: list[str] = field(default_factory=list)  # service accounts that do not exist; every other one does
    gce_check_s: float | None = None  # seconds between two questions of a health check; None for the check's own
    # Whether Cloud Storage looks for storage.objects.delete before it looks at a precondition; its pages do not say it.
    gce_delete_before_match: bool = False
    gce_initial_delay_s: float | None = None  # of the groups' autohealing; None for each group's own
    # Whether a group becomes smaller by a member that its time limit ended; the page on limits in groups does not say it.
    gce_limit_shrinks: bool = False
    gce_group_retry_s: float = 5.0  # seconds from a member that a group could not make to its next try
    # name of an instance, or `*` → the HTTP status that it answers health checks with, where there are no hosts; without: no answer
    gce_answers: dict[str, int] = field(default_factory=dict)
    # service account → its IAM policy, as `bindings` with `role` and `condition`; an account without one may do nothing
    gce_account_policies: dict[str, dict[str, Any]] = field(default_factory=dict)

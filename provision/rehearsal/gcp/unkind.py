"""What Compute Engine does late, or refuses now and then, by the seed of the settings: the same in each run that makes the same calls.

- Whoever makes a thing can get it at once, and finds it in lists a little later: no page of Google's promises more.
- Firewalls and whatever is deleted take longer than the rest (hashicorp/terraform-provider-google#662 and #18156, kubernetes/kops#16720).
- A network or subnetwork "is not ready" while it is changed, and whatever needs it is refused, or its operation fails
  (GoogleCloudPlatform/magic-modules#5418 and #13881, GoogleCloudPlatform/gke-migration-to-containers#63). Here each change of a firewall
  changes its network, so that a launch meets it without another client.
"""

from typing import Any, Final

from provision.rehearsal.gcp.refusals import ComputeError
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, ResourcePath, World, last

_CHANGES: Final = {"firewalls", "networks", "subnetworks"}
_MACHINES: Final = {"compute.instances.insert", "compute.instances.bulkInsert", "compute.regionInstances.bulkInsert"}
_NEED: Final = {*_MACHINES, "compute.firewalls.insert", "compute.firewalls.patch", "compute.firewalls.delete"}
_REFUSED, _FAILED = 0.15, 0.05  # of the calls that meet a change


def later_s(call: GcpCall) -> float:
    """How much longer than others the operation of a call takes."""
    slow = call.collection == "firewalls" or call.method.id.endswith(".delete")
    return call.world.late_s(call.method.id) if slow else 0.0


def begun(world: World, target: ResourcePath, by: int) -> None:
    """Count an operation that begins, or with -1 ends, if it changes a network."""
    if target.kind in _CHANGES:
        world.changing += by


def check_ready(call: GcpCall) -> None:
    """Refuse a call that needs a network which is being changed, now and then."""
    if _meets(call, _REFUSED):
        raise ComputeError("resourceNotReady", _words(call))


def failure_of(call: GcpCall) -> tuple[str, str] | None:
    """Code and message with which the operation of such a call fails, now and then."""
    return ("RESOURCE_NOT_READY", _words(call)) if call.method.id in _MACHINES and _meets(call, _FAILED) else None


def _meets(call: GcpCall, share: float) -> bool:
    chance = call.world.chance("network") if call.world.changing and call.method.id in _NEED else None
    return chance is not None and chance < share


def _words(call: GcpCall) -> str:
    zone: Any = call.path.get("zone") or f"{call.path.get('region', '')}-"
    where = f"regions/{zone.rpartition('-')[0]}/subnetworks/default" if call.method.id in _MACHINES else ""
    return f"The resource 'projects/{PROJECT}/{where or 'global/networks/' + last(call.body.get('network', 'default'))}' is not ready"

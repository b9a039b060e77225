"""Instances that exist: what is read of them, and what is done to them."""

from collections.abc import Callable
from typing import Any, Final

from provision.rehearsal.gcp.guardrails import check_guest_attributes
from provision.rehearsal.gcp.guests import ALIVE, Guest, end, erase, guest_of, host_keys, host_off, metadata_of, power_off, power_on
from provision.rehearsal.gcp.launch import check_scheduling
from provision.rehearsal.gcp.listing import get, list_all, list_scope
from provision.rehearsal.gcp.offers import zones
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.quota import obstacle
from provision.rehearsal.gcp.refusals import ComputeError, invalid, required, stale
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, fingerprint
from provision.structs import replace

_CONSOLE: Final = 1024 * 1024  # the last mebibyte is kept: docs.cloud.google.com/compute/docs/troubleshooting/viewing-serial-port-output
_PORTS: Final = 4
_HOST_KEYS: Final = "hostkeys"


def _instance(call: GcpCall) -> tuple[Guest, dict[str, Any]]:
    """The instance that a call names, by its name or its id."""
    instance = call.world.get(call.resource(call.path.get("instance") or call.path["resource"]))
    return guest_of(call.world, instance), instance


def _delete(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    if instance.get("deletionProtection"):
        words = f"Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. {guest.place}'."
        raise ComputeError("invalidUsage", words)
    if not call.error and instance["status"] in ALIVE:
        power_off(call.world, instance)
    return begin(call, guest.place, finish=lambda: erase(call.world, instance))


def _stop(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    local = any(disk.get("type") == "SCRATCH" for disk in instance["disks"])
    if local and "discardLocalSsd" not in call.query:
        # docs.cloud.google.com/compute/docs/disks/local-ssd: data on Local SSD does not survive, and the caller has to say that it may go.
        words = "VM has a Local SSD attached but an undefined value for `discard-local-ssd`."
        raise ComputeError("badRequest", words)
    if call.error or instance["status"] not in ALIVE:
        return begin(call, guest.place)
    return begin(call, guest.place, finish=power_off(call.world, instance), settle=lambda: host_off(call.world, instance))


def _start(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    if instance["status"] != "TERMINATED":
        return begin(call, guest.place)
    error = obstacle(call, guest)
    if not error:
        power_on(call.world, instance, status="STAGING")
    return begin(call, guest.place, error=error)


def _maintain(call: GcpCall) -> dict[str, Any]:
    """What Google offers to try a preemption with: a spot instance is taken back, one with GPUs stops and comes again if it may.

    docs.cloud.google.com/compute/docs/instances/create-use-spot, "Test Spot VM settings".
    """
    guest, instance = _instance(call)
    if instance["status"] != "RUNNING":
        raise _not_ready(guest)
    world, scheduling = call.world, instance["scheduling"]
    if guest.spot:
        # The operation that Google makes of a preemption, and by which a client notices it: the same page.
        begin(replace(call, error=None), guest.place, kind="compute.instances.preempted")
        end(world, instance)
    elif scheduling["onHostMaintenance"] == "TERMINATE":
        power_off(world, instance)()
        if scheduling["automaticRestart"]:
            power_on(world, instance, status="STAGING")
    return begin(call, guest.place)


def _not_ready(guest: Guest, why: str = "") -> ComputeError:
    return ComputeError("resourceNotReady", f"The resource '{guest.place}' is not ready{why}")


def _apply(call: GcpCall, guest: Guest, change: Callable[[], object]) -> dict[str, Any]:
    """Make a change at once, unless its operation is to fail."""
    if not call.error:
        change()
    return begin(call, guest.place)


def _set_labels(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    if not call.body.get("labelFingerprint"):
        raise required("labelFingerprint")
    if call.body["labelFingerprint"] != instance["labelFingerprint"]:
        raise stale("label")
    labels = call.body.get("labels", {})
    return _apply(call, guest, lambda: instance.update(labels=labels, labelFingerprint=fingerprint(labels)))


def _set_protection(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    return _apply(call, guest, lambda: instance.update(deletionProtection=call.query.get("deletionProtection", "true") == "true"))


def _set_metadata(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    if call.body.get("fingerprint") != instance["metadata"]["fingerprint"]:
        raise stale("metadata")
    items = call.body.get("items", [])
    metadata = {"kind": "compute#metadata", "items": items, "fingerprint": fingerprint(items)}
    return _apply(call, guest, lambda: instance.update(metadata=metadata))


def _set_scheduling(call: GcpCall) -> dict[str, Any]:
    """Only of a stopped instance, as the method's description in Google's document says."""
    guest, instance = _instance(call)
    if instance["status"] != "TERMINATED":
        raise _not_ready(guest, ": scheduling can be set only of an instance in the TERMINATED state.")
    fresh = {**instance["scheduling"], **call.body}
    for one, other in (("maxRunDuration", "terminationTime"), ("terminationTime", "maxRunDuration")):
        if one in call.body and other not in call.body:
            fresh.pop(other, None)
    check_scheduling(call.world, fresh)
    return _apply(call, guest, lambda: instance.update(scheduling=fresh))


def _console(call: GcpCall) -> dict[str, Any]:
    guest, instance = _instance(call)
    port, start = int(call.query.get("port", 1)), int(call.query.get("start", 0))
    if not 1 <= port <= _PORTS:
        raise invalid("port", port, f"Must be between 1 and {_PORTS}.")
    park = call.world.park
    text = park.console(guest.host_id(instance)) if park and guest.has_host and port == 1 else ""
    start = max(start, len(text) - _CONSOLE, 0)
    numbers = {"start": str(start), "next": str(max(start, len(text)))}
    return {"kind": "compute#serialPortOutput", "selfLink": f"{guest.place.link}/serialPort", "contents": text[start:], **numbers}


def _guest_attributes(call: GcpCall) -> dict[str, Any]:
    """Host keys under `hostkeys/`, as Google's guest agent writes them: GoogleCloudPlatform/compute-image-packages#763."""
    guest, instance = _instance(call)
    check_guest_attributes(call.world)
    enabled = metadata_of(instance).get("enable-guest-attributes", "").upper() == "TRUE"
    path = call.query.get("queryPath") or call.query.get("variableKey", "")
    namespace, _, key = path.partition("/")
    keys = dict(line.split(" ", 1) for line in host_keys(call.world, instance)) if enabled else {}
    items = [
        {"namespace": _HOST_KEYS, "key": kind, "value": value}
        for kind, value in keys.items()
        if namespace in {"", _HOST_KEYS} and key in {"", kind}
    ]
    if not items:
        raise ComputeError("notFound", f"The resource '{path}' of type 'Guest Attribute' was not found.")
    link = f"{BASE}{guest.place}/getGuestAttributes/{path}"
    return {"kind": "compute#guestAttributes", "selfLink": link, "queryPath": path, "queryValue": {"items": items}}


HANDLERS: Final[dict[str, Handler]] = {
    "compute.instances.get": get,
    "compute.instances.list": list_scope,
    "compute.instances.aggregatedList": lambda call: list_all(call, [f"zones/{zone}" for zone in zones()]),
    "compute.instances.delete": _delete,
    "compute.instances.stop": _stop,
    "compute.instances.start": _start,
    "compute.instances.simulateMaintenanceEvent": _maintain,
    "compute.instances.setLabels": _set_labels,
    "compute.instances.setMetadata": _set_metadata,
    "compute.instances.setScheduling": _set_scheduling,
    "compute.instances.setDeletionProtection": _set_protection,
    "compute.instances.getSerialPortOutput": _console,
    "compute.instances.getGuestAttributes": _guest_attributes,
}

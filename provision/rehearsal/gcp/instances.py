"""What can be asked of an instance that exists: delete, stop, start, labels, metadata, scheduling, console, guest attributes."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from provision.rehearsal.gcp.guests import ALIVE, end, erase, guest_of, host_keys, host_off, metadata_of, power_off, power_on
from provision.rehearsal.gcp.launch import check_scheduling, out_of_stock
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.quota import shortage
from provision.rehearsal.gcp.refusals import ComputeError, invalid, required, stale
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, fingerprint

_CONSOLE: Final = 1024 * 1024  # the last mebibyte is kept: docs.cloud.google.com/compute/docs/troubleshooting/viewing-serial-port-output
_HOST_KEYS: Final = "hostkeys"


def _found(call: GcpCall) -> tuple[ResourcePath, dict[str, Any]]:
    place = call.resource(call.path["instance"])
    instance = call.world.get(place)
    return guest_of(call.world, instance).place, instance


def _delete(call: GcpCall) -> dict[str, Any]:
    place, instance = _found(call)
    if instance.get("deletionProtection"):
        words = f"Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. {place}'."
        raise ComputeError(HTTPStatus.BAD_REQUEST, "invalidUsage", words)
    if call.failing:
        return begin(call, place)
    if instance["status"] in ALIVE:
        power_off(call.world, instance)
    return begin(call, place, finish=lambda: erase(call.world, instance))


def _stop(call: GcpCall) -> dict[str, Any]:
    place, instance = _found(call)
    local = any(disk.get("type") == "SCRATCH" for disk in instance["disks"])
    if local and "discardLocalSsd" not in call.query:
        # docs.cloud.google.com/compute/docs/disks/local-ssd: data on Local SSD does not survive, and the caller has to say that it may go.
        words = "VM has a Local SSD attached but an undefined value for `discard-local-ssd`."
        raise ComputeError(HTTPStatus.BAD_REQUEST, "badRequest", words)
    if call.failing or instance["status"] not in ALIVE:
        return begin(call, place)
    return begin(call, place, finish=power_off(call.world, instance), settle=lambda: host_off(call.world, instance))


def _start(call: GcpCall) -> dict[str, Any]:
    place, instance = _found(call)
    if instance["status"] != "TERMINATED":
        return begin(call, place)
    world, zone, guest = call.world, call.path["zone"], guest_of(call.world, instance)
    failed = call.failing or shortage(world, zone.rpartition("-")[0], [guest]) or out_of_stock(world, zone, guest)
    if not failed:
        power_on(world, instance, status="STAGING")
    return begin(call, place, failed=failed)


def _maintain(call: GcpCall) -> dict[str, Any]:
    """What Google offers to try a preemption with: a spot instance is taken back, one with GPUs stops and comes again if it may.

    docs.cloud.google.com/compute/docs/instances/create-use-spot, "Test Spot VM settings".
    """
    place, instance = _found(call)
    if instance["status"] != "RUNNING":
        raise ComputeError(HTTPStatus.BAD_REQUEST, "resourceNotReady", f"The resource '{place}' is not ready")
    world, scheduling = call.world, instance["scheduling"]
    if guest_of(world, instance).spot:
        # The operation that Google makes of a preemption, by which it is found: the same page.
        begin(replace(call, failing=None), place, kind="compute.instances.preempted")
        end(world, instance)
    elif scheduling["onHostMaintenance"] == "TERMINATE":
        power_off(world, instance)()
        if scheduling["automaticRestart"]:
            power_on(world, instance, status="STAGING")
    return begin(call, place)


def _set_labels(call: GcpCall) -> dict[str, Any]:
    place, instance = _found(call)
    if not call.body.get("labelFingerprint"):
        raise required("labelFingerprint")
    if call.body["labelFingerprint"] != instance["labelFingerprint"]:
        raise stale("label")
    labels = call.body.get("labels", {})

    if not call.failing:
        instance |= {"labels": labels, "labelFingerprint": fingerprint(labels)}
    return begin(call, place)


def _set_metadata(call: GcpCall) -> dict[str, Any]:
    place, instance = _found(call)
    if call.body.get("fingerprint") != instance["metadata"]["fingerprint"]:
        raise stale("metadata")
    items = call.body.get("items", [])
    if not call.failing:
        instance["metadata"] = {"kind": "compute#metadata", "items": items, "fingerprint": fingerprint(items)}
    return begin(call, place)


def _set_scheduling(call: GcpCall) -> dict[str, Any]:
    """Only of a stopped instance, as the method's description in Google's document says."""
    place, instance = _found(call)
    if instance["status"] != "TERMINATED":
        words = f"The resource '{place}' is not ready: scheduling can be set only of an instance in the TERMINATED state."
        raise ComputeError(HTTPStatus.BAD_REQUEST, "resourceNotReady", words)
    fresh = {**instance["scheduling"], **call.body}
    for one, other in (("maxRunDuration", "terminationTime"), ("terminationTime", "maxRunDuration")):
        if one in call.body and other not in call.body:
            fresh.pop(other, None)
    check_scheduling(call.world, fresh)
    if not call.failing:
        instance["scheduling"] = fresh
    return begin(call, place)


def _console(call: GcpCall) -> dict[str, Any]:
    place, instance = _found(call)
    port, start = int(call.query.get("port", 1)), int(call.query.get("start", 0))
    if not 1 <= port <= 4:  # noqa: PLR2004 - an instance has four
        raise invalid("port", port, "Must be between 1 and 4.")
    guest, park = guest_of(call.world, instance), call.world.park
    text = park.console(guest.host_id(instance)) if park and guest.made and port == 1 else ""
    start = max(start, len(text) - _CONSOLE, 0)
    shown = text[start:]
    link = f"{place.link}/serialPort"
    numbers = {"start": str(start), "next": str(start + len(shown))}
    return {"kind": "compute#serialPortOutput", "selfLink": link, "contents": shown, **numbers}


def _guest_attributes(call: GcpCall) -> dict[str, Any]:
    """Host keys under `hostkeys/`, as Google's guest agent writes them: GoogleCloudPlatform/compute-image-packages#763."""
    place, instance = _found(call)
    enabled = metadata_of(instance).get("enable-guest-attributes", "").upper() == "TRUE"
    path = call.query.get("queryPath") or call.query.get("variableKey", "")
    namespace, _, key = path.partition("/")
    known = dict(line.split(" ", 1) for line in host_keys(call.world, instance)) if enabled else {}
    items = [
        {"namespace": _HOST_KEYS, "key": kind, "value": value}
        for kind, value in known.items()
        if namespace in {"", _HOST_KEYS} and key in {"", kind}
    ]
    if not items:
        raise ComputeError(HTTPStatus.NOT_FOUND, "notFound", f"The resource '{path}' of type 'Guest Attribute' was not found.")
    link = f"{BASE}{place}/getGuestAttributes/{path}"
    return {"kind": "compute#guestAttributes", "selfLink": link, "queryPath": path, "queryValue": {"items": items}}


HANDLERS: Final[dict[str, Handler]] = {
    "compute.instances.delete": _delete,
    "compute.instances.stop": _stop,
    "compute.instances.start": _start,
    "compute.instances.simulateMaintenanceEvent": _maintain,
    "compute.instances.setLabels": _set_labels,
    "compute.instances.setMetadata": _set_metadata,
    "compute.instances.setScheduling": _set_scheduling,
    "compute.instances.getSerialPortOutput": _console,
    "compute.instances.getGuestAttributes": _guest_attributes,
}

"""Images that a client makes at the embedded GCP: the boot disk of a stopped instance becomes one, and instances start from it."""

from typing import Any, Final

from provision.rehearsal.gcp.guests import guest_of
from provision.rehearsal.gcp.images import images_of
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.refusals import ComputeError, exists, in_use, invalid, not_found, require
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, Handler, ResourcePath, last, now

_STATES: Final = {"ACTIVE", "DEPRECATED", "OBSOLETE", "DELETED"}
_OFF: Final = "TERMINATED"


def _insert(call: GcpCall) -> dict[str, Any]:
    """Of a disk that no running instance has: the method's description in Google's document, "forceCreate"."""
    require(call.body, "name")
    world, name, link = call.world, call.body["name"], str(call.body.get("sourceDisk", ""))
    if any(row["name"] == name for row in images_of(PROJECT, world.settings)):
        raise exists(str(call.resource(name)))
    parts = link.split("/")
    if "zones" not in parts:
        raise invalid("resource.sourceDisk", link, "The embedded GCP makes images of disks alone.")
    disk = world.get(ResourcePath(PROJECT, f"zones/{parts[parts.index('zones') + 1]}", "disks", last(link)))
    instance = _user(call, disk)
    if instance is not None and instance["status"] != _OFF:
        raise in_use(link, instance["selfLink"])
    guest = guest_of(world, instance) if instance is not None else None
    row = {
        **call.body,
        "project": PROJECT,
        "name": name,
        "status": "PENDING",
        "diskSizeGb": str(disk["sizeGb"]),
        "creationTimestamp": now(),
        "system": guest.system if guest else "",
        "sourceDisk": disk["selfLink"],
    }

    def copy() -> None:
        if world.park and guest and instance and not call.error:
            world.park.keep_image(guest.host_id(instance), name)

    def drop() -> None:
        world.settings.gce_made_images = [each for each in world.settings.gce_made_images if each is not row]

    world.settings.gce_made_images.append(row)
    return begin(call, call.resource(name), settle=copy, finish=lambda: row.update(status="READY"), undo=drop)


def _user(call: GcpCall, disk: dict[str, Any]) -> dict[str, Any] | None:
    """The instance that has a disk attached."""
    links = disk.get("users", [])
    return next((each for _, each in call.world.within(PROJECT, "instances") if each["selfLink"] in links), None)


def _made(call: GcpCall) -> dict[str, Any]:
    """The image that a call names, which a client made."""
    found = next((row for row in call.world.settings.gce_made_images if row["name"] == call.name), None)
    if found is None:
        raise not_found(str(call.resource(call.name)))
    return found


def _delete(call: GcpCall) -> dict[str, Any]:
    row, world = _made(call), call.world

    def gone() -> None:
        world.settings.gce_made_images = [each for each in world.settings.gce_made_images if each is not row]
        if world.park:
            world.park.drop_image(row["name"])

    return begin(call, call.resource(call.name), finish=gone)


def _deprecate(call: GcpCall) -> dict[str, Any]:
    row, state = _made(call), call.body.get("state", "ACTIVE")
    if state not in _STATES:
        raise ComputeError("invalid", f"Invalid value for field 'resource.state': '{state}'.")

    def change() -> None:
        row.pop("deprecated", None)
        if state != "ACTIVE":
            row["deprecated"] = dict(call.body)

    return begin(call, call.resource(call.name), finish=change)


HANDLERS: Final[dict[str, Handler]] = {
    "compute.images.insert": _insert,
    "compute.images.delete": _delete,
    "compute.images.deprecate": _deprecate,
}

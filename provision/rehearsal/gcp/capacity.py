"""Reservations and placement policies of the embedded Compute Engine.

Its project is new, and nobody has reserved anything in it. So whatever a request names exists and has room, unless the settings say what
there is. The words for a reservation without room are from memory.
"""

import time
from typing import Any, Final

from provision.rehearsal.gcp.guests import duration_s, erase, power_on
from provision.rehearsal.gcp.offers import MachineType
from provision.rehearsal.gcp.refusals import ComputeError, invalid, not_found
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, World, last

_PLENTY: Final = 64
_NO_FLEX_START: Final = ("a4x-", "g4-")
_LONGEST_WAIT_S: Final = 7200
_PAUSE_S: Final = 0.05


def flex_start(body: dict[str, Any]) -> bool:
    """Whether an instance is a flex-start one."""
    return bool(body.get("scheduling", {}).get("provisioningModel") == "FLEX_START")


def waits_s(body: dict[str, Any]) -> float:
    """How long a flex-start instance waits for room; 0 where it does not."""
    return duration_s(body.get("params", {}).get("requestValidForDuration", {})) if flex_start(body) else 0.0


def _check_flex_start(world: World, machine_type: MachineType, body: dict[str, Any]) -> None:
    """Refuse a type that cannot be one, and a wait that is not between 90 seconds and two hours.

    docs.cloud.google.com/compute/docs/instances/about-flex-start-vms; …/compute/docs/instances/instance-lifecycle, PENDING; and
    cloud.google.com/blog/products/compute/introducing-flex-start-vms-for-the-compute-engine-instance-api.
    """
    if not machine_type.cards or machine_type.name.startswith(_NO_FLEX_START):
        raise ComputeError("badRequest", f"[{machine_type.name}, FLEX_START] features are not compatible for creating instance.")
    seconds = waits_s(body)
    if seconds and not world.settings.gce_shortest_wait_s <= seconds <= _LONGEST_WAIT_S:
        raise invalid("resource.params.requestValidForDuration", f"{seconds:.0f} s", "It must be between 90 seconds and 2 hours.")


def wait_for_room(world: World, instance: dict[str, Any], seconds: float, has_room: Any) -> None:
    """Hold an instance PENDING until its zone has room for it, and delete it where there is none in that time (the same pages)."""
    ends, guest = time.monotonic() + seconds, world.guests[instance["id"]]
    instance["status"] = "PENDING"

    def look() -> None:
        with world.lock:
            if world.resources.get(guest.place) is not instance:
                return
            if has_room():
                power_on(world, instance)
            elif time.monotonic() >= ends:
                erase(world, instance)
            else:
                world.timers.after(_PAUSE_S, look)

    world.timers.after(_PAUSE_S, look)


def check(world: World, zone: str, machine: MachineType, body: dict[str, Any]) -> None:
    """Refuse an instance whose reservation or policy is not there, is for another machine, or is full."""
    machine_type = machine.name
    if flex_start(body):
        _check_flex_start(world, machine, body)
    affinity = body.get("reservationAffinity", {})
    if flex_start(body) and affinity.get("consumeReservationType") != "NO_RESERVATION":
        raise invalid("resource.reservationAffinity", affinity, "Flex-start instances must have NO_RESERVATION.")
    known = world.settings.gce_reservations
    for name in affinity.get("values", []) if known is not None else ():
        row = known.get(name, {}) if known else {}
        if row.get("zone") != zone or row.get("machine_type") != machine_type:
            raise invalid("resource.reservationAffinity.values", name, "The reservation cannot be found, or is for other instances.")
        if row["used"] >= row["count"]:
            words = f"Specified reservations [{name}] do not have available resources for the request."
            raise ComputeError("badRequest", words)
    policies = world.settings.gce_placement_policies
    for link in body.get("resourcePolicies", []):
        region = zone.rpartition("-")[0]
        if f"regions/{region}/resourcePolicies/" not in link or (policies is not None and last(link) not in policies):
            raise invalid("resource.resourcePolicies[0]", link, "The referenced resource policy resource cannot be found.")


def taken(world: World, body: dict[str, Any]) -> None:
    """Count an instance against its reservation."""
    for name in body.get("reservationAffinity", {}).get("values", []):
        if world.settings.gce_reservations is not None:
            world.settings.gce_reservations[name]["used"] += 1


def _reservation(call: GcpCall) -> dict[str, Any]:
    known, name = call.world.settings.gce_reservations, call.name
    path = f"projects/{PROJECT}/{call.scope}/reservations/{name}"
    row = {"machine_type": "n1-standard-8", "count": _PLENTY, "used": 0} if known is None else known.get(name)
    if row is None or row.get("zone", last(call.scope)) != last(call.scope):
        raise not_found(path)
    return {
        "kind": "compute#reservation",
        "name": name,
        "zone": f"{BASE}projects/{PROJECT}/{call.scope}",
        "selfLink": f"{BASE}{path}",
        "status": row.get("status", "READY"),
        "specificReservationRequired": True,
        "specificReservation": {
            "count": str(row["count"]),
            "inUseCount": str(row["used"]),
            "instanceProperties": {"machineType": row["machine_type"]},
        },
    }


def _policy(call: GcpCall) -> dict[str, Any]:
    known = call.world.settings.gce_placement_policies
    path = f"projects/{PROJECT}/{call.scope}/resourcePolicies/{call.name}"
    if known is not None and call.name not in known:
        raise not_found(path)
    placement = {"collocation": "COLLOCATED"}
    return {"kind": "compute#resourcePolicy", "name": call.name, "selfLink": f"{BASE}{path}", "groupPlacementPolicy": placement}


HANDLERS: Final[dict[str, Handler]] = {"compute.reservations.get": _reservation, "compute.resourcePolicies.get": _policy}

"""Reservations and placement policies of the embedded Compute Engine.

Its project is new, and nobody has reserved anything in it. So whatever a request names exists and has room, unless the settings say what
there is. The words for a reservation without room are from memory.
"""

from typing import Any, Final

from provision.rehearsal.gcp.refusals import ComputeError, invalid, not_found
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, World, last

_PLENTY: Final = 64


def check(world: World, zone: str, machine_type: str, body: dict[str, Any]) -> None:
    """Refuse an instance whose reservation or policy is not there, is for another machine, or is full."""
    affinity = body.get("reservationAffinity", {})
    flexible = body.get("scheduling", {}).get("provisioningModel") == "FLEX_START"
    if flexible and affinity.get("consumeReservationType") != "NO_RESERVATION":
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

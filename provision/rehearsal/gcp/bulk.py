"""Several instances by one call: bulkInsert, in a zone or in the zones of a region that fit."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from provision.rehearsal.gcp import keys
from provision.rehearsal.gcp.guests import Guest
from provision.rehearsal.gcp.launch import make, plan
from provision.rehearsal.gcp.offers import accelerators, machine, region_of, zones
from provision.rehearsal.gcp.operations import begin, failure
from provision.rehearsal.gcp.quota import out_of_stock, room, shortage
from provision.rehearsal.gcp.refusals import invalid, not_implemented, require, required
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, Handler, ResourcePath, World, last

_MOST: Final = 1000  # docs.cloud.google.com/compute/docs/instances/multiple/about-bulk-creation, "Limitations"
_MOST_HASHES: Final = 18

Plans = dict[str, list[tuple[Guest, dict[str, Any]]]]
"""Zone → the instances as they would be made there."""
Undo = Callable[[], None]


def _names(call: GcpCall, count: int) -> Iterator[str]:
    """The names of the instances: those in the request, then those of its pattern, after the largest number in use."""
    yield from call.body.get("perInstanceProperties", {})
    pattern = call.body.get("namePattern", "")
    if not pattern:
        return
    parts = re.fullmatch(r"([^#]*)(#+)([^#]*)", pattern)
    if not parts or len(parts[2]) > _MOST_HASHES:
        raise invalid("resource.namePattern", pattern, f"It must have one row of at most {_MOST_HASHES} hashes.")
    before, hashes, after = parts.groups()
    own = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
    matches = [own.fullmatch(place.name) for place, _ in call.world.within(PROJECT, "instances")]
    start = max((int(match[1]) for match in matches if match), default=0)
    if start + count >= 10 ** len(hashes):
        raise invalid("resource.namePattern", pattern, "It has too few hashes for the count.")
    yield from (f"{before}{number:0{len(hashes)}d}{after}" for number in itertools.count(start + 1))


def _size(call: GcpCall) -> tuple[list[str], int]:
    """A name for each instance, and how many of them must be made."""
    beyond = sorted({"sourceInstanceTemplate", "instanceFlexibilityPolicy"} & call.body.keys())
    if beyond:
        raise not_implemented("bulkInsert", beyond)
    require(call.body, "instanceProperties")
    own = len(call.body.get("perInstanceProperties", {}))
    count = int(call.body.get("count") or own)
    least = int(call.body.get("minCount") or count)
    if not 0 < count <= _MOST:
        raise invalid("resource.count", count, f"Must be between 1 and {_MOST}.")
    if not 0 < least <= count:
        raise invalid("resource.minCount", least, "Must be between 1 and count.")
    names = list(itertools.islice(_names(call, count), count))
    if not names:
        raise required("resource.namePattern")
    if len(names) < count or own > count:
        raise invalid("resource.perInstanceProperties", own, "There must be as many names as count, or a namePattern.")
    return names, least


def _plan(call: GcpCall, zone: str, name: str) -> tuple[Guest, dict[str, Any]]:
    """One instance; bulk properties have bare names where instances have links."""
    properties = call.body["instanceProperties"]
    link = f"projects/{PROJECT}/zones/{zone}/machineTypes/{properties.get('machineType', '')}"
    if "/" in properties.get("machineType", ""):
        raise invalid("resource.instanceProperties.machineType", link, "It must be the name alone.")
    body = {**properties, "machineType": link, **call.body.get("perInstanceProperties", {}).get(name, {}), "name": name}
    return plan(call.world, ResourcePath(PROJECT, f"zones/{zone}", "instances", name), body)


def _regional(call: GcpCall) -> dict[str, Any]:
    """The zones that the location policy allows; of those, the ones with the machine type and its accelerators."""
    policy, region = call.body.get("locationPolicy", {}), call.path["region"]
    own = [zone for zone in zones() if region_of(zone) == region]
    preferences = {last(link): entry.get("preference", "PREFERENCE_UNSPECIFIED") for link, entry in policy.get("locations", {}).items()}
    preferences |= {last(entry.get("zone", "")): "ALLOW" for entry in policy.get("zones", [])}
    for zone in preferences:
        if zone not in own:
            raise invalid("resource.locationPolicy.locations", zone, f"It is no zone of {region}.")
    only = {zone for zone, preference in preferences.items() if preference == "ALLOW"}
    candidates = [zone for zone in own if (zone in only if only else preferences.get(zone) != "DENY")]
    if len(candidates) == 1:
        return _bulk(call, candidates)
    properties = call.body.get("instanceProperties", {})
    cards = {last(card.get("acceleratorType", "")) for card in properties.get("guestAccelerators", [])}
    return _bulk(call, [z for z in candidates if machine(z, properties.get("machineType", "")) and cards <= set(accelerators(z))])


def _bulk(call: GcpCall, candidates: list[str]) -> dict[str, Any]:
    names, least = _size(call)
    if not candidates:
        words = f"No zone of the location policy has {call.body['instanceProperties'].get('machineType')} with what is attached to it."
        raise invalid("resource.locationPolicy", "", words)
    plans = {zone: [_plan(call, zone, name) for name in names] for zone in candidates}
    target = ResourcePath(PROJECT, call.scope, "instances", names[0])
    undo: dict[str, list[Undo]] = {zone: [] for zone in candidates}
    error = call.error or shortage(call.world, region_of(candidates[0]), [guest for guest, _ in plans[candidates[0]]])
    error = error or keys.obstacle(call.world, [body for _, body in plans[candidates[0]]])
    if not error:
        shape = call.body.get("locationPolicy", {}).get("targetShape", "ANY_SINGLE_ZONE")
        error, undo = _spread(call.world, plans, shape)
        if sum(map(len, undo.values())) >= least:
            error = None
        elif error:
            error = _too_few(least, error)

    def undo_all() -> None:
        for step in itertools.chain(*undo.values()):
            step()

    more = {"instancesBulkInsertOperationMetadata": {"perLocationStatus": _status(undo, names, success=not error)}}
    return begin(call, target, kind="bulkInsert", undo=undo_all, error=error, more=more)


def _spread(world: World, plans: Plans, shape: str) -> tuple[dict[str, Any] | None, dict[str, list[Undo]]]:
    """Make the instances where there is room: in the zone with the most of it or, with the shapes ANY and BALANCED, in all of them.

    Returns:
        Why the last zone that was tried has no room for the rest, if some are left; and per zone how to take away what was made there.
    """
    total = len(next(iter(plans.values())))
    order = sorted(plans, key=lambda zone: -min(room(world, zone), total))
    undo: dict[str, list[Undo]] = {zone: [] for zone in plans}
    error, count = None, 0
    for zone in order[:1] if shape == "ANY_SINGLE_ZONE" else order:
        for guest, body in plans[zone][count:]:
            error = out_of_stock(world, zone, guest)
            if error:
                break
            undo[zone].append(make(world, guest, body))
            count += 1
    return error, undo


def _too_few(least: int, because: dict[str, Any]) -> dict[str, Any]:
    """How a bulk operation fails whose minimum was not reached; the words: googleapis/google-cloud-go#5168. The cause follows."""
    error = failure("VM_MIN_COUNT_NOT_REACHED", f"Requested minimum count of {least} VMs could not be created.")
    error["error"]["errors"] += because["error"]["errors"]
    return error


def _status(undo: dict[str, list[Undo]], names: list[str], *, success: bool) -> dict[str, Any]:
    counts = {zone: len(steps) for zone, steps in undo.items() if steps} or {next(iter(undo)): 0}
    return {
        f"zones/{zone}": {
            "targetVmCount": len(names),
            "createdVmCount": count if success else 0,
            "deletedVmCount": 0 if success else count,
            "failedToCreateVmCount": len(names) - count,
            "status": "DONE",
        }
        for zone, count in counts.items()
    }


HANDLERS: Final[dict[str, Handler]] = {
    "compute.instances.bulkInsert": lambda call: _bulk(call, [call.path["zone"]]),
    "compute.regionInstances.bulkInsert": _regional,
}

"""Several instances by one call: bulkInsert, in a zone or in the zones of a region that fit."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from provision.rehearsal.gcp.guests import Guest
from provision.rehearsal.gcp.launch import make, out_of_stock, planned, room
from provision.rehearsal.gcp.offers import accelerators, machine, zones
from provision.rehearsal.gcp.operations import begin, failure
from provision.rehearsal.gcp.quota import shortage
from provision.rehearsal.gcp.refusals import ComputeError, invalid, required
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, Handler, ResourcePath, World, last

_MOST: Final = 1000  # docs.cloud.google.com/compute/docs/instances/multiple/about-bulk-creation, "Limitations"
_MOST_HASHES: Final = 18


def _names(call: GcpCall, count: int) -> Iterator[str]:
    """The names of the instances: those that are given, then those of the pattern, after the largest number there is."""
    yield from call.body.get("perInstanceProperties", {})
    pattern = call.body.get("namePattern", "")
    if not pattern:
        return
    found = re.fullmatch(r"([^#]*)(#+)([^#]*)", pattern)
    if not found or len(found[2]) > _MOST_HASHES:
        raise invalid("resource.namePattern", pattern, f"It must have one row of at most {_MOST_HASHES} hashes.")
    before, hashes, after = found.groups()
    own = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
    used = [own.fullmatch(place.name) for place, _ in call.world.within(PROJECT, "instances")]
    start = max((int(match[1]) for match in used if match), default=0)
    if start + count >= 10 ** len(hashes):
        raise invalid("resource.namePattern", pattern, "It has too few hashes for the count.")
    yield from (f"{before}{number:0{len(hashes)}d}{after}" for number in itertools.count(start + 1))


def _wanted(call: GcpCall) -> tuple[list[str], int]:
    """Names, one for each instance, and how many must be made.

    Raises:
        ComputeError: the numbers or names contradict one another.
    """
    beyond = sorted({"sourceInstanceTemplate", "instanceFlexibilityPolicy"} & call.body.keys())
    if beyond:
        raise ComputeError(501, "notImplemented", f"The embedded GCP does not do bulkInsert with {', '.join(beyond)}")
    if "instanceProperties" not in call.body:
        raise required("resource.instanceProperties")
    given = len(call.body.get("perInstanceProperties", {}))
    count = int(call.body.get("count") or given)
    least = int(call.body.get("minCount") or count)
    if not 0 < count <= _MOST:
        raise invalid("resource.count", count, f"Must be between 1 and {_MOST}.")
    if not 0 < least <= count:
        raise invalid("resource.minCount", least, "Must be between 1 and count.")
    names = list(itertools.islice(_names(call, count), count))
    if not names:
        raise required("resource.namePattern")
    if len(names) < count or given > count:
        raise invalid("resource.perInstanceProperties", given, "There must be as many names as count, or a namePattern.")
    return names, least


def _properties(call: GcpCall, name: str, zone: str) -> dict[str, Any]:
    """The body of one instance: links in bulk properties are bare names."""
    body = dict(call.body["instanceProperties"])
    prefix = f"projects/{PROJECT}/zones/{zone}"
    body["machineType"] = f"{prefix}/machineTypes/{body.get('machineType', '')}"
    if "/" in call.body["instanceProperties"].get("machineType", ""):
        raise invalid("resource.instanceProperties.machineType", body["machineType"], "It must be the name alone.")
    body.update(call.body.get("perInstanceProperties", {}).get(name, {}))
    return {**body, "name": name}


def _zonal(call: GcpCall) -> dict[str, Any]:
    return _bulk(call, [call.path["zone"]])


def _regional(call: GcpCall) -> dict[str, Any]:
    policy = call.body.get("locationPolicy", {})
    region = call.path["region"]
    own = [zone for zone in zones() if zone.startswith(f"{region}-")]
    said = {last(link): entry.get("preference", "PREFERENCE_UNSPECIFIED") for link, entry in policy.get("locations", {}).items()}
    said |= {last(entry.get("zone", "")): "ALLOW" for entry in policy.get("zones", [])}
    for zone in said:
        if zone not in own:
            raise invalid("resource.locationPolicy.locations", zone, f"It is no zone of {region}.")
    allowed = {zone for zone, preference in said.items() if preference == "ALLOW"}
    return _bulk(call, [zone for zone in own if (zone in allowed if allowed else said.get(zone) != "DENY")])


def _suitable(call: GcpCall, candidates: list[str]) -> list[str]:
    """The zones that have the machine type and its accelerators."""
    properties = call.body.get("instanceProperties", {})
    wanted = {last(card.get("acceleratorType", "")) for card in properties.get("guestAccelerators", [])}
    return [z for z in candidates if machine(z, properties.get("machineType", "")) and wanted <= set(accelerators(z))]


def _bulk(call: GcpCall, candidates: list[str]) -> dict[str, Any]:
    names, least = _wanted(call)
    world = call.world
    fitting = _suitable(call, candidates) if len(candidates) != 1 else candidates
    if not fitting:
        words = f"No zone of the location policy has {call.body['instanceProperties'].get('machineType')} with what is attached to it."
        raise ComputeError(400, "invalid", f"Invalid value for field 'resource.locationPolicy': ''. {words}")
    plans = {zone: [_plan(call, zone, name) for name in names] for zone in fitting}
    region = fitting[0].rpartition("-")[0]
    target = ResourcePath(PROJECT, call.scope, "instances", names[0])
    failed = call.failing or shortage(world, region, [guest for guest, _ in plans[fitting[0]]])
    made: dict[str, list[Callable[[], None]]] = {zone: [] for zone in fitting}
    if not failed:
        failed = _place_them(world, plans, made, shape=call.body.get("locationPolicy", {}).get("targetShape", "ANY_SINGLE_ZONE"))
    got = sum(len(undo) for undo in made.values())
    enough = got >= least and not call.failing

    def finish() -> None:
        for undo in itertools.chain(*made.values()) if not enough else ():
            undo()

    if failed and not (call.failing or enough) and _code(failed) != "QUOTA_EXCEEDED":
        failed = _too_few(least, failed)
    more = {"instancesBulkInsertOperationMetadata": {"perLocationStatus": _status(made, names, enough=enough)}}
    return begin(call, target, kind="bulkInsert", finish=finish, failed=None if enough else failed, more=more)


def _plan(call: GcpCall, zone: str, name: str) -> tuple[Guest, dict[str, Any]]:
    return planned(call.world, ResourcePath(PROJECT, f"zones/{zone}", "instances", name), _properties(call, name, zone))


def _place_them(
    world: World, plans: dict[str, list[tuple[Guest, dict[str, Any]]]], made: dict[str, list[Callable[[], None]]], *, shape: str
) -> dict[str, Any] | None:
    """Make the instances where there is room; returns how it failed in the last zone that was tried, if not all could be made.

    In one zone, the one that holds the most of them; or, with the shapes ANY and BALANCED, wherever there is room.
    """
    total = len(next(iter(plans.values())))
    left = {zone: room(world, zone) for zone in plans}
    tried = sorted(plans, key=lambda zone: -total if (free := left[zone]) is None else -min(free, total))
    failed = None
    done = 0
    for zone in tried[:1] if shape == "ANY_SINGLE_ZONE" else tried:
        for guest, body in plans[zone][done:]:
            failed = out_of_stock(world, zone, guest)
            if failed:
                break
            made[zone].append(make(world, guest, body)[1])
            done += 1
    return failed


def _code(failed: dict[str, Any]) -> str:
    return str(failed["error"]["errors"][0]["code"])


def _too_few(least: int, because: dict[str, Any]) -> dict[str, Any]:
    """What a bulk operation says whose minimum was not reached; the words: googleapis/google-cloud-go#5168. The cause follows."""
    said = failure("VM_MIN_COUNT_NOT_REACHED", f"Requested minimum count of {least} VMs could not be created.")
    said["error"]["errors"] += because["error"]["errors"]
    return said


def _status(made: dict[str, list[Any]], names: list[str], *, enough: bool) -> dict[str, Any]:
    used = {zone: len(undo) for zone, undo in made.items() if undo} or {next(iter(made)): 0}
    return {
        f"zones/{zone}": {
            "targetVmCount": len(names),
            "createdVmCount": count if enough else 0,
            "deletedVmCount": 0 if enough else count,
            "failedToCreateVmCount": len(names) - count,
            "status": "DONE",
        }
        for zone, count in used.items()
    }


HANDLERS: Final[dict[str, Handler]] = {
    "compute.instances.bulkInsert": _zonal,
    "compute.regionInstances.bulkInsert": _regional,
}

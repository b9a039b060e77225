"""Instance templates of the embedded GCP, of the whole project or of a region: what a group makes its members from. None can be changed."""

from typing import Any, Final

from provision.rehearsal.gcp.listing import as_aggregated_list, get, list_scope
from provision.rehearsal.gcp.offers import regions
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.refusals import ComputeError, in_use, not_found, not_implemented, require
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, World

_COLLECTIONS: Final = ("instanceTemplates", "regionInstanceTemplates")


def by_link(world: World, link: str) -> tuple[str, dict[str, Any]]:
    """The full link and the resource of a template, by a full or partial URL; one that does not exist is refused."""
    path = link.removeprefix(BASE).removeprefix(f"projects/{PROJECT}/")
    scope, _, name = path.rpartition("/instanceTemplates/")
    collection = "instanceTemplates" if scope == "global" else "regionInstanceTemplates"
    found = world.resources.get(ResourcePath(PROJECT, scope, collection, name))
    if found is None:
        raise not_found(f"projects/{PROJECT}/{path}")
    return str(found["selfLink"]), found


def properties(world: World, link: str, zone: str) -> dict[str, Any]:
    """What an insert into a zone would get for a machine of a template, which names its types without one."""
    given = by_link(world, link)[1]["properties"]
    where = f"projects/{PROJECT}/zones/{zone}"
    body = {**given, "machineType": f"{where}/machineTypes/{given.get('machineType', '')}"}
    cards = given.get("guestAccelerators", [])
    if cards:
        body["guestAccelerators"] = [{**card, "acceleratorType": f"{where}/acceleratorTypes/{card['acceleratorType']}"} for card in cards]
    return body


def _insert(call: GcpCall) -> dict[str, Any]:
    require(call.body, "name")
    if "sourceInstance" in call.body:
        raise not_implemented(call.method.id, ["sourceInstance"])
    require(call.body, "properties")
    require(call.body["properties"], "machineType", "disks", "networkInterfaces", at="resource.properties")
    if "/" in call.body["properties"]["machineType"]:
        words = "Invalid value for field 'resource.properties.machineType': it must be the name alone."
        raise ComputeError("invalid", words)
    place = call.resource(call.body["name"])
    made = call.world.add(place, "instanceTemplate", call.body)
    made["selfLink"] = f"{BASE}projects/{PROJECT}/{place.scope}/instanceTemplates/{place.name}"
    return begin(call, place, undo=lambda: call.world.drop(place))


def _delete(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.name)
    link = call.world.get(place)["selfLink"]
    for collection in ("instanceGroupManagers", "regionInstanceGroupManagers"):
        for user, group in call.world.within(PROJECT, collection):
            if link in {version.get("instanceTemplate") for version in group["versions"]}:
                raise in_use(str(place), str(user))
    return begin(call, place, finish=lambda: call.world.drop(place))


def _everywhere(call: GcpCall) -> dict[str, Any]:
    """The templates of the whole project and of all regions."""
    found = [pair for collection in _COLLECTIONS for pair in call.world.within(PROJECT, collection)]
    rows = [(place.scope, call.world.view(resource)) for place, resource in found]
    return as_aggregated_list(call, rows, ["global", *(f"regions/{region}" for region in regions())])


HANDLERS: Final[dict[str, Handler]] = {
    **{
        f"compute.{collection}.{verb}": handler
        for collection in _COLLECTIONS
        for verb, handler in (("insert", _insert), ("get", get), ("list", list_scope), ("delete", _delete))
    },
    "compute.instanceTemplates.aggregatedList": _everywhere,
}

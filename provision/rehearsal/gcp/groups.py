"""Managed instance groups of the embedded GCP, of a zone or a region: the calls. What a group does by itself is in `group_loop`.

Defaults and rules: the descriptions of the schemas InstanceGroupManager… in Google's document, and
docs.cloud.google.com/compute/docs/instance-groups/updating-migs for the limits of maxSurge and maxUnavailable.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from provision.rehearsal.gcp import group_loop, probes, templates
from provision.rehearsal.gcp.group_loop import ManagedGroup, ManagedMember
from provision.rehearsal.gcp.listing import as_aggregated_list, as_list
from provision.rehearsal.gcp.offers import region_of, regions, zones
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.refusals import ComputeError, invalid, not_implemented, require, required, stale
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, fingerprint, last

_COLLECTIONS: Final = ("instanceGroupManagers", "regionInstanceGroupManagers")
_BEYOND: Final = {"statefulPolicy", "allInstancesConfig", "instanceFlexibilityPolicy", "targetPools", "standbyPolicy", "resourcePolicies"}
_LONGEST_DELAY_S: Final = 3600
_LONGEST_END_S: Final = 120.0
_MOST_PERCENT: Final = 10
_MOST_SIZE: Final = 2000
_ACTIONS: Final = ("creating", "recreating", "verifying", "none", "deleting", "restarting", "refreshing", "abandoning")


def _group(call: GcpCall) -> tuple[ManagedGroup, dict[str, Any]]:
    """The group that a call names, and its resource."""
    resource = call.world.get(call.resource(call.path["instanceGroupManager"]))
    return call.world.groups[call.resource(resource["name"])], resource


def _shown(call: GcpCall, place: ResourcePath, resource: dict[str, Any]) -> dict[str, Any]:
    """A group as its GET shows it: with what its members do now."""
    group = call.world.groups[place]
    counts = Counter(member.action.lower() for member in group.members.values())
    stable = not group.deleting and len(group.members) == resource["targetSize"] == counts["none"]
    reached = not group_loop.outdated(group, resource)
    status = {"isStable": stable and (reached or resource["updatePolicy"]["type"] == "OPPORTUNISTIC")}
    return {
        **resource,
        "currentActions": {name: counts[name] for name in _ACTIONS} | {"creatingWithoutRetries": 0},
        "status": {**status, "versionTarget": {"isReached": reached}},
        "fingerprint": _print(resource),
    }


def _print(resource: dict[str, Any]) -> str:
    return fingerprint({key: value for key, value in resource.items() if key != "fingerprint"})


def _versions(call: GcpCall, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The versions of a request, exactly one of them without a size."""
    rows = given.get("versions") or ([{"instanceTemplate": given["instanceTemplate"]}] if given.get("instanceTemplate") else [])
    if not rows:
        raise required("resource.versions")
    rows = [{**row, "instanceTemplate": templates.by_link(call.world, row.get("instanceTemplate", ""))[0]} for row in rows]
    if sum("targetSize" not in row for row in rows) != 1:
        raise invalid("resource.versions", len(rows), "Exactly one version must have no targetSize.")
    return [*(row for row in rows if "targetSize" in row), *(row for row in rows if "targetSize" not in row)]


def _check_update(policy: dict[str, Any], count: int) -> None:
    """The limits of a regional group: a fixed number is 0 or at least that of its zones, a percentage needs ten members."""
    if policy.get("replacementMethod") == "RECREATE" and policy.get("maxSurge", {}).get("fixed") != 0:
        raise invalid("resource.updatePolicy.maxSurge", policy.get("maxSurge"), "With RECREATE it must be 0.")
    for name in ("maxSurge", "maxUnavailable"):
        fixed = policy.get(name, {}).get("fixed")
        if fixed is not None and 0 < fixed < count:
            raise invalid(f"resource.updatePolicy.{name}.fixed", fixed, "It must be 0 or at least the number of zones.")
    zero = [policy.get(name, {}).get("fixed", policy.get(name, {}).get("percent")) == 0 for name in ("maxSurge", "maxUnavailable")]
    if all(zero):
        raise invalid("resource.updatePolicy", policy, "maxSurge and maxUnavailable cannot both be 0.")


def _checked(call: GcpCall, body: dict[str, Any], group_zones: list[str]) -> dict[str, Any]:
    """The resource of a group, with Google's defaults filled in."""
    beyond = sorted(_BEYOND & body.keys())
    if beyond:
        raise not_implemented(call.method.id, beyond)
    policies = body.get("autoHealingPolicies", [])
    if len(policies) > 1:
        raise invalid("resource.autoHealingPolicies", len(policies), "At most one can be given.")
    for policy in policies:
        if not 0 <= policy.get("initialDelaySec", 0) <= _LONGEST_DELAY_S:
            raise invalid("resource.autoHealingPolicies[0].initialDelaySec", policy["initialDelaySec"], "Must be between 0 and 3600.")
        if policy.get("healthCheck"):
            policy["healthCheck"] = probes.by_link(call.world, policy["healthCheck"])["selfLink"]
    plain = {"type": "OPPORTUNISTIC", "minimalAction": "REPLACE", "replacementMethod": "SUBSTITUTE"}
    update = {**plain, **body.get("updatePolicy", {})}
    regional = call.scope.startswith("regions/")
    _check_update(update, len(group_zones) if regional else 1)
    size = body.get("targetSize", 0)
    if any("percent" in update.get(name, {}) for name in ("maxSurge", "maxUnavailable")) and size < _MOST_PERCENT:
        raise invalid("resource.updatePolicy", size, "A percentage needs a group of ten members at least.")
    if not 0 <= size <= _MOST_SIZE:
        raise invalid("resource.targetSize", size, f"Must be between 0 and {_MOST_SIZE}.")
    lifecycle = {"defaultActionOnFailure": "REPAIR", "forceUpdateOnRepair": "NO", **body.get("instanceLifecyclePolicy", {})}
    versions = _versions(call, body)
    return {
        **body,
        "targetSize": size,
        "versions": versions,
        "instanceTemplate": versions[-1]["instanceTemplate"],
        "updatePolicy": update,
        "instanceLifecyclePolicy": lifecycle,
        "baseInstanceName": body.get("baseInstanceName") or body["name"],
    }


def _zones_of(call: GcpCall) -> list[str]:
    if "zone" in call.path:
        return [call.path["zone"]]
    own = [zone for zone in zones() if region_of(zone) == call.path["region"]]
    chosen = [last(row.get("zone", "")) for row in call.body.get("distributionPolicy", {}).get("zones", [])]
    for zone in chosen:
        if zone not in own:
            raise invalid("resource.distributionPolicy.zones", zone, f"It is no zone of {call.path['region']}.")
    return chosen or own


def _insert(call: GcpCall) -> dict[str, Any]:
    require(call.body, "name")
    if "targetSize" not in call.body:
        raise required("resource.targetSize")
    group_zones = _zones_of(call)
    body = _checked(call, call.body, group_zones)
    place = call.resource(body["name"])
    resource = call.world.add(place, "instanceGroupManager", body)
    resource["selfLink"] = f"{BASE}projects/{PROJECT}/{place.scope}/instanceGroupManagers/{place.name}"
    resource["instanceGroup"] = f"{BASE}projects/{PROJECT}/{place.scope}/instanceGroups/{place.name}"
    if call.scope.startswith("regions/"):
        rows = [{"zone": f"{BASE}projects/{PROJECT}/zones/{zone}"} for zone in group_zones]
        resource["distributionPolicy"] = {"targetShape": "EVEN", **body.get("distributionPolicy", {}), "zones": rows}
    group = ManagedGroup(place, group_zones)
    if call.error:
        return begin(call, place, undo=lambda: call.world.drop(place))
    group_loop.start(call.world, group)
    return begin(call, place)


def _patch(call: GcpCall) -> dict[str, Any]:
    group, resource = _group(call)
    if "fingerprint" in call.body and call.body["fingerprint"] != _print(resource):
        raise stale("resource")
    given = {key: value for key, value in call.body.items() if key != "fingerprint"}
    fresh = {**resource, **given, "updatePolicy": {**resource["updatePolicy"], **given.get("updatePolicy", {})}}
    fresh["instanceLifecyclePolicy"] = {**resource["instanceLifecyclePolicy"], **given.get("instanceLifecyclePolicy", {})}
    if "instanceTemplate" in given and "versions" not in given:
        fresh["versions"] = []
    checked = _checked(call, fresh, group.zones)
    if not call.error:
        resource |= checked
    return begin(call, group.place)


def _resize(call: GcpCall) -> dict[str, Any]:
    group, resource = _group(call)
    size = int(call.query["size"])
    if not 0 <= size <= _MOST_SIZE:
        raise invalid("size", size, f"Must be between 0 and {_MOST_SIZE}.")
    if not call.error:
        resource["targetSize"] = size
    return begin(call, group.place)


def _delete(call: GcpCall) -> dict[str, Any]:
    group, _ = _group(call)
    if call.error:
        return begin(call, group.place)
    group.deleting = True

    def settle() -> None:
        group.gone.wait(_LONGEST_END_S)

    return begin(call, group.place, settle=settle)


def _named(call: GcpCall, group: ManagedGroup) -> list[ManagedMember]:
    """The members that a request names by their instances' URLs, or all of them."""
    if call.body.get("allInstances"):
        return group.staying
    links = call.body.get("instances")
    if not links:
        raise required("resource.instances")
    found = [group.members.get(last(link)) for link in links]
    for link, member in zip(links, found, strict=True):
        if member is None or f"zones/{member.zone}/instances/" not in link:
            words = f"Invalid value for field 'resource.instances[0]': '{link}'. It is not a member of the group."
            raise ComputeError("invalid", words)
    return [member for member in found if member is not None]


def _apply(call: GcpCall) -> dict[str, Any]:
    """Bring members to their version at once, whatever the type of the update policy."""
    group, resource = _group(call)
    allowed = call.body.get("mostDisruptiveAllowedAction", "REPLACE")
    late = group_loop.outdated(group, resource)
    every = {version["instanceTemplate"] for version in resource["versions"]}
    for member in _named(call, group):
        if member in late or member.template not in every:
            if allowed != "REPLACE":
                words = f"Updating {member.name} needs the action REPLACE, and {allowed} is allowed at most."
                raise ComputeError("conditionNotMet", words)
            if not call.error:
                group_loop.replace(call.world, group, resource, member)
    return begin(call, group.place)


def _recreate(call: GcpCall) -> dict[str, Any]:
    group, resource = _group(call)
    for member in _named(call, group):
        if not call.error:
            group_loop.recreate(call.world, resource, member)
    return begin(call, group.place)


def _delete_instances(call: GcpCall) -> dict[str, Any]:
    """End members and make the group smaller by as many."""
    group, resource = _group(call)
    named = _named(call, group)
    if not call.error:
        for member in named:
            member.action = "DELETING"
        resource["targetSize"] = max(resource["targetSize"] - len(named), 0)
    return begin(call, group.place)


def _members(call: GcpCall) -> dict[str, Any]:
    group, resource = _group(call)
    if call.query.get("filter"):
        raise not_implemented(call.method.id, ["filter"])
    policies = resource.get("autoHealingPolicies", [])
    names = {version["instanceTemplate"]: version.get("name", "") for version in resource["versions"]}
    rows = []
    for member in sorted(group.members.values(), key=lambda each: each.name):
        instance = call.world.resources.get(member.place)
        row: dict[str, Any] = {
            "name": member.name,
            "instance": member.place.link,
            "currentAction": member.action,
            "targetStatus": "DELETED" if member.action == "DELETING" else "RUNNING",
            "version": {"instanceTemplate": member.template, "name": names.get(member.template, "")},
            "lastAttempt": {"errors": {"errors": member.errors}} if member.errors else {},
        }
        if instance is not None:
            row |= {"id": instance["id"], "instanceStatus": instance["status"]}
        if policies and policies[0].get("healthCheck") and instance is not None:
            row["instanceHealth"] = [{"healthCheck": policies[0]["healthCheck"], "detailedHealthState": member.health.state}]
        rows.append(row)
    return {"managedInstances": rows}


def _errors(call: GcpCall) -> dict[str, Any]:
    return {"items": _group(call)[0].errors}


def _list(call: GcpCall) -> dict[str, Any]:
    found = call.world.within(PROJECT, call.collection, call.scope)
    return as_list(call, [_shown(call, place, resource) for place, resource in found])


def _everywhere(call: GcpCall) -> dict[str, Any]:
    """The groups of all zones and regions."""
    found = [pair for collection in _COLLECTIONS for pair in call.world.within(PROJECT, collection)]
    rows = [(place.scope, _shown(call, place, resource)) for place, resource in found]
    return as_aggregated_list(call, rows, [*(f"zones/{zone}" for zone in zones()), *(f"regions/{region}" for region in regions())])


def _get(call: GcpCall) -> dict[str, Any]:
    group, resource = _group(call)
    return _shown(call, group.place, resource)


_VERBS: Final[dict[str, Callable[[GcpCall], dict[str, Any]]]] = {
    "insert": _insert,
    "get": _get,
    "list": _list,
    "patch": _patch,
    "resize": _resize,
    "delete": _delete,
    "applyUpdatesToInstances": _apply,
    "recreateInstances": _recreate,
    "deleteInstances": _delete_instances,
    "listManagedInstances": _members,
    "listErrors": _errors,
}
HANDLERS: Final[dict[str, Handler]] = {
    **{f"compute.{c}.{verb}": act for c in _COLLECTIONS for verb, act in _VERBS.items()},
    "compute.instanceGroupManagers.aggregatedList": _everywhere,
}

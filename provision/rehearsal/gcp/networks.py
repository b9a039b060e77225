"""Firewalls, networks, disks and addresses: what an instance needs beside itself."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from provision.rehearsal.gcp.listing import aggregated, listed
from provision.rehearsal.gcp.offers import regions, zones
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.refusals import in_use, invalid, required
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, World, last

_NETWORK: Final = f"{BASE}projects/{PROJECT}/global/networks/default"
_SOURCES: Final = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
_PORTS: Final = re.compile(r"\d{1,5}(-\d{1,5})?")


def seed(world: World) -> None:
    """The network that every project begins with, with a subnetwork in each region."""
    subnetworks = []
    for number, region in enumerate(regions()):
        place = ResourcePath(PROJECT, f"regions/{region}", "subnetworks", "default")
        block = {"network": _NETWORK, "ipCidrRange": f"10.{128 + number}.0.0/20", "gatewayAddress": f"10.{128 + number}.0.1"}
        made = world.add(place, "subnetwork", {**block, "purpose": "PRIVATE", "stackType": "IPV4_ONLY"})
        subnetworks.append(made["selfLink"])
    place = ResourcePath(PROJECT, "global", "networks", "default")
    world.add(place, "network", {"autoCreateSubnetworks": True, "mtu": 1460, "subnetworks": subnetworks})


def _get(call: GcpCall) -> dict[str, Any]:
    """The resource that the last parameter of the path names."""
    name = next(value for key, value in reversed(call.path.items()) if key not in {"project", "zone", "region"})
    return dict(call.world.get(call.resource(name)))


def _list(call: GcpCall) -> dict[str, Any]:
    kind = "address" if call.kind == "addresses" else call.kind.removesuffix("s")
    return listed(call, [r for _, r in call.world.within(call.path["project"], call.kind, call.scope)], kind, call.kind)


def _everywhere(call: GcpCall) -> dict[str, Any]:
    zonal = call.kind == "disks"
    scopes = [f"zones/{zone}" for zone in zones()] if zonal else [f"regions/{region}" for region in regions()]
    found = [(place.scope, r) for place, r in call.world.within(call.path["project"], call.kind)]
    kind = "address" if call.kind == "addresses" else call.kind.removesuffix("s")
    return aggregated(call, found, kind, scopes)


# --- networks ---------------------------------------------------------------------------------------------------------


def _insert_network(call: GcpCall) -> dict[str, Any]:
    if not call.body.get("name"):
        raise required("resource.name")
    place = call.resource(call.body["name"])
    call.world.add(place, "network", {"autoCreateSubnetworks": False, "mtu": 1460, "subnetworks": [], **call.body})
    return begin(call, place)


def _insert_subnetwork(call: GcpCall) -> dict[str, Any]:
    """A subnetwork of a network that does not make its own."""
    for name in ("name", "network", "ipCidrRange"):
        if not call.body.get(name):
            raise required(f"resource.{name}")
    network = call.world.get(ResourcePath(PROJECT, "global", "networks", last(call.body["network"])))
    place = call.resource(call.body["name"])
    made = call.world.add(place, "subnetwork", {"purpose": "PRIVATE", **call.body, "network": network["selfLink"]})
    network["subnetworks"].append(made["selfLink"])
    return begin(call, place)


# --- firewalls ----------------------------------------------------------------------------------------------------


def _check_firewall(world: World, rule: dict[str, Any]) -> None:
    if bool(rule.get("allowed")) == bool(rule.get("denied")):
        raise invalid("resource", rule.get("name"), "Exactly one of allowed and denied must be set.")
    for entry in [*rule.get("allowed", []), *rule.get("denied", [])]:
        if not entry.get("IPProtocol"):
            raise required("resource.allowed[0].IPProtocol")
        for port in entry.get("ports", []):
            if not _PORTS.fullmatch(port):
                raise invalid("resource.allowed[0].ports[0]", port, "Must be a port or a range of ports.")
    for network in [*rule.get("sourceRanges", []), *rule.get("destinationRanges", [])]:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            words = "Must be a valid CIDR address range."
            raise invalid("resource.sourceRanges[0]", network, words) from error
    world.get(ResourcePath(PROJECT, "global", "networks", last(rule["network"])))


def _with_defaults(rule: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {"priority": 1000, "direction": "INGRESS", "disabled": False, "logConfig": {"enable": False}}
    rule = {**plain, "network": _NETWORK, **rule}
    rule["network"] = f"{BASE}projects/{PROJECT}/global/networks/{last(rule['network'])}"
    if rule["direction"] == "INGRESS" and not any(rule.get(source) for source in _SOURCES):
        rule["sourceRanges"] = ["0.0.0.0/0"]
    return rule


def _insert_firewall(call: GcpCall) -> dict[str, Any]:
    if not call.body.get("name"):
        raise required("resource.name")
    place, rule = call.resource(call.body["name"]), _with_defaults(call.body)
    _check_firewall(call.world, rule)
    call.world.add(place, "firewall", rule)
    undo = (lambda: call.world.resources.pop(place, None)) if call.failing else None
    return begin(call, place, finish=undo)  # type: ignore[arg-type]  # what pop returns is not looked at


def _patch_firewall(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.path["firewall"])
    rule = call.world.get(place)
    fresh = _with_defaults({**rule, **call.body})
    _check_firewall(call.world, fresh)
    if not call.failing:
        rule |= fresh
    return begin(call, place)


def _delete_firewall(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.path["firewall"])
    call.world.get(place)

    def finish() -> None:
        if not call.failing:
            call.world.resources.pop(place, None)

    return begin(call, place, finish=finish)


# --- disks --------------------------------------------------------------------------------------------------------


def _delete_disk(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.path["disk"])
    disk = call.world.get(place)
    if disk.get("users"):
        raise in_use(str(place), disk["users"][0].removeprefix(BASE))

    def finish() -> None:
        if not call.failing:
            call.world.resources.pop(place, None)

    return begin(call, place, finish=finish)


HANDLERS: Final[dict[str, Handler]] = {
    "compute.networks.insert": _insert_network,
    "compute.subnetworks.insert": _insert_subnetwork,
    "compute.firewalls.insert": _insert_firewall,
    "compute.firewalls.patch": _patch_firewall,
    "compute.firewalls.delete": _delete_firewall,
    "compute.disks.delete": _delete_disk,
    **{f"compute.{kind}.get": _get for kind in ("firewalls", "networks", "subnetworks", "disks", "addresses")},
    **{f"compute.{kind}.list": _list for kind in ("firewalls", "networks", "subnetworks", "disks", "addresses")},
    **{f"compute.{kind}.aggregatedList": _everywhere for kind in ("subnetworks", "disks", "addresses")},
}

"""Networks, firewalls, disks and addresses: what an instance needs beside itself."""

import ipaddress
import re
from typing import Any, Final

from provision.rehearsal.gcp.listing import get, list_all, list_scope
from provision.rehearsal.gcp.offers import regions, zones
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.refusals import in_use, invalid, require
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, World, last

_NETWORK: Final = ResourcePath(PROJECT, "global", "networks", "default")
_SOURCES: Final = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
_PORTS: Final = re.compile(r"\d{1,5}(-\d{1,5})?")
_READABLE: Final = ("firewalls", "networks", "subnetworks", "disks", "addresses")


def seed(world: World) -> None:
    """Make the network that every project begins with, with a subnetwork in each region."""
    links = []
    for number, region in enumerate(regions()):
        place = ResourcePath(PROJECT, f"regions/{region}", "subnetworks", "default")
        block = {"network": _NETWORK.link, "ipCidrRange": f"10.{128 + number}.0.0/20", "gatewayAddress": f"10.{128 + number}.0.1"}
        links.append(world.add(place, "subnetwork", {**block, "purpose": "PRIVATE", "stackType": "IPV4_ONLY"})["selfLink"])
    world.add(_NETWORK, "network", {"autoCreateSubnetworks": True, "mtu": 1460, "subnetworks": links})


def _insert_network(call: GcpCall) -> dict[str, Any]:
    require(call.body, "name")
    place = call.resource(call.body["name"])
    call.world.add(place, "network", {"autoCreateSubnetworks": False, "mtu": 1460, "subnetworks": [], **call.body})
    return begin(call, place)


def _insert_subnetwork(call: GcpCall) -> dict[str, Any]:
    """A subnetwork of a network that does not make its own."""
    require(call.body, "name", "network", "ipCidrRange")
    network = call.world.get(ResourcePath(PROJECT, "global", "networks", last(call.body["network"])))
    place = call.resource(call.body["name"])
    subnetwork = call.world.add(place, "subnetwork", {"purpose": "PRIVATE", **call.body, "network": network["selfLink"]})
    network["subnetworks"].append(subnetwork["selfLink"])
    return begin(call, place)


def _check_firewall(world: World, rule: dict[str, Any]) -> None:
    if bool(rule.get("allowed")) == bool(rule.get("denied")):
        raise invalid("resource", rule.get("name"), "Exactly one of allowed and denied must be set.")
    for entry in [*rule.get("allowed", []), *rule.get("denied", [])]:
        require(entry, "IPProtocol", at="resource.allowed[0]")
        for port in entry.get("ports", []):
            if not _PORTS.fullmatch(port):
                raise invalid("resource.allowed[0].ports[0]", port, "Must be a port or a range of ports.")
    for network in [*rule.get("sourceRanges", []), *rule.get("destinationRanges", [])]:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise invalid("resource.sourceRanges[0]", network, "Must be a valid CIDR address range.") from error
    world.get(ResourcePath(PROJECT, "global", "networks", last(rule["network"])))


def _with_defaults(rule: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {"priority": 1000, "direction": "INGRESS", "disabled": False, "logConfig": {"enable": False}}
    rule = {**plain, "network": _NETWORK.link, **rule}
    rule["network"] = f"{BASE}projects/{PROJECT}/global/networks/{last(rule['network'])}"
    if rule["direction"] == "INGRESS" and not any(rule.get(source) for source in _SOURCES):
        rule["sourceRanges"] = ["0.0.0.0/0"]
    return rule


def _insert_firewall(call: GcpCall) -> dict[str, Any]:
    require(call.body, "name")
    place, rule = call.resource(call.body["name"]), _with_defaults(call.body)
    _check_firewall(call.world, rule)
    call.world.add(place, "firewall", rule)
    return begin(call, place, undo=lambda: call.world.drop(place))


def _patch_firewall(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.name)
    rule = call.world.get(place)
    fresh = _with_defaults({**rule, **call.body})
    _check_firewall(call.world, fresh)
    if not call.error:
        rule |= fresh
    return begin(call, place)


def _delete(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.name)
    users = call.world.get(place).get("users")
    if users:
        raise in_use(str(place), users[0].removeprefix(BASE))
    return begin(call, place, finish=lambda: call.world.drop(place))


def _by_region(call: GcpCall) -> dict[str, Any]:
    return list_all(call, [f"regions/{region}" for region in regions()])


HANDLERS: Final[dict[str, Handler]] = {
    "compute.networks.insert": _insert_network,
    "compute.subnetworks.insert": _insert_subnetwork,
    "compute.firewalls.insert": _insert_firewall,
    "compute.firewalls.patch": _patch_firewall,
    "compute.firewalls.delete": _delete,
    "compute.disks.delete": _delete,
    "compute.disks.aggregatedList": lambda call: list_all(call, [f"zones/{zone}" for zone in zones()]),
    "compute.subnetworks.aggregatedList": _by_region,
    "compute.addresses.aggregatedList": _by_region,
    **{f"compute.{collection}.get": get for collection in _READABLE},
    **{f"compute.{collection}.list": list_scope for collection in _READABLE},
}

"""The firewall rules of a launch: made before its machines, so that none of them is ever open to more than was asked for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp import requests
from provision.clouds.gcp.answers import tags_of_firewall
from provision.clouds.gcp.api import GcpApi, at_once
from provision.clouds.gcp.errors import AlreadyThereError

RULE_S: Final = 120.0
_CREATE: Final = "compute.firewalls.create"


def listed(api: GcpApi, name: str | None = None) -> list[Any]:
    """Our rules, of all launches or of one launch's name; known by their name, their target tag and what stands in their description."""
    # `eq` takes a regular expression over the whole name (firewalls.list, parameter filter).
    found = api.pages("Firewalls", "list", "compute.firewalls.list", filter='name eq "gpuprov-.*"')
    ours = [rule for rule in found if any(rule.name.startswith(tag) for tag in rule.target_tags)]
    return [rule for rule in ours if (tags := tags_of_firewall(rule)) and (name is None or tags.get(base.NAME_TAG) == name)]


def opening(api: GcpApi, launch_id: str, described: str, networks: Sequence[str], network: str = requests.NETWORK) -> list[tuple[str, Any]]:
    """Begin to make the rules of a launch; a rule that an earlier try made gets today's networks.

    Their names make asking again harmless. A request id derived from the launch would not do: GCE would answer with the operation that made
    a rule since removed, and make none.

    Returns:
        (permission, operation) for each that must end before the rules hold.
    """

    def begin(rule: dict[str, Any]) -> tuple[str, Any] | None:
        try:
            return _CREATE, api.call("Firewalls", "insert_unary", _CREATE, firewall_resource=rule, request_id=str(uuid.uuid4()))
        except AlreadyThereError:
            there = api.call("Firewalls", "get", "compute.firewalls.get", firewall=rule["name"])
            return None if list(there.source_ranges) == rule["source_ranges"] else _patch(api, rule)

    return [begun for begun in at_once(begin, requests.firewalls(launch_id, described, networks, network)) if begun]


def _patch(api: GcpApi, rule: dict[str, Any]) -> tuple[str, Any]:
    action = "compute.firewalls.update"
    changed = {key: rule[key] for key in ("name", "source_ranges")}
    return action, api.call("Firewalls", "patch_unary", action, firewall=rule["name"], firewall_resource=changed)


def settled(api: GcpApi, begun: Sequence[tuple[str, Any]]) -> None:
    """Wait until the rules hold."""
    at_once(lambda pair: api.settle(pair[1], pair[0], timeout_s=RULE_S), begun)


def open_to(api: GcpApi, launch_id: str, described: str, networks: Sequence[str], there: Sequence[Any], *, network: str) -> None:
    """Make the rules of a launch let in exactly these networks, and wait until they do.

    Args:
        api: whose project.
        launch_id: whose machines.
        described: the tags, for the description.
        networks: who may come in.
        there: the rules that we have now.
        network: path of the network of GCP that the rules are of.
    """
    wanted = requests.firewalls(launch_id, described, networks, network)
    settled(api, opening(api, launch_id, described, networks, network))
    names = {rule["name"] for rule in wanted}
    tag = requests.network_tag(launch_id)
    for rule in there:
        if tag in rule.target_tags and rule.name not in names:
            api.done("Firewalls", "delete_unary", "compute.firewalls.delete", timeout_s=RULE_S, firewall=rule.name)

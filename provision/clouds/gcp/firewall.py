"""The firewall rules of a launch. They are requested before its machines, so that no machine is ever open to more than the profile says.

A rule's name derives from the launch, so that a later try finds the rule that an earlier one made. One of them is called after the launch's
name alone. A rule's name is unique in its project, so that rule is the claim of a launch to its name: of two launches of one name only one
gets as far as its machines, whatever their zones.
"""

import uuid
from collections.abc import Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.claim import taken
from provision.clouds.gcp.answers import tags_of_firewall
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import AlreadyThereError, GoneError
from provision.clouds.gcp.requests import NETWORK, claim_name, firewalls, health_name, network_tag
from provision.concurrent import at_once
from provision.errors import CloudInvalidError

_RULE_S: Final = 120.0
_CREATE: Final = "compute.firewalls.create"

Operation = tuple[str, Any]
"""A permission, and the operation of the call that needed it."""


def network_of(api: GcpProjectApi, order: base.Order, region: str) -> str:
    """The path of the network of an order's subnetwork; the default one, without a call, where the order names none.

    Raises:
        CloudInvalidError: the region has no such subnetwork.
    """
    if not order.subnet:
        return NETWORK
    try:
        raw = api.call("Subnetworks", "get", "compute.subnetworks.get", where=region, region=region, subnetwork=order.subnet)
    except GoneError as error:
        msg = f"there is no subnetwork {order.subnet} in {region}"
        raise CloudInvalidError(msg, hint="correct network.subnet of the profile, or create it there", detail=error.detail) from error
    return "projects/" + str(raw.network).partition("/projects/")[2]


def rules_of(api: GcpProjectApi, name: str | None = None) -> list[Any]:
    """Our rules, all or those of one launch's name."""
    # `eq` takes a regular expression over the whole name (firewalls.list, parameter filter).
    rules = api.pages("Firewalls", "list", "compute.firewalls.list", filter='name eq "gpuprov-.*"')
    return [rule for rule in rules if is_ours(rule) and name in {None, tags_of_firewall(rule)[base.NAME_TAG]}]


def is_ours(rule: Any, launch_id: str = "") -> bool:
    """Whether a rule is ours, or that launch's: one that somebody else gave such a name lacks our target tag or our tags."""
    tags = tags_of_firewall(rule)
    launch = tags.get(base.LAUNCH_TAG, "")
    named = rule.name.startswith(network_tag(launch)) or rule.name == claim_name(tags.get(base.NAME_TAG, ""))
    tagged = base.NAME_TAG in tags and network_tag(launch) in rule.target_tags
    return bool(launch) and named and tagged and launch_id in {"", launch}


def begin(api: GcpProjectApi, name: str, launch_id: str, text: str, networks: Sequence[str], *, network: str = NETWORK) -> list[Operation]:
    """Begin to make the rules of a launch; a rule that an earlier try made gets today's networks.

    The names of the rules make a repetition harmless. A request id derived from the launch would not do: if somebody has removed the rule,
    GCE would answer with the operation that once made it, and make none.

    Args:
        api: whose project.
        name: of the launch.
        launch_id: whose machines.
        text: the tags, for the rules' descriptions.
        networks: who may come in.
        network: path of the network of GCP that the rules are for.

    Returns:
        What must end before the rules hold; for `wait`.

    Raises:
        NameTakenError: another launch has the name.
        CloudInvalidError: a rule of such a name is not ours; it was not changed.
    """

    def insert(rule: dict[str, Any]) -> Operation | None:
        try:
            return _CREATE, api.call("Firewalls", "insert_unary", _CREATE, firewall_resource=rule, request_id=str(uuid.uuid4()))
        except AlreadyThereError:
            current = api.call("Firewalls", "get", "compute.firewalls.get", firewall=rule["name"])
            if rule["name"] == claim_name(name) and is_ours(current) and not is_ours(current, launch_id):
                raise taken(name, f"firewall rule {rule['name']} of project {api.project}", tags_of_firewall(current)) from None
            if not is_ours(current, launch_id):
                msg = f"firewall rule {rule['name']} of project {api.project} is not of gpuprov"
                raise CloudInvalidError(msg, hint="ask its owner to rename it, or remove it") from None
            return None if list(current.source_ranges) == rule["source_ranges"] else _patch(api, rule)

    return [operation for operation in at_once(insert, firewalls(name, launch_id, text, networks, network)) if operation]


def _patch(api: GcpProjectApi, rule: dict[str, Any]) -> Operation:
    action = "compute.firewalls.update"
    body = {key: rule[key] for key in ("name", "source_ranges")}
    return action, api.call("Firewalls", "patch_unary", action, firewall=rule["name"], firewall_resource=body)


def wait(api: GcpProjectApi, operations: Sequence[Operation]) -> None:
    """Wait until the rules hold."""
    at_once(lambda pair: api.success_of(pair[1], pair[0], timeout_s=_RULE_S), operations)


def allow(api: GcpProjectApi, name: str, launch_id: str, text: str, networks: Sequence[str], *, rules: Sequence[Any], network: str) -> None:
    """Make the rules of a launch admit exactly these networks, and wait until they do.

    Args:
        api: whose project.
        name: of the launch.
        launch_id: whose machines.
        text: the tags, for the rules' descriptions.
        networks: who may come in.
        rules: ours as they are now.
        network: path of the network of GCP that the rules are for.
    """
    wait(api, begin(api, name, launch_id, text, networks, network=network))
    names = {rule["name"] for rule in firewalls(name, launch_id, text, networks, network)}
    for rule in rules:
        if network_tag(launch_id) in rule.target_tags and rule.name not in {*names, health_name(launch_id)}:
            api.run("Firewalls", "delete_unary", "compute.firewalls.delete", timeout_s=_RULE_S, firewall=rule.name)

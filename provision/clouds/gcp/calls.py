"""The calls of a launch on GCP, for those who review it: the client's own requests, in their order."""

from __future__ import annotations

from typing import Any

from provision.clouds.base import NAME_TAG, OWNER_TAG, Order
from provision.clouds.gcp import requests
from provision.clouds.terms import PlannedCall

_NAME = requests.LABELS[NAME_TAG]


def calls(order: Order, region: str) -> list[PlannedCall]:
    """The calls that change something, and those that find what they need.

    Args:
        order: of the first attempt, in a zone; words stand in it for what only the launch decides.
        region: where.
    """
    described = requests.description(order.name, order.launch_id, order.tags.get(OWNER_TAG, ""))
    networks = ["<the address of the caller>" if network == "caller" else network for network in order.ssh_from]
    network = "<the network of the subnetwork>" if order.subnet else requests.NETWORK
    (name,) = requests.machine_names(order)
    planned: list[tuple[str, str, dict[str, Any]]] = [
        ("compute.instances.aggregatedList", "find what an earlier run made", {"filter": f"labels.{_NAME}={requests.label(order.name)}"})
    ]
    if order.subnet:
        where = {"region": region, "subnetwork": order.subnet}
        planned.append(("compute.subnetworks.get", "find the network of the subnetwork", where))
    for rule in requests.firewalls(order.launch_id, described, networks, network):
        purpose = "open SSH and nothing else" if "allowed" in rule else "close SSH to everybody else"
        planned.append(("compute.firewalls.insert", purpose, {"firewall": rule}))
    planned += [
        ("compute.instances.insert", "make the instance", {"zone": order.zone, "instance": requests.instance(order, name)}),
        (
            "compute.instances.getGuestAttributes",
            "read the host keys",
            {"zone": order.zone, "instance": name, "queryPath": "hostkeys/"},
        ),
    ]
    return [PlannedCall("gcp", action, purpose, parameters) for action, purpose, parameters in planned]

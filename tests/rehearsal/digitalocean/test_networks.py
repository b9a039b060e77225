"""VPCs and firewalls: what they take, and whom a firewall protects."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.rehearsal.digitalocean.conftest import ANYWHERE, REGION, Ocean, fresh


def tagged(ocean: Ocean) -> str:
    """A tag that exists."""
    name = fresh()
    assert ocean.call("POST", "tags", {"name": name}).status == 201
    return name


def opened(ocean: Ocean, number: int) -> list[str]:
    networks: list[str] = ocean.row(number)["open"]
    return networks


def test_a_firewall_protects_what_has_its_tag_and_nothing_else(ocean: Ocean) -> None:
    tag = tagged(ocean)
    made = ocean.call("POST", "firewalls", ocean.firewall(tags=[tag]))
    assert (made.status, made.body["firewall"]["status"]) == (202, "succeeded")
    mine, other = ocean.made(tags=[tag]), ocean.made()
    assert opened(ocean, mine) == ["192.0.2.0/24"]
    assert opened(ocean, other) == ANYWHERE
    resource = {"resources": [{"resource_id": str(mine), "resource_type": "droplet"}]}
    assert ocean.call("DELETE", f"tags/{tag}/resources", resource).status == 204
    assert opened(ocean, mine) == ANYWHERE
    resource["resources"][0]["resource_id"] = str(other)
    assert ocean.call("POST", f"tags/{tag}/resources", resource).status == 204
    assert opened(ocean, other) == ["192.0.2.0/24"]
    assert ocean.call("DELETE", f"firewalls/{made.body['firewall']['id']}").status == 204
    assert opened(ocean, other) == ANYWHERE


def test_it_protects_a_droplet_only_once_its_tags_are_there(ocean: Ocean) -> None:
    tag = tagged(ocean)
    ocean.call("POST", "firewalls", ocean.firewall(tags=[tag]))
    ocean.set(do_tags_s=0.4)
    number = ocean.create(tags=[tag]).body["droplet"]["id"]
    assert opened(ocean, number) == ANYWHERE
    deadline = time.monotonic() + 60
    while opened(ocean, number) != ["192.0.2.0/24"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_waits_until_it_holds(ocean: Ocean) -> None:
    tag = tagged(ocean)
    number = ocean.made(tags=[tag])
    ocean.set(do_firewall_s=0.4)
    made = ocean.call("POST", "firewalls", ocean.firewall(tags=[tag])).body["firewall"]
    assert made["status"] == "waiting"
    assert made["pending_changes"] == [{"droplet_id": number, "removing": False, "status": "waiting"}]
    assert opened(ocean, number) == ANYWHERE
    deadline = time.monotonic() + 60
    while ocean.get(f"firewalls/{made['id']}")["firewall"]["status"] != "succeeded":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert opened(ocean, number) == ["192.0.2.0/24"]


def test_it_waits_for_a_droplet_that_is_new_to_it_and_protects_the_others_meanwhile(ocean: Ocean) -> None:
    tag = tagged(ocean)
    made = ocean.call("POST", "firewalls", ocean.firewall(tags=[tag])).body["firewall"]
    old = ocean.made(tags=[tag])
    ocean.set(do_firewall_s=3600)
    new = ocean.made(tags=[tag])
    shown = ocean.get(f"firewalls/{made['id']}")["firewall"]
    assert (shown["status"], [change["droplet_id"] for change in shown["pending_changes"]]) == ("waiting", [new])
    assert (opened(ocean, new), opened(ocean, old)) == (ANYWHERE, ["192.0.2.0/24"])


def test_a_change_replaces_all_of_it(ocean: Ocean) -> None:
    tag = tagged(ocean)
    number = ocean.made(tags=[tag])
    made = ocean.call("POST", "firewalls", ocean.firewall(tags=[tag])).body["firewall"]
    changed = ocean.firewall(made["name"], tags=[tag], sources={"addresses": ["198.51.100.7"]})
    assert ocean.call("PUT", f"firewalls/{made['id']}", changed).status == 200
    assert opened(ocean, number) == ["198.51.100.7"]
    del changed["tags"]
    assert ocean.call("PUT", f"firewalls/{made['id']}", changed).body["firewall"]["tags"] == []
    assert opened(ocean, number) == ANYWHERE
    listed = ocean.get("firewalls?per_page=200")["firewalls"]
    assert [f["tags"] for f in listed if f["id"] == made["id"]] == [[]]


def test_the_rules_of_several_add_up_and_sources_may_be_droplets(ocean: Ocean) -> None:
    one, two = tagged(ocean), tagged(ocean)
    jump = ocean.made()
    number = ocean.made(tags=[one, two])
    addresses = sorted(f"{card['ip_address']}/32" for card in ocean.droplet(jump)["networks"]["v4"])
    ocean.call("POST", "firewalls", ocean.firewall(tags=[one]))
    ocean.call("POST", "firewalls", ocean.firewall(tags=[two], sources={"droplet_ids": [jump]}))
    assert opened(ocean, number) == sorted([*addresses, "192.0.2.0/24"])


@pytest.mark.parametrize(("ports", "reached"), [("22", True), ("1-1024", True), ("0", True), ("80", False), ("23-1024", False)])
def test_port_22_is_open_where_a_rule_has_it(ocean: Ocean, ports: str, *, reached: bool) -> None:
    number = ocean.made()
    wanted = ocean.firewall(droplet_ids=[number])
    wanted["inbound_rules"][0]["ports"] = ports
    assert ocean.call("POST", "firewalls", wanted).status == 202
    assert opened(ocean, number) == (["192.0.2.0/24"] if reached else [])


def rule(**changes: Any) -> dict[str, Any]:
    return {"protocol": "tcp", "ports": "22", "sources": {"addresses": ["192.0.2.0/24"]}, **changes}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"inbound_rules": [rule(ports="ssh")]}, "ssh"),
        ({"inbound_rules": [rule(ports="90-80")]}, "90-80"),
        ({"inbound_rules": [rule(ports="70000")]}, "70000"),
        ({"inbound_rules": [rule(protocol="icmp")]}, "icmp"),
        ({"inbound_rules": [rule(protocol="sctp")]}, "sctp"),
        ({"inbound_rules": [rule(sources={"addresses": ["192.0.2.1/24"]})]}, "192.0.2.1/24"),
        ({"inbound_rules": [rule(sources={})]}, "sources"),
        ({"inbound_rules": [rule(sources={"tags": ["nobody-has-it"]})]}, "nobody-has-it"),
        ({"inbound_rules": [{"protocol": "tcp", "ports": "22"}]}, "sources"),
        ({"tags": ["nobody-has-it"]}, "nobody-has-it"),
        ({"droplet_ids": [1]}, "1"),
        ({"name": "a b"}, "a b"),
        ({"status": "succeeded"}, "read-only"),
    ],
)
def test_what_cannot_be_is_refused(ocean: Ocean, more: dict[str, Any], says: str) -> None:
    reply = ocean.call("POST", "firewalls", {**ocean.firewall(), **more})
    assert reply.status == 422
    assert says in reply.said.lower()


def test_a_rule_for_load_balancers_is_not_done_and_a_firewall_without_rules_is_none(ocean: Ocean) -> None:
    balanced = ocean.firewall(sources={"load_balancer_uids": ["a"]})
    assert ocean.call("POST", "firewalls", balanced).body["id"] == "not_implemented"
    assert ocean.call("POST", "firewalls", {"name": fresh()}).status == 422


def test_a_firewalls_name_is_its_own(ocean: Ocean) -> None:
    wanted = ocean.firewall()
    made = ocean.call("POST", "firewalls", wanted).body["firewall"]
    again = ocean.call("POST", "firewalls", wanted)
    assert (again.status, again.body["id"], again.said) == (409, "conflict", "duplicate name")
    assert ocean.call("PUT", f"firewalls/{made['id']}", wanted).status == 200  # its own
    assert ocean.call("GET", f"firewalls/{fresh()}").status == 404


def test_a_deleted_droplet_leaves_its_firewall(ocean: Ocean) -> None:
    number = ocean.made()
    made = ocean.call("POST", "firewalls", ocean.firewall(droplet_ids=[number])).body["firewall"]
    ocean.call("DELETE", f"droplets/{number}")
    assert ocean.get(f"firewalls/{made['id']}")["firewall"]["droplet_ids"] == []


def test_every_region_has_a_default_vpc_and_others_can_be_made(ocean: Ocean) -> None:
    regions = {region["slug"] for region in ocean.get("regions?per_page=200")["regions"]}
    assert {vpc["region"] for vpc in ocean.get("vpcs?per_page=200")["vpcs"] if vpc["default"]} == regions
    name = fresh()
    made = ocean.call("POST", "vpcs", {"name": name, "region": REGION}).body["vpc"]
    assert ocean.get(f"vpcs/{made['id']}")["vpc"]["default"] is False
    assert ocean.call("POST", "vpcs", {"name": name, "region": REGION}).status == 409
    assert ocean.call("POST", "vpcs", {"name": fresh(), "region": REGION, "ip_range": made["ip_range"]}).status == 422
    assert ocean.call("POST", "vpcs", {"name": fresh(), "region": REGION, "ip_range": "10.0.0.1/20"}).status == 422
    assert ocean.call("POST", "vpcs", {"name": fresh(), "region": "mars1"}).status == 422
    number = ocean.made(vpc_uuid=made["id"])
    assert ocean.call("DELETE", f"vpcs/{made['id']}").status == 403
    ocean.call("DELETE", f"droplets/{number}")
    assert ocean.call("DELETE", f"vpcs/{made['id']}").status == 204
    assert ocean.call("GET", f"vpcs/{made['id']}").status == 404

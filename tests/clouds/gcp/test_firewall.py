"""The firewall rules of a launch: exactly the networks that may come in, before there is a machine."""

from __future__ import annotations

import json

import pytest

from provision.clouds import base
from provision.errors import CloudInvalidError
from provision.structs import replace
from tests.clouds.gcp.rig import ZONE, GcpRig


def names(rig: GcpRig, tag: str) -> set[str]:
    return {name for name, rule in rig.rules().items() if tag in rule.target_tags}


def test_the_rules_let_in_the_caller_and_shut_out_the_rest(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.cloud().launch(order)
    tag = f"gpuprov-{order.launch_id}"
    rules = rig.rules()
    allow, deny = rules[tag], rules[f"gpuprov-name-{order.name}"]
    assert list(rig.raw(f"gpuprov-{order.name}").tags.items) == list(allow.target_tags) == list(deny.target_tags) == [tag]
    assert list(allow.source_ranges) == ["127.0.0.1/32"]
    assert (list(deny.source_ranges), deny.denied[0].I_p_protocol, list(deny.denied[0].ports)) == (["0.0.0.0/0"], "tcp", ["22"])
    assert allow.priority < deny.priority < 65534
    assert json.loads(allow.description)[base.NAME_TAG] == order.name


def test_ipv6_has_rules_of_its_own_and_they_go_when_it_is_no_longer_allowed(rig: GcpRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24", "2001:db8::/64")).at(ZONE)
    cloud = rig.cloud()
    cloud.launch(order)
    tag = f"gpuprov-{order.launch_id}"
    assert names(rig, tag) == {tag, f"gpuprov-name-{order.name}", f"{tag}-v6", f"{tag}-deny-v6"}
    cloud.allow(order.name, ["192.0.2.0/24"])
    assert names(rig, tag) == {tag, f"gpuprov-name-{order.name}"}


def test_asked_again_from_another_address_the_rule_follows(rig: GcpRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24",)).at(ZONE)
    rig.cloud().launch(order)
    rig.cloud().launch(replace(order, ssh_from=("198.51.100.7/32",)))
    assert list(rig.rules()[f"gpuprov-{order.launch_id}"].source_ranges) == ["198.51.100.7/32"]


def test_allow_makes_a_rule_again_that_somebody_removed(rig: GcpRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24",)).at(ZONE)
    cloud = rig.cloud()
    cloud.launch(order)
    cloud.remove([t for t in cloud.things(order.name) if t.kind == "firewall"], on_step=lambda _: None)
    cloud.allow(order.name, ["192.0.2.0/24"])
    tag = f"gpuprov-{order.launch_id}"
    assert names(rig, tag) == {tag, f"gpuprov-name-{order.name}"}


def test_a_refused_rule_leaves_no_machine(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.faults({"kind": "operation", "action": r"compute\.firewalls\.insert", "code": "INVALID_USAGE", "message": "no", "http": 400})
    cloud = rig.cloud()
    with pytest.raises(CloudInvalidError, match=r"compute\.firewalls\.create"):
        cloud.launch(order)
    assert cloud.find(order.name) == []

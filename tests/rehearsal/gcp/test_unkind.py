"""By default the embedded Compute Engine is late, and refuses now and then, the same by the same seed; a switch ends that."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import ZONE, Gce, fresh, t4
from tests.waiting import until

SUBNET = "regions/us-central1/subnetworks/default"


@pytest.fixture
def unkind(gce: Gce) -> Gce:
    gce.ask("settings", {"gce_seed": 3, "gce_operation_s": 0.02})
    return gce


def rule(name: str) -> Any:
    allowed = [c.Allowed(I_p_protocol="tcp", ports=["22"])]
    return c.Firewall(name=name, network="global/networks/default", allowed=allowed, source_ranges=["192.0.2.0/24"])


def tried(gce: Gce, act: Any) -> list[str]:
    """How calls of one kind ended that were made while rules of the network were made and removed: accepted, or refused with a reason."""
    rules = gce.client("FirewallsClient")
    ends = []
    for _ in range(30):
        name = fresh()
        try:
            operations = [rules.insert_unary(project=gce.project, firewall_resource=rule(name))]
        except x.BadRequest:
            continue
        try:
            made = act()
            operations.append(made)
            ends.append("accepted")
        except x.BadRequest as error:
            assert error.errors[0]["reason"] == "resourceNotReady"
            ends.append(str(error.errors[0]["message"]))
        ended = [gce.done(operation) for operation in operations]
        ends += [str(error.code) for operation in ended for error in operation.error.errors]
    return ends


def test_a_list_shows_late_what_a_get_shows_at_once(unkind: Gce) -> None:
    missed = 0
    for _ in range(5):
        name = fresh()
        until(lambda name=name: insert(unkind, name), every_s=0.01)  # type: ignore[misc]
        missed += unkind.names(f"name={name}") == []
        assert unkind.get(name).name == name
        until(lambda name=name: unkind.names(f"name={name}") == [name])  # type: ignore[misc]
    assert missed
    unkind.ask("settings", {"gce_seed": None})
    name = unkind.made()
    assert unkind.names(f"name={name}") == [name]


def insert(gce: Gce, name: str) -> bool:
    try:
        gce.insert(name)
    except x.BadRequest:
        return False
    return True


def test_a_network_that_is_changed_is_not_ready_now_and_then(unkind: Gce) -> None:
    ends = tried(unkind, lambda: unkind.insert(**t4()))
    words = f"The resource 'projects/{unkind.project}/{SUBNET}' is not ready"
    assert {"accepted", words} <= set(ends) <= {"accepted", words, "RESOURCE_NOT_READY"}
    assert ends.count("accepted") > ends.count(words)


def test_nothing_is_refused_while_no_network_is_changed_or_without_a_seed(unkind: Gce) -> None:
    for _ in range(20):
        assert not unkind.done(unkind.insert()).error.errors
    unkind.ask("settings", {"gce_seed": None})
    assert set(tried(unkind, unkind.insert)) == {"accepted"}


def test_rules_and_removals_take_longer_than_the_rest(unkind: Gce) -> None:
    """By the calls' own account: a wait ends with its operation."""
    rules = unkind.client("FirewallsClient")
    unkind.ask("settings", {"gce_operation_s": 0})
    assert unkind.insert().status == c.Operation.Status.DONE  # before the rule: a network that is changed refuses some
    assert rules.insert_unary(project=unkind.project, firewall_resource=rule(fresh())).status == c.Operation.Status.PENDING
    unkind.ask("settings", {"gce_seed": None})
    assert rules.insert_unary(project=unkind.project, firewall_resource=rule(fresh())).status == c.Operation.Status.DONE


def test_an_operation_has_no_end_before_it_ends(gce: Gce) -> None:
    gce.ask("settings", {"gce_operation_s": 0.2})
    operation = gce.insert()
    assert (operation.status, operation.end_time) == (c.Operation.Status.PENDING, "")
    assert gce.done(operation).end_time


def test_an_instance_shows_what_nobody_asked_for(gce: Gce) -> None:
    """The fields of recorded instances: VictoriaMetrics/VictoriaMetrics, lib/promscrape/discovery/gce/instance_test.go."""
    name = gce.made()
    shown = gce.get(name)
    assert "description" in shown
    assert "can_ip_forward" in shown
    assert shown.confidential_instance_config.enable_confidential_compute is False
    assert shown.display_device.enable_display is False
    assert shown.key_revocation_action_type == "NONE"
    assert shown.reservation_affinity.consume_reservation_type == "ANY_RESERVATION"
    assert shown.shielded_instance_integrity_policy.update_auto_learn_policy
    (card,), (disk,) = shown.network_interfaces, shown.disks
    assert (card.stack_type, card.access_configs[0].network_tier) == ("IPV4_ONLY", "PREMIUM")
    assert (disk.architecture, bool(disk.licenses), bool(disk.guest_os_features)) == ("X86_64", True, True)
    where = {"project": gce.project, "zone": ZONE, "instance": name}
    change = c.InstancesSetLabelsRequest(labels={"a": "2"}, label_fingerprint=shown.label_fingerprint)
    gce.done(gce.instances.set_labels_unary(**where, instances_set_labels_request_resource=change))
    assert gce.get(name).fingerprint != shown.fingerprint


def test_what_a_fault_says_in_details_has_no_other_reason(gce: Gce) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com"}
    gce.ask("faults", [{"kind": "error", "action": r"compute\.instances\.list", "http": 403, "message": "off", "details": [info]}])
    with pytest.raises(x.Forbidden) as caught:
        gce.names()
    assert (caught.value.reason, list(caught.value.errors)) == ("SERVICE_DISABLED", [])


def test_a_machine_that_is_stopped_as_it_is_made_says_why(gce: Gce) -> None:
    gce.ask("settings", {"gce_stops": {ZONE: "Instance stopped due to preemption."}})
    operation = gce.done(gce.insert(name := fresh()))
    assert not operation.error.errors
    assert gce.until(name, "TERMINATED").status_message == "Instance stopped due to preemption."

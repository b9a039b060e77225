"""Instances of the embedded GCP: how they change and end."""

import datetime as dt
from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import ZONE, Gce, boot, local_ssd, scheduled, t4
from tests.waiting import until


def test_stop_start_and_delete_take_their_time(gce: Gce) -> None:
    name = gce.made()
    gce.ask("settings", {"gce_operation_s": 0.2, "gce_running_s": 0.4})
    stopping = gce.instances.stop_unary(project=gce.project, zone=ZONE, instance=name)
    assert gce.get(name).status == "STOPPING"
    gce.done(stopping)
    stopped = gce.get(name)
    assert stopped.status == "TERMINATED"
    assert not stopped.network_interfaces[0].access_configs[0].nat_i_p
    starting = gce.instances.start_unary(project=gce.project, zone=ZONE, instance=name)
    assert gce.get(name).status == "STAGING"
    gce.done(starting)
    assert gce.until(name, "RUNNING").network_interfaces[0].access_configs[0].nat_i_p
    deleting = gce.instances.delete_unary(project=gce.project, zone=ZONE, instance=name)
    assert gce.get(name).status == "STOPPING"
    gce.done(deleting)
    with pytest.raises(x.NotFound):
        gce.get(name)
    with pytest.raises(x.NotFound):
        gce.instances.delete_unary(project=gce.project, zone=ZONE, instance=name)


def test_a_protected_instance_is_not_deleted(gce: Gce) -> None:
    name = gce.made(deletion_protection=True)
    with pytest.raises(x.BadRequest, match="protected against deletion"):
        gce.instances.delete_unary(project=gce.project, zone=ZONE, instance=name)


def test_local_ssds_are_given_up_knowingly(gce: Gce) -> None:
    name = gce.made(disks=[boot(), local_ssd(), local_ssd()])
    with pytest.raises(x.BadRequest, match="discard-local-ssd"):
        gce.instances.stop_unary(project=gce.project, zone=ZONE, instance=name)
    asked = c.StopInstanceRequest(project=gce.project, zone=ZONE, instance=name, discard_local_ssd=True)
    gce.done(gce.instances.stop_unary(asked))
    assert gce.get(name).status == "TERMINATED"


@pytest.mark.parametrize("action", ["DELETE", "STOP"])
def test_the_longest_run_is_enforced(gce: Gce, action: str) -> None:
    gce.ask("settings", {"gce_shortest_run_s": 0.5})
    name = gce.made(**scheduled(max_run_duration=c.Duration(seconds=1), instance_termination_action=action))
    ends = dt.datetime.fromisoformat(gce.get(name).resource_status.scheduling.termination_timestamp)
    assert 0 < (ends - dt.datetime.now(dt.UTC)).total_seconds() <= 1
    left = [] if action == "DELETE" else [name]
    until(lambda: gce.names(f"name={name}") == left and gce.names(f"name={name} AND status=TERMINATED") == left)


def test_a_run_may_end_at_a_time(gce: Gce) -> None:
    gce.ask("settings", {"gce_shortest_run_s": 0.5})
    at = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)).isoformat()
    name = gce.made(**scheduled(termination_time=at, instance_termination_action="DELETE"))
    until(lambda: gce.names(f"name={name}") == [])


def test_a_stop_ends_the_limit_and_a_start_begins_it_anew(gce: Gce) -> None:
    name = gce.made(**scheduled(max_run_duration=c.Duration(seconds=3600), instance_termination_action="DELETE"))
    before = gce.get(name).resource_status.scheduling.termination_timestamp
    gce.done(gce.instances.stop_unary(project=gce.project, zone=ZONE, instance=name))
    assert not gce.get(name).resource_status.scheduling.termination_timestamp
    gce.done(gce.instances.start_unary(project=gce.project, zone=ZONE, instance=name))
    assert gce.until(name, "RUNNING").resource_status.scheduling.termination_timestamp > before


def test_scheduling_changes_only_while_it_is_stopped(gce: Gce) -> None:
    name = gce.made(**scheduled(max_run_duration=c.Duration(seconds=3600), instance_termination_action="DELETE"))
    change = c.Scheduling(max_run_duration=c.Duration(seconds=7200), instance_termination_action="DELETE")
    where = {"project": gce.project, "zone": ZONE, "instance": name}
    with pytest.raises(x.BadRequest, match="TERMINATED"):
        gce.instances.set_scheduling_unary(**where, scheduling_resource=change)
    gce.done(gce.instances.stop_unary(**where))
    gce.done(gce.instances.set_scheduling_unary(**where, scheduling_resource=change))
    assert gce.get(name).scheduling.max_run_duration.seconds == 7200


def test_a_spot_instance_is_taken_back(gce: Gce) -> None:
    name = gce.made(**{**t4(), **scheduled(provisioning_model="SPOT", on_host_maintenance="TERMINATE", instance_termination_action="STOP")})
    gce.done(gce.instances.simulate_maintenance_event_unary(project=gce.project, zone=ZONE, instance=name))
    gce.until(name, "TERMINATED")
    where = f'operationType="compute.instances.preempted" AND targetLink:{name}'
    found = list(gce.client("ZoneOperationsClient").list(c.ListZoneOperationsRequest(project=gce.project, zone=ZONE, filter=where)))
    assert len(found) == 1


def test_maintenance_of_a_gpu_machine_is_announced_and_stops_it_for_a_moment(gce: Gce) -> None:
    name = gce.made(**t4())
    gce.ask("settings", {"gce_maintenance": {name: {"maintenanceStatus": "PENDING", "windowStartTime": "2026-12-01T00:00:00Z"}}})
    assert gce.get(name).resource_status.upcoming_maintenance.maintenance_status == "PENDING"
    before = gce.get(name).last_start_timestamp
    gce.done(gce.instances.simulate_maintenance_event_unary(project=gce.project, zone=ZONE, instance=name))
    assert gce.until(name, "RUNNING").last_start_timestamp > before


def test_labels_and_metadata_change_under_their_fingerprint(gce: Gce) -> None:
    name = gce.made(labels={"a": "1"}, metadata=c.Metadata(items=[c.Items(key="k", value="v")]))
    where = {"project": gce.project, "zone": ZONE, "instance": name}
    found = gce.get(name)
    change = c.InstancesSetLabelsRequest(labels={"a": "2"}, label_fingerprint=found.label_fingerprint)
    gce.done(gce.instances.set_labels_unary(**where, instances_set_labels_request_resource=change))
    assert gce.get(name).labels == {"a": "2"}
    with pytest.raises(x.PreconditionFailed) as caught:
        gce.instances.set_labels_unary(**where, instances_set_labels_request_resource=change)
    assert caught.value.errors[0]["reason"] == "conditionNotMet"
    fresh_data = c.Metadata(items=[c.Items(key="k", value="w")], fingerprint=found.metadata.fingerprint)
    gce.done(gce.instances.set_metadata_unary(**where, metadata_resource=fresh_data))
    assert gce.get(name).metadata.items[0].value == "w"
    with pytest.raises(x.PreconditionFailed):
        gce.instances.set_metadata_unary(**where, metadata_resource=fresh_data)


def test_host_keys_are_in_the_guest_attributes_when_they_are_enabled_and_told(gce: Gce) -> None:
    gce.ask("settings", {"gce_guest_attributes_s": 600.0})
    enabled = c.Metadata(items=[c.Items(key="enable-guest-attributes", value="TRUE")])
    name, silent = gce.made(metadata=enabled), gce.made()

    def ask(of: str, path: str = "hostkeys/") -> Any:
        return gce.instances.get_guest_attributes(
            c.GetGuestAttributesInstanceRequest(project=gce.project, zone=ZONE, instance=of, query_path=path)
        )

    with pytest.raises(x.NotFound):
        ask(name)
    gce.ask("settings", {"gce_guest_attributes_s": 0.0})
    (found,) = ask(name).query_value.items
    assert (found.namespace, found.key) == ("hostkeys", "ssh-ed25519")
    assert found.value.startswith("AAAAC3NzaC1lZDI1NTE5AAAAI")
    assert ask(name, "hostkeys/ssh-ed25519").query_value.items[0].value == found.value
    with pytest.raises(x.NotFound):
        ask(name, "other/")
    with pytest.raises(x.NotFound):
        ask(silent)


def test_the_console_is_empty_without_a_host(gce: Gce) -> None:
    name = gce.made()
    answer = gce.instances.get_serial_port_output(project=gce.project, zone=ZONE, instance=name)
    assert (answer.contents, answer.next) == ("", 0)

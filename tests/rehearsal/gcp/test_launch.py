"""How instances come, and which ones are refused."""

from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import ZONE, Gce, boot, fresh, scheduled, t4


def test_it_comes_through_its_states_and_has_an_address_when_it_runs(gce: Gce) -> None:
    gce.ask("settings", {"gce_running_s": 0.6, "gce_operation_s": 0.1})
    name = fresh()
    operation = gce.insert(name, **t4(), labels={"a": "b"})
    assert operation.status == c.Operation.Status.PENDING
    assert operation.operation_type == "insert"
    assert gce.get(name).status == "PROVISIONING"
    assert gce.done(operation).status == c.Operation.Status.DONE
    staging = gce.until(name, "STAGING")
    assert staging.network_interfaces[0].access_configs[0].nat_i_p
    found = gce.until(name, "RUNNING")
    assert found.network_interfaces[0].access_configs[0].nat_i_p.startswith("127.78.")
    assert found.labels == {"a": "b"}
    assert found.id
    assert found.last_start_timestamp
    assert gce.instances.get(project=gce.project, zone=ZONE, instance=str(found.id)).name == name


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"machine": "n7-standard-4"}, "Machine type with name 'n7-standard-4' does not exist"),
        ({"machine": "g4-standard-48"}, "does not exist in zone"),
        ({"machine_type": "zones/europe-west4-a/machineTypes/n1-standard-4"}, "zone"),
        ({**t4(), "scheduling": c.Scheduling(on_host_maintenance="MIGRATE")}, "do not support live migration"),
        ({**t4(), "scheduling": c.Scheduling()}, "do not support live migration"),
        ({"machine": "g2-standard-4", "scheduling": c.Scheduling()}, "do not support live migration"),
        ({**t4(), "machine": "g2-standard-4"}, "g2-standard-4, nvidia-tesla-t4"),
        (t4(3), "nvidia-tesla-t4, 3"),
        (t4(8), "nvidia-tesla-t4, 8"),
        ({**t4(accelerator="nvidia-tesla-v100"), "machine": "n1-standard-16"}, "n1-standard-16, nvidia-tesla-v100, 1"),
        ({"disks": [c.AttachedDisk(boot=True)]}, "image resource cannot be found"),
        ({"disks": [boot(disk_size_gb=5)]}, "smaller than the image size"),
        ({"disks": [c.AttachedDisk()]}, "boot disk"),
        ({"disks": [boot(), c.AttachedDisk(type_="SCRATCH", auto_delete=True)]}, "SCRATCH"),
        ({"network_interfaces": [c.NetworkInterface(network="global/networks/other")]}, "network"),
        ({"labels": {"Upper": "a"}}, "labels"),
        ({"labels": {"a": "2026-11-21T00:00:00Z"}}, "labels"),
        (scheduled(provisioning_model="SPOT", automatic_restart=True), "automaticRestart"),
        (scheduled(max_run_duration=c.Duration(seconds=60)), "instanceTerminationAction"),
        (scheduled(max_run_duration=c.Duration(seconds=5), instance_termination_action="DELETE"), "between 30 seconds and 120 days"),
        (scheduled(max_run_duration=c.Duration(seconds=10**8), instance_termination_action="DELETE"), "between 30 seconds and 120 days"),
        (scheduled(instance_termination_action="DELETE"), "needs SPOT"),
        (scheduled(termination_time="tomorrow", instance_termination_action="DELETE"), "RFC 3339"),
        (scheduled(termination_time="2026-12-01T00:00:00", instance_termination_action="DELETE"), "RFC 3339"),
        (scheduled(termination_time="2026-01-01T00:00:00Z", instance_termination_action="DELETE"), "between 30 seconds"),
    ],
)
def test_what_cannot_be_is_refused_at_once_and_nothing_is_made(gce: Gce, more: dict[str, Any], says: str) -> None:
    name = fresh()
    with pytest.raises(x.BadRequest, match=says):
        gce.insert(name, **more)
    assert gce.names(f"name={name}") == []


def test_an_accelerator_that_its_zone_does_not_have_is_not_found(gce: Gce) -> None:
    with pytest.raises(x.NotFound, match="acceleratorTypes/nvidia-tesla-v100"):
        gce.insert(zone="asia-east2-a", **t4(zone="asia-east2-a", accelerator="nvidia-tesla-v100"))


def test_a_machine_with_built_in_gpus_shows_them(gce: Gce) -> None:
    name = gce.made(machine="g2-standard-24", **scheduled(on_host_maintenance="TERMINATE"))
    cards = gce.get(name).guest_accelerators
    assert [(card.accelerator_type.rsplit("/", 1)[1], card.accelerator_count) for card in cards] == [("nvidia-l4", 2)]


def test_an_external_address_only_where_one_is_asked_for(gce: Gce) -> None:
    name = gce.made(network_interfaces=[c.NetworkInterface(network="global/networks/default")])
    card = gce.get(name).network_interfaces[0]
    assert not card.access_configs
    assert card.network_i_p.startswith("10.")

"""Instances of the embedded GCP: how they come, what is refused, how they change and end."""

import datetime as dt
import time
from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import IMAGE, REGION, ZONE, Gce, fresh, t4


def scheduled(**more: Any) -> dict[str, Any]:
    return {"scheduling": c.Scheduling(**more)}


def local_ssd(zone: str = ZONE) -> Any:
    new = c.AttachedDiskInitializeParams(disk_type=f"zones/{zone}/diskTypes/local-ssd")
    return c.AttachedDisk(type_="SCRATCH", interface="NVME", auto_delete=True, initialize_params=new)


def boot(**more: Any) -> Any:
    return c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE, **more))


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


def test_an_operation_takes_its_time_or_none(gce: Gce) -> None:
    gce.ask("settings", {"gce_operation_s": 0.4})
    started = time.monotonic()
    operation = gce.insert()
    where = {"project": gce.project, "zone": ZONE, "operation": operation.name}
    assert gce.client("ZoneOperationsClient").get(**where).status == c.Operation.Status.RUNNING
    gce.done(operation)
    assert time.monotonic() - started >= 0.4
    gce.ask("settings", {"gce_operation_s": 0})
    assert gce.insert().status == c.Operation.Status.DONE
    listed = gce.client("ZoneOperationsClient").list(
        c.ListZoneOperationsRequest(project=gce.project, zone=ZONE, filter=f"name={operation.name}")
    )
    assert [o.name for o in listed] == [operation.name]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"machine": "n7-standard-4"}, "Machine type with name 'n7-standard-4' does not exist"),
        ({"machine": "a3-highgpu-8g"}, "does not exist in zone"),
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


# --- lists --------------------------------------------------------------------------------------------------------


def test_lists_by_label_and_status_over_one_zone_and_all(gce: Gce) -> None:
    group = fresh()
    here = gce.made(labels={"gpuprov-name": group, "owner": "x"})
    there = gce.made(zone="europe-west4-a", labels={"gpuprov-name": group})
    gce.done(gce.instances.stop_unary(project=gce.project, zone=ZONE, instance=here))
    assert gce.names(f"labels.gpuprov-name={group}") == [here]
    assert gce.names(f'labels.gpuprov-name="{group}" AND status=RUNNING') == []

    def everywhere(where: str) -> list[str]:
        asked = c.AggregatedListInstancesRequest(project=gce.project, filter=where)
        return [i.name for _, scoped in gce.instances.aggregated_list(asked) for i in scoped.instances]

    assert sorted(everywhere(f"labels.gpuprov-name = {group}")) == sorted([here, there])
    assert everywhere(f"(labels.gpuprov-name = {group}) (status = RUNNING)") == [there]
    assert everywhere(f"labels.gpuprov-name = {group} AND labels.owner:*") == [here]
    pages = c.AggregatedListInstancesRequest(project=gce.project, filter=f"labels.gpuprov-name = {group}", max_results=1)
    found = [i.name for _, scoped in gce.instances.aggregated_list(pages) for i in scoped.instances]
    assert sorted(found) == sorted([here, there])


# --- power --------------------------------------------------------------------------------------------------------


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
    until = dt.datetime.fromisoformat(gce.get(name).resource_status.scheduling.termination_timestamp)
    assert 0 < (until - dt.datetime.now(dt.UTC)).total_seconds() <= 1
    deadline = time.monotonic() + 4
    while gce.names(f"name={name} AND status=RUNNING"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)
    assert gce.names(f"name={name}") == ([] if action == "DELETE" else [name])
    assert gce.names(f"name={name} AND status=TERMINATED") == ([] if action == "DELETE" else [name])


def test_a_run_may_end_at_a_time(gce: Gce) -> None:
    gce.ask("settings", {"gce_shortest_run_s": 0.5})
    at = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)).isoformat()
    name = gce.made(**scheduled(termination_time=at, instance_termination_action="DELETE"))
    time.sleep(1.3)
    assert gce.names(f"name={name}") == []


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


# --- labels, metadata, console ------------------------------------------------------------------------------------


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
    gce.ask("settings", {"gce_guest_attributes_s": 0.3})
    enabled = c.Metadata(items=[c.Items(key="enable-guest-attributes", value="TRUE")])
    name, silent = gce.made(metadata=enabled), gce.made()

    def ask(of: str, path: str = "hostkeys/") -> Any:
        return gce.instances.get_guest_attributes(
            c.GetGuestAttributesInstanceRequest(project=gce.project, zone=ZONE, instance=of, query_path=path)
        )

    with pytest.raises(x.NotFound):
        ask(name)
    time.sleep(0.4)
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


# --- quotas and stock ---------------------------------------------------------------------------------------------


def quota(gce: Gce, metric: str, region: str = REGION) -> tuple[float, float]:
    found = gce.client("RegionsClient").get(project=gce.project, region=region)
    return next((q.limit, q.usage) for q in found.quotas if q.metric == metric)


@pytest.mark.parametrize(("spot", "metric"), [(False, "NVIDIA_T4_GPUS"), (True, "PREEMPTIBLE_NVIDIA_T4_GPUS")])
def test_the_quota_of_a_region_counts_what_runs_there(gce: Gce, *, spot: bool, metric: str) -> None:
    zone, region = ("us-west4-b", "us-west4") if spot else ("us-west4-a", "us-west4")
    gce.ask("settings", {"gce_quota": {region: {metric: 2}}})
    card = t4(2, zone)
    if spot:
        card["scheduling"] = c.Scheduling(provisioning_model="SPOT", on_host_maintenance="TERMINATE")
    assert quota(gce, metric, region) == (2, 0)
    first = gce.made(zone=zone, **card)
    assert quota(gce, metric, region) == (2, 2)
    name = fresh()
    ended = gce.done(gce.insert(name, zone=zone, **card))
    assert (ended.error.errors[0].code, ended.http_error_status_code) == ("QUOTA_EXCEEDED", 403)
    info = ended.error.errors[0].error_details[0].quota_info
    assert (info.limit, dict(info.dimensions), info.metric_name) == (2, {"region": region}, f"compute.googleapis.com/{metric.lower()}")
    assert gce.names(f"name={name}", zone=zone) == []
    gce.done(gce.instances.stop_unary(project=gce.project, zone=zone, instance=first))
    assert quota(gce, metric, region) == (2, 0)
    second = gce.made(zone=zone, **card)
    ended = gce.done(gce.instances.start_unary(project=gce.project, zone=zone, instance=first))
    assert ended.error.errors[0].code == "QUOTA_EXCEEDED"
    assert gce.get(first, zone=zone).status == "TERMINATED"
    for name in (first, second):
        gce.done(gce.instances.delete_unary(project=gce.project, zone=zone, instance=name))


@pytest.mark.parametrize("metric", ["INSTANCES", "IN_USE_ADDRESSES", "CPUS"])
def test_every_quota_that_is_shown_is_kept(gce: Gce, metric: str) -> None:
    gce.ask("settings", {"gce_quota": {"me-west1": {metric: 0}}})
    assert quota(gce, metric, "me-west1") == (0, 0)
    assert f"'{metric}'" in gce.done(gce.insert(zone="me-west1-b")).error.errors[0].message


def test_the_quota_over_all_regions_stands_beside_it(gce: Gce) -> None:
    gce.ask("settings", {"gce_quota": {"global": {"GPUS_ALL_REGIONS": 0}}})
    ended = gce.done(gce.insert(**t4()))
    assert "GPUS_ALL_REGIONS" in ended.error.errors[0].message
    found = gce.client("ProjectsClient").get(project=gce.project)
    assert [q.limit for q in found.quotas if q.metric == "GPUS_ALL_REGIONS"] == [0]


def test_a_zone_without_room_names_the_others(gce: Gce) -> None:
    gce.ask("settings", {"gce_capacity": {"asia-east1-a": 0, "asia-northeast1-a": 1}})
    ended = gce.done(gce.insert(zone="asia-east1-a", **t4(zone="asia-east1-a")))
    error = ended.error.errors[0]
    assert (error.code, ended.http_error_status_code) == ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503)
    said = dict(error.error_details[0].error_info.metadatas)
    assert said["zonesAvailable"] == "asia-east1-c"
    assert said["attachment"] == "nvidia-tesla-t4:1"
    name = gce.made(zone="asia-northeast1-a")
    assert gce.done(gce.insert(zone="asia-northeast1-a")).error.errors
    gce.done(gce.instances.delete_unary(project=gce.project, zone="asia-northeast1-a", instance=name))
    assert not gce.done(gce.insert(zone="asia-northeast1-a")).error.errors

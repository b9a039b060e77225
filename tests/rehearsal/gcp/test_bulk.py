"""Several instances by one call, in one zone or in those of a region that fit."""

from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import IMAGE, Gce, fresh

REGION = "europe-west1"
ZONES = [f"{REGION}-{letter}" for letter in "bcd"]  # those with T4


def wanted(count: int, *, machine: str = "n1-standard-4", card: str = "nvidia-tesla-t4", **more: Any) -> Any:
    disk = c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE))
    properties = c.InstanceProperties(
        machine_type=machine,
        disks=[disk],
        labels={"a": "b"},
        network_interfaces=[c.NetworkInterface(network="global/networks/default", access_configs=[c.AccessConfig()])],
        guest_accelerators=[c.AcceleratorConfig(accelerator_type=card, accelerator_count=1)] if card else [],
        scheduling=c.Scheduling(on_host_maintenance="TERMINATE"),
    )
    return c.BulkInsertInstanceResource(count=count, instance_properties=properties, **more)


def regional(gce: Gce, body: Any) -> Any:
    started = gce.client("RegionInstancesClient").bulk_insert_unary(
        project=gce.project, region=REGION, bulk_insert_instance_resource_resource=body
    )
    return gce.done(started)


def zonal(gce: Gce, body: Any, zone: str = ZONES[0]) -> Any:
    return gce.done(gce.instances.bulk_insert_unary(project=gce.project, zone=zone, bulk_insert_instance_resource_resource=body))


def found(gce: Gce, stem: str) -> dict[str, str]:
    asked = c.AggregatedListInstancesRequest(project=gce.project, filter=f"name={stem}*")
    return {i.name: scope.removeprefix("zones/") for scope, scoped in gce.instances.aggregated_list(asked) for i in scoped.instances}


def test_a_pattern_counts_on_from_the_largest_number(gce: Gce) -> None:
    stem = fresh()
    assert not zonal(gce, wanted(2, name_pattern=f"{stem}-##")).error.errors
    assert not zonal(gce, wanted(1, name_pattern=f"{stem}-##")).error.errors
    assert sorted(found(gce, stem)) == [f"{stem}-01", f"{stem}-02", f"{stem}-03"]
    instance = gce.get(f"{stem}-02", zone=ZONES[0])
    assert instance.labels == {"a": "b"}
    assert instance.guest_accelerators[0].accelerator_count == 1
    assert len({gce.get(name, zone=ZONES[0]).network_interfaces[0].network_i_p for name in found(gce, stem)}) == 3


def test_names_may_be_given(gce: Gce) -> None:
    stem = fresh()
    names = {f"{stem}-{end}": c.BulkInsertInstanceResourcePerInstanceProperties() for end in ("1", "2")}
    assert not regional(gce, wanted(2, per_instance_properties=names)).error.errors
    assert sorted(found(gce, stem)) == sorted(names)


def test_a_region_puts_them_where_there_is_room(gce: Gce) -> None:
    stem = fresh()
    gce.ask("settings", {"gce_capacity": {ZONES[0]: 0, ZONES[1]: 0}})
    ended = regional(gce, wanted(2, name_pattern=f"{stem}-#"))
    assert found(gce, stem) == {f"{stem}-1": ZONES[2], f"{stem}-2": ZONES[2]}
    status = ended.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONES[2]}"]
    assert (status.created_vm_count, status.failed_to_create_vm_count, status.status) == (2, 0, "DONE")


def test_fewer_than_count_but_enough_stay(gce: Gce) -> None:
    stem = fresh()
    gce.ask("settings", {"gce_capacity": dict.fromkeys(ZONES, 0) | {ZONES[0]: 1 + len(busy(gce))}})
    ended = regional(gce, wanted(3, min_count=1, name_pattern=f"{stem}-#"))
    assert not ended.error.errors
    assert found(gce, stem) == {f"{stem}-1": ZONES[0]}


def busy(gce: Gce) -> list[str]:
    return gce.names(zone=ZONES[0])


def test_fewer_than_the_minimum_leave_nothing(gce: Gce) -> None:
    stem = fresh()
    gce.ask("settings", {"gce_capacity": dict.fromkeys(ZONES, 0) | {ZONES[0]: 1 + len(busy(gce))}})
    ended = regional(gce, wanted(3, min_count=2, name_pattern=f"{stem}-#"))
    assert [error.code for error in ended.error.errors] == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"]
    assert ended.http_error_status_code == 503
    assert found(gce, stem) == {}
    disks = c.ListDisksRequest(project=gce.project, zone=ZONES[0], filter=f"name={stem}*")
    assert not list(gce.client("DisksClient").list(disks))


def test_a_spread_shape_fills_zone_after_zone(gce: Gce) -> None:
    stem = fresh()
    room = {zone: 1 + len(gce.names(zone=zone)) for zone in ZONES[:2]} | {ZONES[2]: 0}
    gce.ask("settings", {"gce_capacity": room})
    policy = c.LocationPolicy(target_shape="ANY")
    assert not regional(gce, wanted(2, name_pattern=f"{stem}-#", location_policy=policy)).error.errors
    assert sorted(found(gce, stem).values()) == ZONES[:2]


@pytest.mark.parametrize(("preference", "zones"), [("ALLOW", {ZONES[1]}), ("DENY", {ZONES[0], ZONES[2]})])
def test_a_location_policy_is_kept(gce: Gce, preference: str, zones: set[str]) -> None:
    stem = fresh()
    policy = c.LocationPolicy(locations={f"zones/{ZONES[1]}": c.LocationPolicyLocation(preference=preference)})
    assert not regional(gce, wanted(2, name_pattern=f"{stem}-#", location_policy=policy)).error.errors
    assert set(found(gce, stem).values()) <= zones
    elsewhere = c.LocationPolicy(locations={"zones/us-central1-a": c.LocationPolicyLocation(preference="ALLOW")})
    with pytest.raises(x.BadRequest, match="no zone of europe-west1"):
        regional(gce, wanted(1, name_pattern=f"{stem}-#", location_policy=elsewhere))


def test_the_quota_is_that_of_all_of_them(gce: Gce) -> None:
    stem = fresh()
    used = sum(len(gce.names("status!=TERMINATED", zone=zone)) for zone in ZONES)
    gce.ask("settings", {"gce_quota": {REGION: {"NVIDIA_T4_GPUS": used + 1}}})
    assert [e.code for e in regional(gce, wanted(2, name_pattern=f"{stem}-#")).error.errors] == ["QUOTA_EXCEEDED"]
    assert found(gce, stem) == {}


def test_a_fault_ends_the_whole_and_a_request_id_finds_it_again(gce: Gce) -> None:
    stem = fresh()
    gce.ask("faults", [{"kind": "operation", "action": "compute.regionInstances.bulkInsert", "code": "INTERNAL_ERROR", "http": 500}])
    assert regional(gce, wanted(2, name_pattern=f"{stem}-#")).error.errors[0].code == "INTERNAL_ERROR"
    assert found(gce, stem) == {}
    gce.ask("faults", [])
    request = {"project": gce.project, "region": REGION, "request_id": "5a6b1c9e-0000-4000-8000-000000000001"}
    asked = c.BulkInsertRegionInstanceRequest(**request, bulk_insert_instance_resource_resource=wanted(1, name_pattern=f"{stem}-#"))
    client = gce.client("RegionInstancesClient")
    assert client.bulk_insert_unary(asked).name == client.bulk_insert_unary(asked).name
    assert len(found(gce, stem)) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (wanted(2, name_pattern="plain"), "namePattern"),
        (wanted(2), "namePattern"),
        (wanted(20, name_pattern="a-#"), "too few hashes"),
        (wanted(2, min_count=3, name_pattern="a-#"), "minCount"),
        (wanted(1001, name_pattern="a-####"), "count"),
        (wanted(1, name_pattern="a-#", machine="zones/x/machineTypes/n1-standard-4"), "machineType|locationPolicy"),
        (wanted(1, name_pattern="a-#", card="nvidia-tesla-v100"), "locationPolicy"),
    ],
)
def test_what_contradicts_itself_is_refused(gce: Gce, body: Any, says: str) -> None:
    with pytest.raises(x.BadRequest, match=says):
        regional(gce, body)

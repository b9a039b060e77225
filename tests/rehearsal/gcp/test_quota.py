"""Quotas, and zones without room."""

import pytest
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import REGION, Gce, fresh, t4


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

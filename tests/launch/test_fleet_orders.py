"""The fleet that a profile plans: the place that it is launched at, the bucket and prefix of its store, and the order of a member."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provision import clouds
from provision.clouds.fleet import FleetOrder, FleetPlan
from provision.errors import CloudUnsupportedError, PriceOverLimitError, UsageError
from provision.launch.fleet_orders import parsed_store, place_of, planned_fleet
from provision.launch.plan import Plan, draft_order
from provision.structs import replace
from tests.launch.test_plan import AWS, GCP, planned

ACTS: dict[str, Any] = {**AWS, "identity": {"instance_profile": "gpu-node"}}  # within 0.6 USD in the first of its regions alone
NODE = "gpu-node@a-project.iam.gserviceaccount.com"
GCP_ACTS: dict[str, Any] = {**GCP, "identity": {"service_account": NODE}}
# DigitalOcean has no fleets and no store.
NO_FLEETS: dict[str, Any] = {"cloud": "digitalocean", "instance_type": "gpu-h100x8-640gb", "regions": ["tor1"]}
P5: dict[str, Any] = {"cloud": "aws", "instance_type": "p5.48xlarge", "regions": ["us-east-1"]}
A3: dict[str, Any] = {"cloud": "gcp", "instance_type": "a3-highgpu-8g", "gpu": "h100", "gpu_count": 8, "zones": ["us-central1-a"]}


def on_h100(*places: dict[str, Any], limit: float = 100.0) -> Plan:
    gpu = {"model": "h100", "count": 8, "counters": "all-users", "persistence": True}
    return planned(*places, limit=limit, unknown="allow", gpu=gpu, disks={"root": {"size_gb": 200}})


@pytest.mark.parametrize(
    ("cloud", "address", "parsed"),
    [
        ("aws", "s3://a-store", ("a-store", "")),
        ("aws", "s3://a-store/", ("a-store", "")),
        ("aws", "s3://a-store/x", ("a-store", "x/")),
        ("aws", "s3://a.store/fleets/of_t4/", ("a.store", "fleets/of_t4/")),
        ("gcp", "gs://a-store/x", ("a-store", "x/")),
    ],
)
def test_a_prefix_is_empty_or_ends_with_a_slash(cloud: str, address: str, parsed: tuple[str, str]) -> None:
    assert parsed_store(cloud, address) == parsed


@pytest.mark.parametrize(
    ("cloud", "address", "scheme"),
    [
        ("aws", "gs://a-store/x", "s3"),
        ("gcp", "s3://a-store/x", "gs"),
        ("digitalocean", "s3://a-store/x", "SCHEME"),
        ("aws", "a-store/x", "s3"),
        ("aws", "s3://a-store/../x", "s3"),
        ("aws", "s3://a-store/x y", "s3"),
        ("aws", "s3://s3", "s3"),  # too short for a bucket
        ("aws", " s3://a-store", "s3"),
        ("aws", "", "s3"),
    ],
)
def test_what_is_no_store_of_a_cloud_is_refused_and_the_hint_has_the_scheme_of_that_cloud(cloud: str, address: str, scheme: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed_store(cloud, address)
    assert repr(address) in caught.value.message
    assert f"{scheme}://BUCKET/PREFIX" in caught.value.hint


@pytest.mark.parametrize(
    ("store", "where"),
    [
        ("", ("aws", "us-east-1")),
        ("s3://a-store/x", ("aws", "us-east-1")),
        ("gs://a-store/x", ("gcp", "asia-east2")),
        ("gs://a-store/x://y", ("gcp", "asia-east2")),  # whoever reads the store says what is wrong with it
        ("ftp://a-store", ("aws", "us-east-1")),
        ("://gs", ("aws", "us-east-1")),
    ],
)
def test_a_fleet_is_at_the_first_place_whose_cloud_has_this_kind_of_store_and_else_at_the_first(store: str, where: tuple[str, str]) -> None:
    option = place_of(planned(ACTS, GCP_ACTS), store)
    assert (option.cloud, option.region) == where


@pytest.mark.parametrize("store", ["s3://a-store", "gs://a-store"])
def test_where_one_cloud_is_asked_for_no_store_leads_elsewhere(store: str) -> None:
    plan = planned(ACTS, GCP_ACTS)
    assert place_of(plan, store, "gcp").cloud == "gcp"
    assert place_of(plan, store, "aws").cloud == "aws"
    with pytest.raises(UsageError):
        place_of(plan, store, "digitalocean")


def test_a_place_over_the_limit_is_passed_over_and_so_is_a_cloud_without_fleets() -> None:
    turned = {**ACTS, "regions": ["ap-east-1", "us-east-1"]}
    assert place_of(planned(turned, limit=0.6), "s3://a-store").region == "us-east-1"
    assert place_of(planned(turned), "s3://a-store").region == "ap-east-1"
    for store, cloud in (("", "aws"), ("s3://a-store", "aws"), ("gs://a-store", "gcp")):
        assert place_of(on_h100(NO_FLEETS, P5, A3), store).cloud == cloud


def test_without_a_place_for_a_fleet_the_price_is_the_reason_or_the_cloud() -> None:
    with pytest.raises(PriceOverLimitError):
        place_of(planned(ACTS, limit=0.1), "s3://a-store")
    with pytest.raises(CloudUnsupportedError, match="fleets on digitalocean"):
        place_of(on_h100(NO_FLEETS), "s3://a-store")
    with pytest.raises(CloudUnsupportedError, match="fleets on digitalocean"):
        place_of(on_h100(NO_FLEETS, P5, limit=50.0), "s3://a-store")


def test_all_zones_of_a_region_are_one_place_of_a_fleet() -> None:
    assert place_of(planned(GCP_ACTS)).zones == ("asia-east2-a", "asia-east2-c")


@pytest.mark.parametrize(
    ("store", "cloud", "region"), [("s3://a-store/x/y", "aws", "us-east-1"), ("gs://a-store/x/y/", "gcp", "asia-east2")]
)
def test_the_policies_are_those_of_one_member_as_the_plan_has_it(
    store: str, cloud: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[FleetOrder, str]] = []
    policies = FleetPlan({"of": "caller"}, {"of": "member"}, "role", "rehearsed", "reach", {})

    def plan(order: FleetOrder, region: str) -> FleetPlan:
        asked.append((order, region))
        return policies

    monkeypatch.setattr(clouds.fleets(cloud), "plan", plan)
    made = replace(planned(ACTS, GCP_ACTS), name="mine")
    fleet = planned_fleet(made, store)
    first = next(place for place in made.places if place.cloud == cloud)
    member = draft_order(made.profile, made.profile_sha256, "mine", first)
    assert asked == [(FleetOrder(member, "a-store", "x/y/", ""), region)]
    assert (fleet.store, fleet.option.first, fleet.policies) == (store, first, policies)
    assert (member.name, member.count, member.tags["gpuprov:profile-digest"]) == ("mine", 1, made.profile_sha256)


def test_a_member_reads_bundles_and_posts_evidence_below_the_prefix_alone() -> None:
    policies = planned_fleet(planned(ACTS), "s3://a-store/x").policies
    text = json.dumps(policies.member)
    assert policies.role == "gpu-node"
    assert "arn:aws:s3:::a-store/x/bundles/*" in text
    assert "arn:aws:s3:::a-store/x/evidence/t4-train/${aws:userid}/*" in text
    assert planned_fleet(planned(GCP_ACTS), "gs://a-store").policies.role == NODE


@pytest.mark.parametrize(("place", "store"), [(AWS, "s3://a-store"), (GCP, "gs://a-store"), (ACTS, "gs://a-store")])
def test_without_an_identity_or_a_store_of_the_cloud_there_is_no_fleet(place: dict[str, Any], store: str) -> None:
    with pytest.raises(UsageError):
        planned_fleet(planned(place), store)

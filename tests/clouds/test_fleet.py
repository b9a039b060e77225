"""A member of a fleet, and a machine from a baked image, are what one machine of the place is: each request key by key."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from provision import clouds
from provision.clouds import base
from provision.clouds.aws import capacity as aws_capacity
from provision.clouds.aws import fleet_requests as aws_fleet
from provision.clouds.aws.image_choice import wanted
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.requests import run_instances
from provision.clouds.fleet import FleetOrder, newest
from provision.clouds.gcp import capacity as gcp_capacity
from provision.clouds.gcp import fleet_requests as gcp_fleet
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.requests import properties
from provision.errors import CloudUnsupportedError, GpuprovError
from provision.structs import replace
from tests.clouds.aws import orders as aws_orders
from tests.clouds.gcp import orders as gcp_orders

AWS_REGION, GCP_REGION = "ap-east-1", "asia-east1"
IMAGE = "ami-0123456789abcdef0"
ID, BLOCK = "cr-0123456789abcdef0", "cr-0fedcba9876543210"
BOOT = "disks.0.initialize_params.source_image"
KEYRING = "projects/isa-gpu/locations/asia-east1/keyRings/gpu/cryptoKeys/disks"
EMAIL = "gpu-node@isa-gpu.iam.gserviceaccount.com"
ROLE = {"identity": {"instance_profile": "gpu-node"}}
ACCOUNT = {"identity": {"service_account": EMAIL}}
SUBNET = {"subnet": "subnet-0123456789abcdef0", "public_address": False}

# What a place says, what the profile says beside it, and the sentence of the plan → the keys and values of the request that keep it.
Case = tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]
AWS: dict[str, Case] = {
    "plain": ({}, {"zone": "ap-east-1a"}, {"acts in": {"IamInstanceProfile.Name": "gpu-node"}}),
    "identity": ({"identity": {"instance_profile": "p", "role": "r"}}, {}, {"acts in": {"IamInstanceProfile.Name": "p"}}),
    "market": ({"market": "spot"}, {"market": "spot", "spot_limit_usd": 0.5}, {}),
    "reservation": (
        {"capacity": {"reservation": ID}},
        {},
        {ID: {"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId": ID}},
    ),
    "block": (
        {"capacity": {"block": BLOCK}},
        {},
        {
            BLOCK: {
                "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId": BLOCK,
                "InstanceMarketOptions.MarketType": "capacity-block",
            }
        },
    ),
    "placement_group": (
        {"capacity": {"placement_group": "close"}},
        {"zone": "ap-east-1a"},
        {"group close": {"Placement.GroupName": "close"}},
    ),
    "tenancy": ({"capacity": {"tenancy": "dedicated"}}, {"zone": "ap-east-1a"}, {"dedicated": {"Placement.Tenancy": "dedicated"}}),
    "efa": (
        {"instance_type": "g4dn.8xlarge", "capacity": {"efa": True}},
        {"instance_type": "g4dn.8xlarge"},
        {"Elastic Fabric": {"NetworkInterfaces.0.InterfaceType": "efa"}},
    ),
    "efa, many cards": (
        {"instance_type": "p4d.24xlarge", "capacity": {"efa": True}},
        {"instance_type": "p4d.24xlarge", **SUBNET},
        {"Elastic Fabric": {"NetworkInterfaces.3.InterfaceType": "efa-only"}},
    ),
    "disk_key": (
        {"disk_key": "alias/isa"},
        {"volume_gb": 50},
        {
            "alias/isa": {
                "BlockDeviceMappings.0.Ebs.KmsKeyId": "alias/isa",
                "BlockDeviceMappings.1.Ebs.KmsKeyId": "alias/isa",
            },
            "NVMe": {},
        },
    ),
    "image": ({"image": {"id": IMAGE, "login": "ada"}}, {}, {IMAGE: {"ImageId": IMAGE}, "snapshot_key": {}}),
    "baked_image": ({"baked_image": "required"}, {}, {"baked": {}}),
    "private": ({}, SUBNET, {}),
}
GCP: dict[str, Case] = {
    "plain": ({}, {}, {"acts in": {"service_accounts.0.email": EMAIL}}),
    "identity": ({"identity": {"service_account": f"other-{EMAIL}"}}, {}, {"acts in": {"service_accounts.0.email": f"other-{EMAIL}"}}),
    "market": ({"market": "spot"}, {"market": "spot"}, {}),
    "reservation": (
        {"capacity": {"reservation": "ours"}, "zones": ["asia-east1-a"]},
        {},
        {"reservation ours": {"reservation_affinity.values.0": "ours"}},
    ),
    "placement_policy": (
        {"capacity": {"placement_policy": "close"}},
        {},
        {"policy close": {"resource_policies.0": "regions/asia-east1/resourcePolicies/close"}},
    ),
    "disk_key": (
        {"disk_key": KEYRING},
        {"volume_gb": 50},
        {
            KEYRING: {"disks.0.disk_encryption_key.kms_key_name": KEYRING, "disks.1.disk_encryption_key.kms_key_name": KEYRING},
            "SSD": {},
        },
    ),
    "image": (
        {"image": {"family": "isa", "project": "isa-images", "login": "ada"}},
        {},
        {"isa-images/isa": {BOOT: "projects/isa-images/global/images/family/isa"}},
    ),
    "baked_image": ({"baked_image": "required"}, {}, {"baked": {}}),
    "gpu": ({"gpu": "v100", "gpu_count": 2}, {"gpu": "v100", "gpu_count": 2}, {}),
    "local SSD": ({}, {"instance_store": True, "secure_boot": True}, {}),
    "private": ({}, {"subnet": "inner", "public_address": False}, {}),
}
# Keys of places that say where, and not what.
WHERE = {"cloud", "instance_type", "regions", "zones", "gpu_count"}
REFUSED = {"os_login"}
"""Options that a fleet cannot keep: its plan refuses them."""


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Each leaf of a request by its path; rows that have a `key` by that."""
    if isinstance(value, dict):
        return {at: leaf for name, each in value.items() for at, leaf in flat(each, f"{path}.{name}" if path else name).items()}
    if isinstance(value, list) and value and all(isinstance(each, dict) and set(each) == {"key", "value"} for each in value):
        return {f"{path.removesuffix('.items')}.{each['key']}": each["value"] for each in value}
    if isinstance(value, list):
        return {at: leaf for number, each in enumerate(value) for at, leaf in flat(each, f"{path}.{number}").items()}
    return {path: value}


def aws_order(said: dict[str, Any], more: dict[str, Any]) -> base.Order:
    given = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": [AWS_REGION], **ROLE, **said}
    return aws_orders.order(place=AwsPlace.model_validate(given), **more)


def gcp_order(said: dict[str, Any], more: dict[str, Any]) -> base.Order:
    given = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east1-a", "asia-east1-c"], **ACCOUNT, **said}
    return gcp_orders.order(place=GcpPlace.model_validate(given), zone="", **more)


def aws_pair(order: base.Order) -> tuple[dict[str, Any], dict[str, Any]]:
    member = aws_fleet.template_data(fleet_of(order), AWS_REGION, image=wanted(order).id or "ami-1", root="", group="sg-1", endpoint=None)
    target = aws_fleet.reservation(fleet_of(order)).get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    for one in target.get("CapacityReservationIds", ()):  # of the group, which launches with it
        member["CapacityReservationSpecification"] = {"CapacityReservationTarget": {"CapacityReservationId": one}}
    return run_instances(order, AWS_REGION, "sg-1"), member


def gcp_pair(order: base.Order) -> tuple[dict[str, Any], dict[str, Any]]:
    return properties(order, GCP_REGION), gcp_fleet.template(fleet_of(order), GCP_REGION, None)["properties"]


def fleet_of(order: base.Order) -> FleetOrder:
    return FleetOrder(order, "a-bucket", "x/", "0" * 64)


Pair = Callable[[base.Order], tuple[dict[str, Any], dict[str, Any]]]
CLOUDS: dict[str, tuple[dict[str, Case], Callable[..., base.Order], Pair, str]] = {
    "aws": (AWS, aws_order, aws_pair, AWS_REGION),
    "gcp": (GCP, gcp_order, gcp_pair, GCP_REGION),
}
CASES = [(cloud, name) for cloud, (cases, *_) in CLOUDS.items() for name in cases]


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    first, second = flat(one), flat(other)
    return {path for path in {*first, *second} if first.get(path) != second.get(path) or (path in first) != (path in second)}


@pytest.mark.parametrize(("cloud", "name"), CASES)
def test_a_member_differs_from_one_machine_in_nothing_but_what_the_review_says(cloud: str, name: str) -> None:
    cases, an_order, pair, region = CLOUDS[cloud]
    said, more, promises = cases[name]
    order = an_order(said, more)
    alone, member = pair(order)
    told = clouds.fleets(cloud).plan(fleet_of(order), region).differs
    assert all(told.values()), "each has a reason"
    assert differing(alone, member) <= set(told)
    leaves = flat(member)
    options = clouds.provider(cloud).cloud_options(order.place)
    for option in options:
        kept = [keys for words, keys in promises.items() if words in option.summary]
        assert kept or option.key == "identity", f"which key of the request keeps {option.summary!r}?"
        for path, value in (pair for keys in kept for pair in keys.items()):
            assert leaves.get(path) == value, option.summary
    for words in promises:
        assert any(words in option.summary for option in options), f"nobody says {words!r}"


@pytest.mark.parametrize(("cloud", "name"), CASES)
def test_a_baked_image_changes_the_image_alone(cloud: str, name: str) -> None:
    cases, an_order, pair, _ = CLOUDS[cloud]
    said, more, _ = cases[name]
    order = an_order(said, more)
    alone, member = pair(order)
    for before, after in zip((alone, member), pair(replace(order, baked=IMAGE)), strict=True):
        of_image = {BOOT, "ImageId", "metadata.gpuprov-tags", "ClientToken", "labels.gpuprov-attempt"}
        changed = {path for path in differing(before, after) if not path.startswith("TagSpecifications.")}
        assert {re.sub(r"^disks\.\d\.initialize_params\.labels", "labels", path) for path in changed} <= of_image


def test_every_option_of_a_place_is_compared_or_refused() -> None:
    """Whoever adds an option says here what of it is in a request."""
    for place, capacity, cases in ((AwsPlace, aws_capacity.AwsCapacity, AWS), (GcpPlace, gcp_capacity.GcpCapacity, GCP)):
        said: set[str] = {key for given, *_ in cases.values() for key in given}
        assert said | WHERE | REFUSED >= set(place.model_fields)
        assert {key for given, *_ in cases.values() for key in given.get("capacity", {})} == set(capacity.model_fields)


def test_what_a_fleet_cannot_keep_its_plan_refuses() -> None:
    with pytest.raises(GpuprovError, match="OS Login"):
        clouds.fleets("gcp").plan(fleet_of(gcp_order({"os_login": True}, {})), GCP_REGION)
    with pytest.raises(CloudUnsupportedError):
        clouds.fleets("digitalocean")
    assert not clouds.provider("digitalocean").place.model_fields.keys() & {"baked_image", "capacity"}


def test_of_what_members_posted_the_newest_of_each_is_read_within_bounds() -> None:
    listed = [(f"{member}/d/{number:02}", f"2026-11-{number:02}", 8 << 20) for member in ("m1", "m2") for number in range(1, 21)]
    assert newest(listed[:3]) == ["m1/d/01", "m1/d/02", "m1/d/03"]
    assert newest(listed) == [f"{member}/d/{number:02}" for member in ("m1", "m2") for number in range(13, 21)]
    many = [(f"m{number}/d/1", "2026-11-01", 8 << 20) for number in range(100)]
    assert len(newest(many)) == 16
    assert newest([*many, ("z/d/1", "2026-11-01", 0)])[-1] == "z/d/1"
    assert newest([]) == []

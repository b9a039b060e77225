"""What the clouds of a plan must allow: which actions, and for which names, regions, types and places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provision import clouds
from provision.clouds.terms import Grant
from provision.launch.permissions import PlannedPermissions, grant, planned_permissions
from provision.launch.plan import Plan, draft_order
from provision.structs import replace
from tests.launch.test_plan import AWS, GCP, planned

HERE: dict[str, Any] = {**AWS, "regions": ["us-east-1"]}
SPOT: dict[str, Any] = {**AWS, "market": "spot", "instance_type": "g4dn.2xlarge", "regions": ["ap-east-1"]}
SUBNET = "subnet-0123456789abcdef0"
PRIVATE = {"ssh_from": ["10.0.0.0/8"], "address": "private", "subnet": SUBNET, "jump": "bastion"}
CANCEL = "ec2:CancelSpotInstanceRequests"


def permissions(made: Plan, name: str = "mine") -> tuple[PlannedPermissions, ...]:
    orders = [draft_order(made.profile, made.profile_sha256, name, place) for place in made.places]
    return tuple(planned_permissions(made.profile, name, made.places, orders))


def granted(made: Plan) -> Grant:
    return grant(made.profile, "mine", made.places)


def test_a_grant_has_each_region_type_and_place_once_and_the_regions_in_the_profile_s_order() -> None:
    made = planned(SPOT, AWS, unknown="allow")
    spot, plain = made.profile.places
    assert granted(made) == Grant(
        name="mine",
        regions=("ap-east-1", "us-east-1"),
        instance_types=("g4dn.2xlarge", "g4dn.xlarge"),
        spot=True,
        subnet="",
        places=(spot, plain),
        os=("ubuntu", "24.04"),
    )


@pytest.mark.parametrize(("places", "spot"), [([AWS], False), ([SPOT], True), ([AWS, SPOT], True), ([SPOT, AWS], True)])
def test_spot_requests_are_granted_where_any_place_is_spot(places: list[dict[str, Any]], *, spot: bool) -> None:
    made = planned(*places, unknown="allow")
    assert granted(made).spot is spot
    (aws,) = permissions(made)
    assert (CANCEL in aws.actions) is spot
    assert (CANCEL in json.dumps(aws.document)) is spot


def test_a_launch_in_a_subnet_of_the_user_s_is_granted_that_subnet() -> None:
    made = planned(HERE, network=PRIVATE)
    assert granted(made).subnet == SUBNET
    assert f"subnet/{SUBNET}" in json.dumps(permissions(made)[0].document)


def test_each_cloud_is_asked_once_in_the_profile_s_order_and_about_its_own_places_alone() -> None:
    aws, gcp = permissions(planned(AWS, GCP, SPOT, unknown="allow"))
    assert (aws.cloud, gcp.cloud) == ("aws", "gcp")
    assert [each.cloud for each in permissions(planned(GCP, AWS))] == ["gcp", "aws"]
    assert all(":" in action for action in aws.actions)
    assert not any(":" in action for action in gcp.actions)
    assert (aws, gcp) == (*permissions(planned(AWS, SPOT, unknown="allow")), *permissions(planned(GCP)))


def test_the_actions_are_those_of_every_order_each_once_and_sorted() -> None:
    made = planned(AWS, SPOT, unknown="allow")
    orders = [draft_order(made.profile, made.profile_sha256, "mine", place) for place in made.places]
    wanted = {action for order in orders for action in clouds.provider("aws").permissions(order)}
    assert permissions(made)[0].actions == tuple(sorted(wanted))


def test_a_way_in_adds_its_own_permissions() -> None:
    (without,), (through,) = permissions(planned(GCP)), permissions(planned(GCP, network={"via": "iap"}))
    assert set(through.actions) - set(without.actions) == {"iap.tunnelInstances.accessViaIAP"}
    assert through.actions == tuple(sorted(through.actions))


def test_the_document_is_the_smallest_for_these_places_and_this_name() -> None:
    made = planned(HERE, SPOT, GCP, unknown="allow")
    here, spot, _ = made.profile.places
    regions, types = ("us-east-1", "ap-east-1"), ("g4dn.2xlarge", "g4dn.xlarge")
    own = Grant("mine", regions, types, spot=True, places=(here, spot), os=("ubuntu", "24.04"))
    aws, gcp = permissions(made)
    assert (aws.document, aws.note) == clouds.provider("aws").policy(own)
    assert (gcp.document, bool(gcp.note)) == (None, True)
    other = permissions(made, "other")[0].document
    assert json.dumps(other) == json.dumps(aws.document).replace('"mine', '"other')


def test_places_without_an_order_of_their_own_are_an_error() -> None:
    made = planned(AWS)
    orders = [draft_order(made.profile, made.profile_sha256, "mine", place) for place in made.places]
    for places, drafts in ((made.places, orders[:1]), (made.places[:1], orders)):
        with pytest.raises(ValueError, match="argument"):
            list(planned_permissions(made.profile, "mine", places, drafts))


def test_a_profile_without_places_asks_for_nothing() -> None:
    made = planned(AWS)
    none = made.profile.model_copy(update={"places": []})
    assert list(planned_permissions(none, "mine", (), ())) == []
    assert granted(replace(made, places=())).regions == ()

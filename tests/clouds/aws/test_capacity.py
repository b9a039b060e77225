"""What a place on AWS may say about its capacity, what the request says then, and what a reader is told."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pydantic import ValidationError

from provision.clouds import base
from provision.clouds.aws import data, provider
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.requests import run_instances
from provision.clouds.terms import RefusalKind
from provision.structs import replace
from tests.clouds.aws.orders import order

ID = "cr-0123456789abcdef0"


def place(
    instance_type: str = "g4dn.xlarge", *, market: str = "on-demand", regions: tuple[str, ...] = ("us-east-1",), **capacity: Any
) -> AwsPlace:
    plain = {"cloud": "aws", "instance_type": instance_type, "regions": regions, "market": market, "capacity": capacity or None}
    return AwsPlace.model_validate(plain)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"reservation": ID, "block": ID}, "not both"),
        ({"tenancy": "default"}, "says nothing"),
        ({"reservation": ID, "regions": ("us-east-1", "us-east-2")}, "belong to one region"),
        ({"placement_group": "a", "regions": ("us-east-1", "us-east-2")}, "belong to one region"),
        ({"reservation": ID, "market": "spot"}, "one way of paying"),
        ({"reservation": "cr-1; reboot"}, "should match pattern"),
        ({"placement_group": "-x"}, "should match pattern"),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        place(**said)


def test_a_place_without_it_is_dumped_as_before_it_existed() -> None:
    assert "capacity" not in place().model_dump(mode="json")
    assert place(block=ID).model_dump(mode="json")["capacity"]["block"] == ID


def test_the_request_names_the_reservation_the_group_and_the_hardware() -> None:
    request = run_instances(order(place=place(reservation=ID, placement_group="a", tenancy="dedicated"), zone="us-east-1a"), "us-east-1")
    assert request["CapacityReservationSpecification"] == {"CapacityReservationTarget": {"CapacityReservationId": ID}}
    assert request["Placement"] == {"AvailabilityZone": "us-east-1a", "GroupName": "a", "Tenancy": "dedicated"}
    assert "InstanceMarketOptions" not in request
    assert run_instances(order(place=place(block=ID)), "us-east-1")["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert "Placement" not in run_instances(order(place=place(block=ID)), "us-east-1")


def test_a_machine_with_several_adapters_has_a_card_for_each_and_no_public_address() -> None:
    many = place("p4d.24xlarge", efa=True)
    cards = run_instances(order(place=many, public_address=False, subnet="subnet-0123456789abcdef0"), "us-east-1", "sg-1")[
        "NetworkInterfaces"
    ]
    assert [(card.get("NetworkCardIndex"), card["DeviceIndex"], card["InterfaceType"]) for card in cards] == [
        (None, 0, "efa"),
        (1, 1, "efa-only"),
        (2, 1, "efa-only"),
        (3, 1, "efa-only"),
    ]
    assert {tuple(card["Groups"]) for card in cards} == {("sg-1",)}
    assert not any("AssociatePublicIpAddress" in card for card in cards)
    assert many.private_only
    assert place("g4dn.8xlarge", efa=True).private_only == ""
    (card,) = run_instances(order(place=place("g4dn.8xlarge", efa=True)), "us-east-1", "sg-1")["NetworkInterfaces"]
    assert (card["InterfaceType"], card["AssociatePublicIpAddress"]) == ("efa", True)


def test_where_the_first_card_can_have_no_adapter_it_is_an_ordinary_one() -> None:
    b300 = place("p6-b300.48xlarge", efa=True)
    cards = run_instances(order(place=b300, public_address=False), "us-east-1", "sg-1")["NetworkInterfaces"]
    assert [(card.get("NetworkCardIndex", 0), card["DeviceIndex"], card.get("InterfaceType", "interface")) for card in cards] == [
        (0, 0, "interface"),
        *((index, 0, "efa-only") for index in range(1, 17)),
    ]
    assert b300.private_only


def test_a_type_without_an_adapter_is_refused_with_efa() -> None:
    refusal = provider.refusal(place(efa=True), "us-east-1", "t4", 1)
    assert refusal is not None
    assert refusal.kind is RefusalKind.UNSUPPORTED
    assert provider.refusal(place("g4dn.8xlarge", efa=True), "us-east-1", "t4", 1) is None


def test_a_reader_is_told_of_each_and_no_limit_holds_what_has_no_list_price() -> None:
    def told(**capacity: Any) -> list[tuple[str | None, bool, bool]]:
        options = provider.cloud_options(place("g4dn.8xlarge", **capacity))
        assert all(option.summary and (option.severity is None or (option.title and option.reason)) for option in options)
        return [(option.severity, option.safer, bool(option.unpriced)) for option in options]

    assert told() == []
    assert told(reservation=ID) == [("note", False, False)]
    assert told(block=ID) == [("note", False, True)]
    assert told(tenancy="dedicated", placement_group="a") == [(None, False, False), (None, True, True)]
    assert told(efa=True) == [("low", False, False)]


@pytest.mark.parametrize("instance_type", ["p6-b300.48xlarge", "p5.48xlarge", "p4d.24xlarge", "g6e.48xlarge", "g6.8xlarge"])
def test_ec2_takes_the_cards_of_each_layout(access: AwsAccess, instance_type: str) -> None:
    """The embedded EC2 has the cards of DescribeInstanceTypes."""
    (region, *_) = data.types()[instance_type].offered
    cloud, name = AwsCloud(region, access), f"c{uuid.uuid4().hex[:8]}"
    wanted = place(instance_type, efa=True, regions=(region,))
    tags = {base.NAME_TAG: name, base.LAUNCH_TAG: uuid.uuid4().hex[:16]}
    asked = replace(
        order(instance_type=instance_type, place=wanted, public_address=not wanted.private_only, tags=tags),
        name=name,
        launch_id=tags[base.LAUNCH_TAG],
    )
    assert cloud.launch(asked)
    cloud.remove(cloud.things(name), on_step=lambda _: None)

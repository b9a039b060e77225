"""What one machine of a profile costs with all that is billed with it, and what is not known of it."""

from __future__ import annotations

from typing import Any

import pytest

from provision import clouds
from provision.clouds.terms import Price, PricePart, RefusalKind
from provision.launch.plan import draft_order
from provision.launch.price import extras, whole_price
from provision.profile import load
from provision.profile.model import Profile
from tests.launch.test_plan import AWS, GCP, planned

T4 = load.load(load.find("t4-train"))


def profile(**changes: Any) -> Profile:
    return Profile.model_validate(T4.dump() | changes)


def items(made: Profile, number: int = 0) -> dict[str, float]:
    """Part → US dollars an hour, at the first location of a place."""
    place = made.places[number]
    price = whole_price(made, place, place.region_of(place.locations[0]))
    assert price is not None
    assert price.whole
    return {part.item: part.usd_per_hour for part in price.parts}


def test_a_machine_is_billed_with_its_disk_and_its_address() -> None:
    assert items(profile()) == {"machine": 0.81, "200 GB of gp3": round(200 * 0.1056 / 730, 6), "public IPv4 address": 0.005}


def test_a_volume_is_billed_with_the_root_disk_and_a_private_machine_has_no_address() -> None:
    volume = {"root": {"size_gb": 100}, "data": {"source": "volume", "size_gb": 500, "mount": "/data"}}
    private = {"ssh_from": ["10.0.0.0/8"], "address": "private", "subnet": "subnet-0123456789abcdef0", "jump": "bastion"}
    made = profile(disks=volume, network=private, places=[{**AWS, "regions": ["us-east-1"]}])
    assert items(made) == {"machine": 0.526, "600 GB of gp3": round(600 * 0.08 / 730, 6)}


def test_a_local_disk_that_is_attached_is_billed_and_one_inside_the_machine_is_not() -> None:
    made = profile(places=[GCP])
    assert items(made)["375 GB of local SSD"] == round(375 * 0.088 / 730, 6)
    without = profile(places=[GCP], disks={"root": {"size_gb": 200}})
    assert not any("local" in item for item in items(without))
    assert not any("local" in item for item in items(profile(places=[AWS])))


def test_a_machine_whose_disks_have_no_known_price_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed: the machine and its address are within the limit, and nobody knows about its disks."""
    address = Price((PricePart("public IPv4 address", 0.005, "aws-ipv4"),), missing=("disks",))
    monkeypatch.setattr(clouds.provider("aws"), "extras_price", lambda *_: address)
    refusal = planned(AWS).places[0].refusal
    assert refusal is not None
    assert refusal.kind is RefusalKind.PRICE_UNKNOWN
    assert refusal.message == "the price of its disks is not in the catalog, so the limit cannot be kept"
    assert planned(AWS, unknown="allow").places[0].refusal is None


def test_a_machine_without_a_price_is_not_priced_by_its_disks() -> None:
    unknown = T4.places[0].model_copy(update={"instance_type": "p9.96xlarge"})
    assert whole_price(T4, unknown, "us-east-1") is None


SHIPPED = [entry.name for entry in load.list_profiles() if entry.name != "workstation"]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_can_be_launched_within_its_limit(name: str) -> None:
    """At least one place of each is left, unless no price of its machines is known at all."""
    made = load.load(load.find(name))
    whole = {location: whole_price(made, place, place.region_of(location)) for place in made.places for location in place.locations}
    within = [price for price in whole.values() if price and price.whole and price.usd_per_hour <= made.limits.price_per_hour_usd]
    assert within or set(whole.values()) == {None}


def test_what_is_billed_is_read_from_the_profile() -> None:
    assert (extras(T4).network_gb, extras(T4).local_disk, extras(T4).public_address) == (200, True, True)


def test_a_spot_machine_may_cost_what_its_disks_and_its_address_leave_of_the_limit() -> None:
    here = {**AWS, "regions": ["us-east-1"]}
    made = planned({**here, "market": "spot"}, here, limit=1.0, unknown="allow")
    spot, plain = (draft_order(made.profile, made.profile_sha256, made.name, place) for place in made.places)
    assert spot.spot_limit_usd == round(1.0 - 200 * 0.08 / 730 - 0.005, 4)
    assert plain.spot_limit_usd is None

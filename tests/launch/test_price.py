"""What one machine of a profile costs with all that is billed with it, and what is not known of it."""

from __future__ import annotations

from typing import Any

import pytest

from provision import clouds
from provision.clouds.terms import Extras, Price, PricePart, RefusalKind
from provision.launch.plan import draft_order
from provision.launch.price import cheapest_first, extras, order_in_words, priced, spot_limit, whole_price
from provision.profile import load
from provision.profile.model import Profile
from tests.launch.test_plan import AWS, GCP, planned

T4 = load.load(load.find("t4-train"))
AWS_HERE = {**AWS, "regions": ["us-east-1"]}
SPOT = {**AWS_HERE, "market": "spot"}
VOLUME = {"root": {"size_gb": 100}, "data": {"source": "volume", "size_gb": 500, "mount": "/data"}}
PRIVATE = {"ssh_from": ["10.0.0.0/8"], "address": "private", "subnet": "subnet-0123456789abcdef0", "jump": "bastion"}
WITH_T4 = Extras(200, local_disk=True, public_address=True, volume_gb=0)


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
    made = profile(disks=VOLUME, network=PRIVATE, places=[AWS_HERE])
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


@pytest.mark.parametrize(
    ("changes", "billed"),
    [
        ({}, WITH_T4),
        ({"disks": {"root": {"size_gb": 150}}}, Extras(150, local_disk=False, public_address=True, volume_gb=0)),
        ({"disks": VOLUME}, Extras(600, local_disk=False, public_address=True, volume_gb=500)),
        ({"network": PRIVATE, "places": [AWS_HERE]}, Extras(200, local_disk=True, public_address=False, volume_gb=0)),
    ],
)
def test_what_is_billed_is_read_from_the_profile(changes: dict[str, Any], billed: Extras) -> None:
    assert extras(profile(**changes)) == billed


def test_a_spot_machine_may_cost_what_its_disks_and_its_address_leave_of_the_limit() -> None:
    made = planned(SPOT, AWS_HERE, limit=1.0, unknown="allow")
    spot, plain = (draft_order(made.profile, made.profile_sha256, made.name, place) for place in made.places)
    assert spot.spot_limit_usd == round(1.0 - 200 * 0.08 / 730 - 0.005, 4)
    assert plain.spot_limit_usd is None


# --- what is asked of a cloud's prices ----------------------------------------------------------------------------------


MACHINE = Price((PricePart("machine", 0.5, "list"),))
LAST_HOUR = Price((PricePart("spot machine", 0.2, "asked"),), missing=("next hours",))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloud that has one price for exactly one question of each kind; its disks and address cost 0.123456 USD."""
    tables: dict[str, dict[tuple[Any, ...], Price]] = {
        "price": {("g4dn.xlarge", "us-east-1", "t4", 1): MACHINE},
        "spot_price": {("g4dn.xlarge", "us-east-1"): LAST_HOUR},
        "extras_price": {("g4dn.xlarge", "us-east-1", WITH_T4): Price((PricePart("disk and address", 0.123456, "list"),))},
    }
    nothing = {"price": None, "spot_price": None, "extras_price": Price((), missing=("disks",))}
    for name, table in tables.items():
        monkeypatch.setattr(clouds.provider("aws"), name, lambda *asked, table=table, none=nothing[name]: table.get(asked, none))


def parts(price: Price | None) -> tuple[list[str], tuple[str, ...]] | None:
    return ([part.item for part in price.parts], price.missing) if price else None


@pytest.mark.usefixtures("listed")
def test_a_machine_is_asked_for_by_type_region_and_gpus_and_what_is_billed_with_it_by_type_and_region() -> None:
    plain, spot = profile(places=[AWS_HERE, SPOT]).places
    assert parts(whole_price(T4, plain, "us-east-1")) == (["machine", "disk and address"], ())
    assert parts(whole_price(T4, spot, "us-east-1")) == (["spot machine", "disk and address"], ("next hours",))
    for place in (plain, spot):
        assert whole_price(T4, place, "ap-east-1") is None
        assert whole_price(T4, place.model_copy(update={"instance_type": "g4dn.2xlarge"}), "us-east-1") is None
    assert priced(T4, "aws", "g4dn.xlarge", "us-east-1", ("t4", 1)) == whole_price(T4, plain, "us-east-1")
    assert priced(T4, "aws", "g4dn.xlarge", "us-east-1", ("t4", 2)) is None


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(("limit", "left"), [(0.5, 0.3765), (0.1236, 0.0001), (0.123456, 0.0), (0.1, 0.0)])
def test_the_limit_of_spot_is_what_is_left_to_four_digits_and_never_less_than_nothing(limit: float, left: float) -> None:
    made = profile(places=[AWS_HERE, SPOT], limits={**T4.dump()["limits"], "price_per_hour_usd": limit})
    plain, spot = made.places
    assert spot_limit(made, spot, "us-east-1") == left
    assert spot_limit(made, plain, "us-east-1") is None


# --- places by price ----------------------------------------------------------------------------------------------------


def test_places_stand_by_price_and_those_of_one_price_as_the_profile_has_them() -> None:
    made = planned(
        SPOT, {**GCP, "zones": ["asia-east2-c", "asia-east2-a"]}, {**AWS, "regions": ["ap-east-1", "us-east-1"]}, unknown="allow"
    )
    assert [place.location for place in made.places] == ["us-east-1", "asia-east2-c", "asia-east2-a", "ap-east-1", "us-east-1"]
    ordered = cheapest_first(made.places)
    assert ordered == (*made.places[:2:-1], *made.places[1:3], made.places[0])
    assert [place.whole_price_usd for place in ordered] == [0.552918, 0.843932, 0.96203, 0.96203, None]
    assert cheapest_first(reversed(made.places)) == (*made.places[:2:-1], *made.places[2:0:-1], made.places[0])


def test_the_order_in_words_has_each_region_once_with_its_price() -> None:
    *known, unknown = order_in_words(cheapest_first(planned(SPOT, GCP, AWS, unknown="allow").places)).split(", ")
    assert known == ["us-east-1 0.553", "ap-east-1 0.844", "asia-east2 0.962"]
    assert unknown.startswith("us-east-1 ")
    assert not any(character.isdigit() for character in unknown.removeprefix("us-east-1"))

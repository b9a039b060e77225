"""What a machine has cost, and what it will cost until its deadline."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds.terms import Price, PricePart
from provision.launch import cost
from provision.launch.journal import Machine, Pending, Record
from provision.profile import load
from provision.profile.model import Profile
from tests.launch.memory import machine

T4 = load.load(load.find("t4-train"))
NOW = dt.datetime(2026, 11, 21, 2, 30, tzinfo=dt.UTC)
PRICE = Price((PricePart("machine", 0.5, "source"), PricePart("disk", 0.1, "source")))
N1: dict[str, Any] = {"cloud": "gcp", "type": "n1-standard-8", "region": "asia-east2", "zone": "asia-east2-a"}


def usd(price: Price | None) -> float | None:
    return price.usd_per_hour if price else None


@pytest.mark.parametrize(
    ("changes", "dollars"),
    [
        ({}, 0.552918),
        ({"region": "ap-east-1"}, 0.843932),
        ({"market": "spot"}, None),
        ({"cloud": "azure"}, None),
        ({"type": "nosuch.large"}, None),
        (N1, 0.96203),
        # The GPUs of an N1 machine are those of the profile's place for it; without one there is nothing to price.
        ({**N1, "region": "asia-east1"}, None),
        ({**N1, "type": "n1-standard-4"}, None),
    ],
)
def test_the_price_is_that_of_the_machine_s_place(changes: dict[str, Any], dollars: float | None) -> None:
    assert usd(cost.hourly(machine(**changes), T4)) == dollars


def test_without_a_profile_the_machine_type_alone_tells_the_price() -> None:
    assert usd(cost.hourly(machine(), None)) == 0.526
    assert cost.hourly(machine(**N1), None) is None


def test_of_places_that_name_the_same_type_the_first_in_that_region_counts() -> None:
    place = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east2-a"]}
    places = [{**place, "gpu_count": 1, "zones": ["asia-east1-a"]}, {**place, "gpu_count": 2}, {**place, "gpu_count": 1}]
    profile = Profile.model_validate({**T4.dump(), "places": places})
    assert usd(cost.hourly(machine(**N1), profile)) == round(0.96203 + 0.35, 6)


def record(*where: tuple[str, str], places: list[dict[str, Any]] | None = None, **changes: Any) -> Record:
    """A launch with a machine at each cloud and region."""
    profile = Profile.model_validate({**T4.dump(), "places": places or T4.dump()["places"]})
    machines = tuple(Machine(f"train-{n}", f"i-{n}", *pair) for n, pair in enumerate(where))
    plain: dict[str, Any] = {"rehearsal": False, "profile": profile.dump(), "profile_digest": "0" * 64, "created_at": "", "deadline": ""}
    return Record("train", "f00d", machines=machines, **{**plain, **changes})


def attempt(place: int, region: str, count: int = 1) -> Pending:
    return Pending(place, region, "", 1, count, 1)


HK, SG, GCP_HK = ("aws", "ap-east-1"), ("aws", "ap-southeast-1"), ("gcp", "asia-east2")
N1_PLACE: dict[str, Any] = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": ["asia-east2-a"]}
TWICE = [{**N1_PLACE, "zones": ["asia-east1-a"]}, N1_PLACE, {**N1_PLACE, "gpu_count": 2}]


@pytest.mark.parametrize(
    ("launch", "dollars"),
    [
        (record(HK), 0.843932),
        (record(HK, HK, SG), 0.843932 * 2 + 0.767301),
        (record(GCP_HK), 0.96203),
        (record(HK, GCP_HK), 0.843932 + 0.96203),
        (record(HK, ("aws", "eu-west-1")), None),  # a part of the sum is not the sum
        (record(("aws", "asia-east2")), None),
        (record(), None),
        (record(pending=attempt(0, "ap-east-1", 3)), 0.843932 * 3),
        (record(pending=attempt(1, "asia-east2")), 0.96203),
        (record(SG, pending=attempt(0, "ap-east-1", 3)), 0.767301),
        (record(HK, places=[{**T4.dump()["places"][0], "market": "spot"}]), None),
        (record(GCP_HK, places=TWICE), 0.96203),
        (record(GCP_HK, places=TWICE, had=(attempt(2, "asia-east2"),)), 0.96203 + 0.35),
        (record(places=TWICE, pending=attempt(2, "asia-east2")), 0.96203 + 0.35),
        (record(GCP_HK, places=TWICE, had=(attempt(0, "asia-east1"),)), 0.96203),
        (record(HK, places=[{**T4.dump()["places"][0], "instance_type": "nosuch.large"}]), None),
    ],
)
def test_a_launch_costs_the_sum_of_its_machines_at_the_places_that_were_tried(launch: Record, dollars: float | None) -> None:
    assert cost.hourly_of(launch) == (dollars and pytest.approx(dollars))


def test_the_time_since_the_launch_costs_the_sum_of_all_parts() -> None:
    assert cost.since(machine(), PRICE, NOW) == 1.5
    assert cost.since(machine(launched_at="2026-11-21T02:30:00+00:00"), PRICE, NOW) == 0.0
    assert cost.since(machine(launched_at="2026-11-21T03:30:00+00:00"), PRICE, NOW) == 0.0  # clocks differ
    assert cost.since(machine(launched_at="2026-11-21T02:29:10+00:00"), PRICE, NOW) == 0.01
    big = Price((PricePart("machine", 3600.0, "source"),))
    assert cost.since(machine(), big, NOW) == 9000.0
    assert cost.since(machine(launched_at="2026-11-21T04:30:00+00:00"), big, NOW) == cost.until(big, NOW, NOW) == 0.0


@pytest.mark.parametrize(("launched", "price"), [("", PRICE), ("yesterday", PRICE), ("2026-11-21T00:00:00+00:00", None)])
def test_what_is_not_known_costs_none_and_not_nothing(launched: str, price: Price | None) -> None:
    assert cost.since(machine(launched_at=launched), price, NOW) is None


def test_the_time_until_the_deadline_costs_the_sum_of_all_parts() -> None:
    assert cost.until(PRICE, NOW + dt.timedelta(hours=12), NOW) == 7.2
    assert cost.until(PRICE, NOW + dt.timedelta(minutes=1), NOW) == 0.01
    assert cost.until(PRICE, NOW + dt.timedelta(seconds=1), NOW) == 0.0
    assert cost.until(PRICE, NOW + dt.timedelta(seconds=50), NOW) == 0.01
    assert cost.until(PRICE, NOW + dt.timedelta(hours=36_000), NOW) == 21_600
    assert cost.until(PRICE, NOW - dt.timedelta(hours=1), NOW) == 0.0
    assert cost.until(None, NOW, NOW) is None


@pytest.mark.parametrize(("deadline", "dollars"), [("2026-11-21T12:30:00+00:00", 6.0), ("2026-11-21T02:00:00+00:00", 0.0), ("", None)])
def test_what_is_left_to_pay_ends_with_the_machine(deadline: str, dollars: float | None) -> None:
    assert cost.until_end(machine(deadline=deadline), PRICE, NOW) == dollars
    assert cost.until_end(machine(deadline=deadline), None, NOW) is None

"""What a machine has cost, and what it will cost until its deadline."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds.terms import Price, PricePart
from provision.launch import cost
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
        ({}, 0.526),
        ({"region": "ap-east-1"}, 0.81),
        ({"market": "spot"}, None),
        ({"cloud": "azure"}, None),
        ({"type": "nosuch.large"}, None),
        (N1, 0.881688),
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
    assert usd(cost.hourly(machine(**N1), profile)) == round(0.881688 + 0.35, 6)


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

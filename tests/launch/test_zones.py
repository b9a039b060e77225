"""The order of attempts, without a cloud: which places are one attempt, and which zones are tried when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import (
    CapacityError,
    CloudInvalidError,
    CloudUnsupportedError,
    PriceOverLimitError,
    PriceUnknownError,
    QuotaExceededError,
    UsageError,
)
from provision.launch import place
from provision.launch.place import Attempt, Option
from provision.launch.plan import Plan
from tests.launch.test_plan import AWS, GCP, planned

ZONES = ["asia-east2-a", "asia-east2-c"]


def option(*places: dict[str, Any], **more: Any) -> Option:
    return place.options(planned(*places, **more))[0]


def empty(*elsewhere: str) -> CapacityError:
    return CapacityError("none left", hint="x", elsewhere=elsewhere)


def tried(where: Option, answers: dict[str, Any], region: Callable[[], list[str]] | None = None) -> tuple[list[str], Any]:
    """The zones in the order in which they were tried, and what came of it; a zone without an answer still lacks a machine."""
    zones: list[str] = []

    def ask(zone: str) -> int:
        zones.append(zone)
        answer = answers.get(zone, 1)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    result = place.try_zones(where, ask=ask, all_zones=region or (lambda: pytest.fail("asked for the zones")))
    return zones, result


# --- zones -------------------------------------------------------------------------------------------------------------


def test_the_first_zone_with_enough_machines_ends_it() -> None:
    assert tried(option(GCP), {ZONES[0]: 0}) == ([ZONES[0]], None)
    assert tried(option(GCP), {ZONES[0]: empty(), ZONES[1]: 0}) == (ZONES, None)
    assert tried(option(AWS), {"": 0}) == ([""], None)


def test_a_zone_outside_of_the_profile_is_never_tried_whoever_suggests_it() -> None:
    """The profile is signed with these zones."""
    zones, result = tried(option(GCP), {ZONES[0]: empty("asia-east2-b", ZONES[1]), ZONES[1]: empty("asia-east2-b")})
    assert zones == ZONES
    assert isinstance(result, CapacityError)
    zones, _ = tried(option({**GCP, "zones": ZONES[:1]}), {ZONES[0]: empty(ZONES[1], "asia-east1-a")})
    assert zones == ZONES[:1]


def test_where_the_cloud_chooses_its_suggestions_come_first_and_each_zone_is_tried_once() -> None:
    answers = {"": empty("c", "b"), "c": empty("b", "c"), "b": empty(), "a": empty("c")}
    zones, result = tried(option(AWS), answers, lambda: ["a", "b", "c"])
    assert zones == ["", "c", "b", "a"]
    assert result is answers["a"]


def test_the_zones_that_have_some_are_not_left_while_more_is_needed() -> None:
    zones, result = tried(option(AWS), {}, lambda: ["a", "b"])
    assert zones == ["", "a", "b"]
    assert isinstance(result, CapacityError)
    assert result.message == "too few machines of g4dn.xlarge in us-east-1 (on-demand)"
    assert result.hint == "try again later, or add a place to the profile"


def test_no_quota_ends_a_region_and_every_other_error_ends_the_launch() -> None:
    no_quota = QuotaExceededError("none", hint="x")
    assert tried(option(GCP), {ZONES[0]: no_quota}) == ([ZONES[0]], no_quota)
    with pytest.raises(CloudInvalidError):
        tried(option(GCP), {ZONES[0]: CloudInvalidError("wrong", hint="x")})


# --- places ------------------------------------------------------------------------------------------------------------


def test_usable_zones_of_one_region_are_one_attempt_and_other_places_are_not() -> None:
    two = {**GCP, "zones": [*ZONES, "asia-east1-a"]}
    made = place.options(planned(two, AWS, GCP))
    rows = [(o.index, o.cloud, o.region, o.zones, o.refusal) for o in made]
    assert rows == [
        (0, "gcp", "asia-east2", tuple(ZONES), None),
        (0, "gcp", "asia-east1", ("asia-east1-a",), None),
        (1, "aws", "us-east-1", (), None),
        (1, "aws", "ap-east-1", (), None),
        (2, "gcp", "asia-east2", tuple(ZONES), None),
    ]
    assert str(made[0]) == "n1-standard-8 in asia-east2 (on-demand)"


def test_a_zone_with_a_refusal_stands_alone() -> None:
    made = place.options(planned(GCP, limit=0.5))
    assert [o.zones for o in made] == [(ZONES[0],), (ZONES[1],)]
    assert all(o.refusal for o in made)


def test_one_cloud_can_be_chosen_if_the_profile_has_it() -> None:
    made = planned(GCP, AWS)
    assert {o.cloud for o in place.options(made, "aws")} == {"aws"}
    assert {o.cloud for o in place.options(made)} == {"aws", "gcp"}
    with pytest.raises(UsageError) as caught:
        place.options(made, "azure")
    assert caught.value.message == "profile t4-train has no place on azure"
    assert caught.value.hint == "it has places on gcp or aws; add one on azure, or omit the cloud"


def test_a_row_tells_one_attempt() -> None:
    row = option(AWS).attempt("launched", "i-1", 1.23456, zone="us-east-1a", count=2)
    assert row == Attempt("aws", "us-east-1", "us-east-1a", "g4dn.xlarge", "on-demand", "launched", "i-1", 1.23456, 2)
    expected = {"zone": "us-east-1a", "outcome": "launched", "said": "i-1", "seconds": 1.235, "asked": 2}
    assert expected.items() <= row.as_dict().items()
    assert not {"detail", "count"} & set(row.as_dict())
    plain = option(AWS).attempt("skipped", "why")
    assert (plain.seconds, plain.zone, plain.count) == (0.0, "", 1)


def refusal_of(made: Plan) -> Exception | None:
    try:
        place.check_any(made, place.options(made))
    except (PriceOverLimitError, PriceUnknownError, CloudUnsupportedError) as error:
        return error
    return None


def test_one_place_within_the_limit_is_enough() -> None:
    assert refusal_of(planned(AWS, limit=0.6)) is None


def test_no_place_within_the_limit_is_an_error_about_money() -> None:
    error = refusal_of(planned(AWS, {**AWS, "market": "spot"}, limit=0.1))
    assert isinstance(error, PriceOverLimitError)
    dear = "g4dn.xlarge: 0.553 USD/h is over limits.price_per_hour_usd 0.10"
    assert error.message.startswith(f"no place of profile t4-train can be launched in: us-east-1 {dear}; ap-east-1 g4dn.xlarge: 0.844")
    assert error.hint == "nearest edit: limits.price_per_hour_usd: 0.56: g4dn.xlarge in us-east-1 is within it"
    unknown = refusal_of(planned({**AWS, "market": "spot"}))
    assert isinstance(unknown, PriceUnknownError)
    assert unknown.hint == "`unknown_price: allow` under limits accepts an unknown price"


def test_no_place_that_the_catalog_admits_is_an_error_about_the_catalog() -> None:
    error = place.refused("no", [])
    assert isinstance(error, CloudUnsupportedError)
    assert error.message == "no: "
    assert error.hint == "add a place on aws or digitalocean or gcp that `gpuprov catalog instances` lists"

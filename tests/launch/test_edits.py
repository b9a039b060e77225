"""The edits that bring a place within its price limit: which is offered, with which effect, and at which line."""

from __future__ import annotations

from typing import Any

import pytest

from provision.launch.edits import Edit, nearest_edits
from provision.structs import replace
from tests.launch.test_plan import AWS, GCP, planned

LIMIT, TYPE = "limits.price_per_hour_usd", "places.0.instance_type"
HK = {**AWS, "regions": ["ap-east-1"]}
BIG = {**AWS, "instance_type": "g4dn.4xlarge"}
HUGE = {**AWS, "instance_type": "g4dn.8xlarge"}
N16 = {**GCP, "instance_type": "n1-standard-16"}


@pytest.mark.parametrize(
    ("places", "limit", "edits"),
    [
        ([HK], 0.6, [(LIMIT, "0.85", "g4dn.xlarge in ap-east-1"), ("places.0.regions", "[us-east-1]", "g4dn.xlarge costs 0.553")]),
        ([HK], 0.56, [(LIMIT, "0.85", "g4dn.xlarge in ap-east-1"), ("places.0.regions", "[us-east-1]", "g4dn.xlarge costs 0.553")]),
        ([HK], 0.55, [(LIMIT, "0.85", "g4dn.xlarge in ap-east-1")]),
        ([HK], 0.9, []),
        # The cheapest place that is over the limit, and the dearest type that is not.
        ([BIG], 0.8, [(LIMIT, "1.24", "g4dn.4xlarge in us-east-1"), (TYPE, "g4dn.2xlarge", "it costs 0.779 USD/h in us-east-1")]),
        (
            [HUGE],
            2.3,
            [
                (LIMIT, "3.39", "g4dn.8xlarge in ap-east-1"),
                (TYPE, "g4dn.xlarge", "it costs 0.844 USD/h in ap-east-1"),
                ("places.0.regions", "[us-east-1]", "g4dn.8xlarge costs 2.203"),
            ],
        ),
        ([N16], 0.6, [(LIMIT, "1.50", "n1-standard-16 in asia-east2-a"), (TYPE, "n1-standard-2", "it costs 0.563 USD/h in asia-east2-a")]),
        (
            [GCP],
            0.81,
            [
                (LIMIT, "0.97", "n1-standard-8 in asia-east2-a"),
                (TYPE, "n1-standard-4", "it costs 0.696 USD/h in asia-east2-a"),
                ("places.0.zones", "[us-central1-a]", "n1-standard-8 costs 0.803"),
            ],
        ),
        (
            [BIG, GCP],
            0.81,
            [
                (LIMIT, "0.97", "n1-standard-8 in asia-east2-a"),
                (TYPE, "g4dn.2xlarge", "it costs 0.779 USD/h in us-east-1"),
                ("places.1.zones", "[us-central1-a]", "n1-standard-8 costs 0.803"),
            ],
        ),
    ],
)
def test_the_nearest_edits_are_the_lowest_limit_the_dearest_type_and_the_cheapest_region(
    places: list[dict[str, Any]], limit: float, edits: list[tuple[str, str, str]]
) -> None:
    made = nearest_edits(planned(*places, limit=limit))
    assert [(edit.key, edit.value, edit.line) for edit in made] == [(key, value, None) for key, value, _ in edits]
    suffixes = {LIMIT: " is within it", TYPE: ""}
    assert [edit.effect for edit in made] == [f"{effect}{suffixes.get(key, ' USD/h there')}" for key, _, effect in edits]


def test_edits_may_be_for_some_of_the_places() -> None:
    plan = planned(BIG, GCP, limit=0.81)
    assert [edit.key for edit in nearest_edits(plan, plan.places[2:])] == [LIMIT, "places.1.instance_type", "places.1.zones"]
    assert nearest_edits(plan, []) == ()


def test_an_edit_names_the_line_of_its_key() -> None:
    plan = replace(planned(HK, limit=0.6), lines={LIMIT: 42, "places.0.regions": 15})
    assert [edit.line for edit in nearest_edits(plan)] == [42, 15]
    limit, region = nearest_edits(plan)
    assert str(limit) == "limits.price_per_hour_usd: 0.85 (line 42): g4dn.xlarge in ap-east-1 is within it"
    assert str(replace(region, line=None)) == "places.0.regions: [us-east-1]: g4dn.xlarge costs 0.553 USD/h there"
    assert isinstance(limit, Edit)

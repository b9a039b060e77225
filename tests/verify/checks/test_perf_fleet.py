"""What the performance checks say where a fleet's own figures are known: those are the measure, and what it did not measure is not."""

from __future__ import annotations

from typing import Any

import pytest

from provision.structs import replace
from provision.verify.facts import Facts

from .. import good  # noqa: TID252 - the tests have no root package

EIGHT = good.profile(gpu__model="h200", gpu__count=8, verify={"tier": "perf"})
OWN = "this fleet's 3 measured hosts' median of"


def fleet(gpu: str = "h200", **figures: Any) -> Facts:
    """Eight healthy H200s, and the medians of three hosts."""
    facts = good.under_load(gpus=8)
    return replace(facts, raw={**facts.raw, "fleet": {"value": {"gpu": gpu, "hosts": 3, **figures}}})


@pytest.mark.parametrize(
    ("check", "figures", "outcome", "expected"),
    [
        ("gemm", {"tensor_tflops": 1000.0}, "fail", f"at least 850 of {OWN} 1000"),
        ("gemm", {"tensor_tflops": 800.0}, "pass", f"at least 680 of {OWN} 800"),
        ("gemm", {"tensor_tflops": 800.0, "settled_tflops": 1000.0}, "fail", f"at least 680 of {OWN} 800"),
        ("gemm", {"memory_gb_s": 9000.0}, "pass", "at least 671.5 of a healthy 790"),
        ("memory-bandwidth", {"memory_gb_s": 9000.0}, "fail", f"at least 7650 of {OWN} 9000"),
        ("memory-bandwidth", {"tensor_tflops": 1000.0}, "pass", "at least 3655 of a healthy 4300"),
        ("host-copies", {"copies_gb_s": 100.0}, "fail", "at least 75"),
        ("host-copies", {"tensor_tflops": 1000.0}, "pass", "at least 45"),
        ("all-reduce", {"all_reduce_gb_s": {"8": 900.0}}, "fail", f"at least 765 of {OWN} 900"),
        ("all-reduce", {"all_reduce_gb_s": {"2": 900.0}}, "pass", "at least 399.5 of a healthy 470"),
    ],
)
def test_the_fleets_own_figure_is_the_measure_and_the_catalogues_where_it_has_none(
    check: str, figures: dict[str, Any], outcome: str, expected: str
) -> None:
    finding = good.finding(check, fleet(**figures), EIGHT)
    assert (finding.outcome, expected in finding.expected) == (outcome, True), finding


@pytest.mark.parametrize("whose", ["b200", "h200"])
def test_what_neither_fleet_nor_catalogue_measured_is_judged_by_the_datasheet(whose: str) -> None:
    """The catalogue has no figure of one B200, and the fleet none of its products, or none of this card at all."""
    facts = fleet(gpu=whose, memory_gb_s=6000.0)
    for device in facts.raw["perf"]["value"]["devices"]:
        device["name"] = "NVIDIA B200"
    asked = good.profile(gpu__model="b200", gpu__count=8, verify={"tier": "perf"})
    finding = good.finding("gemm", facts, asked)
    assert (finding.outcome, "74% of the datasheet's 2250" in finding.expected) == ("fail", True), finding
    memory = good.finding("memory-bandwidth", facts, asked).expected
    assert (f"{OWN} 6000" if whose == "b200" else "76% of the datasheet's 8000") in memory


def test_the_figures_of_another_card_or_of_unlike_cards_are_no_measure() -> None:
    plain = good.finding("gemm", good.under_load(gpus=8), EIGHT)
    assert good.finding("gemm", fleet(gpu="h100", tensor_tflops=1000.0), EIGHT) == plain
    unlike = fleet(tensor_tflops=1000.0)
    unlike.raw["perf"]["value"]["devices"][3]["name"] = "NVIDIA L4"
    assert OWN not in good.finding("gemm", unlike, EIGHT).expected

"""Tiers: what each leaves out it says, and what it gathers is enough for what it judges."""

import asyncio

import pytest

import provision.verify.observe as observing
from provision.host.ssh import LOCALHOST
from provision.profile.model import Profile
from provision.verify.checks import CHECKS
from provision.verify.checks.base import TIERS
from provision.verify.facts import parse
from provision.verify.judge import Selection, judge
from provision.verify.probe.run import FIRST_TIER

from .. import good  # noqa: TID252 - the tests have no root package

PERF_CHECKS = ["gemm", "memory-bandwidth", "host-copies", "all-reduce"]


def profile(tier: str = "perf") -> Profile:
    return good.profile(gpu__model="h200", verify={"tier": tier})


def test_a_tier_says_of_each_check_that_it_leaves_out_that_nobody_looked() -> None:
    everything = good.under_load()
    for tier in TIERS:
        report = judge(everything, profile(tier))
        later = {c.id for c in CHECKS if TIERS.index(c.tier) > TIERS.index(tier)}
        silent = [f for f in report.findings if f.check in later]
        assert {f.outcome for f in silent} <= {"not-applicable"}
        assert all(f.observed.startswith(f"not checked: tier {tier} leaves it out") for f in silent)
        assert not [f for f in report.findings if f.check not in later and "leaves it out" in f.observed]


@pytest.mark.parametrize("tier", TIERS)
def test_what_a_tier_gathers_is_enough_for_what_it_judges(tier: str) -> None:
    facts = good.under_load().raw
    later = {name for name, first in FIRST_TIER.items() if TIERS.index(first) > TIERS.index(tier)}
    assert later == {"quick": set(FIRST_TIER), "standard": {"perf"}, "perf": set()}[tier]
    cut = {name: {"unknown": f"not gathered by tier {tier}"} if name in later else fact for name, fact in facts.items()}
    report = judge(
        parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": cut}, "x"), good.profile(verify={"tier": tier})
    )
    assert not [f for f in report.findings if "not gathered" in f.observed]


def test_a_tier_asked_for_by_hand_goes_before_the_profiles() -> None:
    facts = good.under_load()
    for tier, outcome in (("quick", "not-applicable"), ("standard", "not-applicable"), ("perf", "pass"), (None, "not-applicable")):
        report = judge(facts, profile("standard"), selection=Selection(tier=tier))  # type: ignore[arg-type]
        assert next(f.outcome for f in report.findings if f.check == "gemm") == outcome


def test_facts_of_a_lower_tier_than_asked_for_are_unknown() -> None:
    facts = good.facts(perf={"unknown": "not gathered by tier standard"})
    assert {good.finding(check, facts, profile()).outcome for check in PERF_CHECKS} == {"unknown"}
    assert good.finding("gemm", facts, profile()).observed == "not observed: not gathered by tier standard"


@pytest.mark.parametrize(
    ("counters", "live", "outcome"),
    [
        ("all-users", "0", "not-applicable"),
        ("all-users", "1", "fail"),
        ("group", "1", "not-applicable"),
        ("all-users", None, "unknown"),
    ],
)
def test_quick_shows_counters_to_be_wrong_and_never_to_be_right(counters: str, live: str | None, outcome: str) -> None:
    quick = good.profile(gpu__counters=counters, verify={"tier": "quick"})
    assert good.finding("counters", good.facts(counters__live=live), quick).outcome == outcome


def test_the_tier_travels_and_what_it_leaves_out_is_not_run() -> None:
    quick = asyncio.run(observing.observe(LOCALHOST, timeout_s=30, asked=observing.Asked("quick")))
    assert {
        quick.raw[name]["unknown"]
        for name in ("opencv", "pytorch", "tensorflow", "jax", "encoders", "nvcc_runs", "cutlass", "opencl", "perf")
    } == {"not gathered by tier quick"}
    standard = asyncio.run(observing.observe(LOCALHOST, timeout_s=60))
    assert standard.raw["perf"] == {"unknown": "not gathered by tier standard"}
    assert "value" in standard.raw["pytorch"]

"""The questions to the clouds before a launch: about every place that would be tried, and about no other."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.base import Answer
from provision.errors import CloudUnreachableError, ImageNotFoundError
from provision.launch.ask import ask_clouds
from provision.launch.baked import recipe_of
from provision.launch.plan import Plan, draft_order
from provision.profile.model import FleetSettings
from provision.structs import replace
from tests.launch.memory import Memory
from tests.launch.test_baked import BASE, Bakery, BakingCloud, image
from tests.launch.test_plan import AWS, planned

HERE, THERE = ("aws", "us-east-1"), ("aws", "ap-east-1")


def test_every_place_within_the_limit_is_asked_about_with_the_order_that_it_would_get() -> None:
    plan, memory = planned(AWS), Memory()
    memory[HERE].answers = [Answer("quota", holds=True, said="4 of 8 vCPUs are free")]
    memory[THERE].fails["examine"] = CloudUnreachableError("no answer", hint="x")
    here, there = plan.places
    assert ask_clouds(plan, memory.ours()) == {
        here: (Answer("quota", holds=True, said="4 of 8 vCPUs are free"),),
        there: (Answer("region", holds=None, said="no answer"),),
    }
    assert memory[HERE].asked == [("examine", draft_order(plan.profile, plan.profile_sha256, plan.name, here))]
    assert sorted(memory.said) == [f"asking aws about {there}", f"asking aws about {here}"]


def test_a_place_over_the_limit_is_not_asked_about() -> None:
    plan, memory = planned(AWS, limit=0.6), Memory()
    assert [place.region for place in ask_clouds(plan, memory.ours())] == ["us-east-1"]
    assert THERE not in memory


@pytest.mark.parametrize(("store", "asked"), [("s3://bucket/x", "s3://bucket/x"), ("gs://bucket/x", "")])
def test_a_cloud_is_asked_about_the_store_of_its_own_kind(store: str, asked: str) -> None:
    plan, memory = planned(AWS), Memory()
    plan = replace(plan, profile=plan.profile.model_copy(update={"fleet": FleetSettings(store=store)}))
    memory[HERE].answers = []
    ask_clouds(plan, memory.ours())
    assert {order.store for _, order in memory[HERE].asked} == {asked}


# --- whether an image of ours is current --------------------------------------------------------------------------------


QUOTA = Answer("quota", holds=True, said="4 of 8 vCPUs are free")


def baking(use: str) -> Plan:
    return planned({**AWS, "regions": ["us-east-1"], "baked_image": use})


def answers(plan: Plan, bakery: Bakery | None) -> tuple[Answer, ...]:
    memory = Memory()
    memory[HERE] = BakingCloud(bakery)
    memory[HERE].answers = [QUOTA]
    return ask_clouds(plan, memory.ours())[plan.places[0]]


@pytest.mark.parametrize("use", ["if-current", "required"])
@pytest.mark.parametrize(("changes", "made_from"), [({}, BASE), ({"parts": {}}, "?")])
def test_a_current_image_is_told_with_its_day_its_digest_and_its_base(use: str, changes: dict[str, Any], made_from: str) -> None:
    plan = baking(use)
    mine = image(recipe_of(plan.profile, plan.lock, without_gpu=False), **changes)
    quota, baked = answers(plan, Bakery(mine))
    assert (quota, baked.about, baked.holds) == (QUOTA, "baked-image", True)
    assert all(word in baked.said for word in (mine.id, "2026-11-20", mine.digest, made_from))
    assert "2026-11-20T" not in baked.said
    assert "None" not in baked.said


@pytest.mark.parametrize(("use", "holds"), [("if-current", True), ("required", False)])
def test_without_a_current_image_only_a_place_that_demands_one_does_not_hold(use: str, *, holds: bool) -> None:
    plan = baking(use)
    part = image(recipe_of(plan.profile, plan.lock, without_gpu=True))
    for bakery, why in ((Bakery(part), part.id), (Bakery(), plan.profile.name)):
        quota, baked = answers(plan, bakery)
        assert (quota, baked.about, baked.holds) == (QUOTA, "baked-image", holds)
        assert why in baked.said


def test_a_place_that_never_starts_from_an_image_of_ours_asks_for_none() -> None:
    assert answers(baking("never"), None) == (QUOTA,)


def test_a_cloud_that_does_not_tell_its_images_leaves_that_open_and_no_more() -> None:
    bakery = Bakery()
    bakery.fails = ImageNotFoundError("no base", hint="x")
    assert answers(baking("required"), bakery) == (QUOTA, Answer("baked-image", holds=None, said="no base"))
    assert answers(baking("required"), None)[0] == QUOTA

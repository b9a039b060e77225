"""Attempts that start from an image of ours: which one, chosen when, and the same one when they are repeated."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.baked import BakedImage, BaseImage, Recipe
from provision.errors import CapacityError, CloudUnreachableError, ImageNotFoundError, ThrottledError
from provision.launch.attempts import LaunchRequest
from provision.launch.baked import recipe_of
from provision.launch.launcher import Launcher
from provision.launch.patience import Patience
from provision.launch.plan import Plan
from provision.structs import replace
from tests.launch.memory import Memory, machine
from tests.launch.test_baked import Bakery, BakingCloud, image
from tests.launch.test_plan import AWS, planned

HERE, THERE = ("aws", "us-east-1"), ("aws", "ap-east-1")
NONE_LEFT = CapacityError("none left", hint="x")
SLOW = ThrottledError("slow", hint="x")


class Watched(Bakery):
    """Notes the orders whose base it was asked for, and is throttled as often as it is told."""

    def __init__(self, *images: BakedImage) -> None:
        super().__init__(*images)
        self.orders: list[base.Order] = []
        self.throttled = 0

    def base(self, order: base.Order) -> BaseImage:
        self.orders.append(order)
        if len(self.orders) <= self.throttled:
            raise SLOW
        return super().base(order)


def asked(use: str = "if-current") -> tuple[Plan, Recipe]:
    made = planned({**AWS, "baked_image": use})
    return made, recipe_of(made.profile, made.lock, without_gpu=False)


def put(memory: Memory, pair: tuple[str, str], recipe: Recipe, **changes: Any) -> Watched:
    """A region with an image of today's content."""
    bakery = Watched(image(recipe, id=f"ami-of-{pair[1]}", region=pair[1], **changes))
    memory[pair] = BakingCloud(bakery, pair[1])
    memory[pair].launches = [[machine("t4-train", region=pair[1])]]
    return bakery


def orders(memory: Memory, pair: tuple[str, str]) -> list[base.Order]:
    return [order for method, order in memory[pair].asked if method == "launch"]


def test_an_attempt_starts_from_the_image_of_its_own_region(memory: Memory, launcher: Launcher) -> None:
    made, recipe = asked()
    for pair in (HERE, THERE):
        put(memory, pair, recipe)
    memory[HERE].launches = [NONE_LEFT]
    launcher.ensure(LaunchRequest(made, "key", recipe=recipe))
    assert [order.baked for order in orders(memory, HERE)] == ["ami-of-us-east-1"]
    (there,) = orders(memory, THERE)
    assert (there.baked, there.downloads) == ("ami-of-ap-east-1", None)
    assert "starting from ami-of-ap-east-1, baked on 2026-11-20 from ami-base" in memory.said


def test_the_image_is_chosen_once_for_all_zones_and_the_draft_says_which_place_it_is_for(memory: Memory, launcher: Launcher) -> None:
    made, recipe = asked()
    bakery = put(memory, HERE, recipe)
    memory[HERE].launches, memory[HERE].zone_names = [NONE_LEFT], ["us-east-1a", "us-east-1b"]
    put(memory, THERE, recipe)
    launcher.ensure(LaunchRequest(made, "key", recipe=recipe))
    assert [order.baked for order in orders(memory, HERE)] == ["ami-of-us-east-1"] * 3
    (draft,) = bakery.orders
    assert (draft.zone, draft.first, draft.count, draft.minimum, draft.place) == ("", 1, 1, 1, made.places[0].place)


def test_a_repeated_attempt_starts_from_the_same_image_whatever_is_current_now(memory: Memory, launcher: Launcher) -> None:
    made, recipe = asked()
    bakery = put(memory, HERE, recipe)
    memory[HERE].launches = [CloudUnreachableError("no answer", hint="x")]
    with pytest.raises(CloudUnreachableError):
        launcher.ensure(LaunchRequest(made, "key", recipe=recipe))
    record = launcher.journal.get("t4-train")
    assert record is not None
    assert record.pending is not None
    assert record.pending.baked == "ami-of-us-east-1"
    bakery.kept = (image(recipe, id="ami-newer"),)
    memory[HERE].launches = [[machine("t4-train", launch_id=record.launch_id)]]
    launcher.ensure(LaunchRequest(made, "key", recipe=recipe))
    first, second = orders(memory, HERE)
    assert first == second


def test_without_a_recipe_and_where_the_place_says_never_nobody_is_asked(memory: Memory, launcher: Launcher) -> None:
    made, recipe = asked()
    bakery = put(memory, HERE, recipe)
    launcher.ensure(LaunchRequest(made, "key"))
    never, _ = asked("never")
    memory[HERE].launches = [[machine("other")]]
    launcher.ensure(LaunchRequest(replace(never, name="other"), "key", recipe=recipe))
    assert [order.baked for order in orders(memory, HERE)] == ["", ""]
    assert bakery.orders == []


def test_a_place_that_demands_an_image_is_not_tried_without_one(memory: Memory, launcher: Launcher) -> None:
    made, recipe = asked("required")
    put(memory, HERE, recipe, state="pending")
    with pytest.raises(ImageNotFoundError):
        launcher.ensure(LaunchRequest(made, "key", recipe=recipe))
    assert orders(memory, HERE) == []


def test_a_cloud_that_is_throttled_is_asked_for_the_image_again(memory: Memory, launcher: Launcher) -> None:
    made, recipe = asked()
    put(memory, HERE, recipe).throttled = 1
    launcher.patience = Patience(throttled_s=0.1, unanswered=1, pause_s=0.001, round_s=0.0)
    launcher.ensure(LaunchRequest(made, "key", recipe=recipe))
    assert [order.baked for order in orders(memory, HERE)] == ["ami-of-us-east-1"]
    assert any(line.startswith("looking for a baked image in us-east-1: throttled") for line in memory.said)


@pytest.mark.parametrize("rehearsal", [False, True])
def test_in_a_rehearsal_nothing_is_downloaded_early_and_no_subnet_of_the_user_is_named(
    memory: Memory, launcher: Launcher, *, rehearsal: bool
) -> None:
    network = {"address": "private", "subnet": "subnet-0123456789abcdef0", "jump": "bastion", "ssh_from": ["10.0.0.4/32"]}
    made = planned({**AWS, "regions": ["us-east-1"]}, network=network)
    memory[HERE].launches = [[machine("t4-train")]]
    launcher.rehearsal = rehearsal
    launcher.ensure(LaunchRequest(made, "the public key", count=1))
    (order,) = orders(memory, HERE)
    assert (order.downloads is None, order.subnet == "") == (rehearsal, rehearsal)
    record = launcher.journal.get("t4-train")
    assert record is not None
    tags = (order.tags[base.PROFILE_DIGEST_TAG], order.tags[base.LAUNCH_TAG], order.tags[base.NAME_TAG])
    assert tags == (made.profile_sha256, record.launch_id, "t4-train")
    assert (order.public_key, order.name) == ("the public key", "t4-train")


def test_a_number_whose_machines_have_ended_is_followed_by_the_next(memory: Memory, launcher: Launcher) -> None:
    """A cloud repeats its answer to a token that it remembers, so the attempt after an ended machine must have another."""
    made = planned({**AWS, "regions": ["us-east-1"]})
    memory[HERE].launches = [[machine("t4-train-1", group="t4-train", id="i-1", count=2)], NONE_LEFT]
    memory[HERE].zone_names = []
    launcher.ensure(LaunchRequest(made, "key", count=2, minimum=1))
    record = launcher.journal.get("t4-train")
    assert record is not None
    left = machine("t4-train-1", group="t4-train", id="i-1", count=2, launch_id=record.launch_id, profile_digest=record.profile_digest)
    gone = machine("t4-train-2", group="t4-train", id="i-2", state="terminated", count=2)
    fresh = machine("t4-train-3", group="t4-train", id="i-3", count=2)
    # The second machine was made and ended: its attempt is one that made machines.
    known = replace(record.had[0], first=2, count=1, minimum=1)
    launcher.journal.put(replace(record, had=(*record.had, known)))
    memory[HERE].machines, memory[HERE].launches = [left], [[gone], [fresh]]
    memory[HERE].asked.clear()
    machines = launcher.ensure(LaunchRequest(made, "key", count=2, minimum=2))
    assert [order.first for order in orders(memory, HERE)] == [2, 3]
    assert [each.id for each in machines] == ["i-1", "i-3"]

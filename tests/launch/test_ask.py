"""The questions to the clouds before a launch: about every place that would be tried, and about no other."""

from __future__ import annotations

from provision.clouds.base import Answer
from provision.errors import CloudUnreachableError
from provision.launch.ask import ask_clouds
from provision.launch.plan import draft_order
from tests.launch.memory import Memory
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

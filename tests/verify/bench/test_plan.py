"""The plans keep their times, and --only takes what it names."""

from __future__ import annotations

import pytest

from provision.verify.bench import plan
from provision.watch.bench.run import ROOT, left


def test_quick_takes_two_minutes_at_most_and_full_fifteen() -> None:
    assert plan.seconds(plan.QUICK) <= 120
    assert 480 <= plan.seconds(plan.FULL) <= 900


def test_every_recipe_is_a_file_and_every_file_a_recipe() -> None:
    files = {path.stem for path in (ROOT / "recipes").glob("*.py")} - {"__init__", "models"}
    assert set(plan.RECIPES) == files


@pytest.mark.parametrize(("full", "only", "expected"), [(False, ["memory"], [3]), (True, ["memory"], [10]), (False, ["soak"], [120])])
def test_only_takes_the_recipes_of_the_plan_and_what_it_lacks_of_the_full_one(
    *, full: bool, only: list[str], expected: list[float]
) -> None:
    assert [step.seconds for step in plan.chosen(full=full, only=only)] == expected
    assert plan.chosen(full=full, only=[]) == (plan.FULL if full else plan.QUICK)


def test_the_time_left_falls_with_every_step_to_that_of_the_last() -> None:
    times = [left(plan.QUICK, number, step.seconds) for number, step in enumerate(plan.QUICK)]
    assert times == sorted(times, reverse=True)
    assert times[-1] == pytest.approx(plan.CELL_S * plan.QUICK[-1].seconds)

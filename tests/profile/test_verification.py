"""What a profile demands of `verify`: measurements by the names that they have, and nothing new in the digest of an older profile."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from provision import paths
from provision.errors import ProfileInvalidError
from provision.profile import load
from provision.profile.verification import BenchWord, Verification
from provision.verify.bench.plan import RECIPES


def test_the_words_are_the_plans_and_the_recipes() -> None:
    assert get_args(BenchWord) == ("quick", "full", *RECIPES)


def test_a_profile_without_a_demand_has_the_digest_that_it_had() -> None:
    plain = Verification().model_dump(mode="json")
    assert set(plain) == {"tier", "min_free_gb", "waivers"}
    assert set(Verification().model_dump()) == set(plain)
    asked = Verification(bench=("gemm", "quick"), bench_days=30).model_dump(mode="json")
    assert (asked["bench"], asked["bench_days"]) == (["gemm", "quick"], 30)
    assert Verification.model_validate(asked) == Verification(bench=("gemm", "quick"), bench_days=30)


@pytest.mark.parametrize("value", [{"bench": ["gem"]}, {"bench": "quick"}, {"bench_days": 0}, {"bench_days": 367}, {"bench_days": 1.5}])
def test_a_demand_that_nobody_can_meet_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Verification.model_validate(value)


def test_a_wrong_recipe_is_named_with_its_line_and_the_nearest(tmp_path: Any) -> None:
    text = (paths.profiles_dir() / "t4-train.yml").read_text().replace("  min_free_gb: 5\n", "  min_free_gb: 5\n  bench: [gem]\n")
    (tmp_path / "mine.yml").write_text(text)
    with pytest.raises(ProfileInvalidError) as error:
        load.load(tmp_path / "mine.yml")
    assert "verify.bench" in str(error.value)
    assert "gemm" in str(error.value)

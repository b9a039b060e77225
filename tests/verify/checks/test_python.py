"""A team's own packages: each locked distribution at its version, in the environment that it was added to."""

from typing import Any, Final

import pytest

from provision.verify.judge import Selection, judge
from tests.verify import good

ASKED: Final[dict[str, Any]] = {"stack__python": {"requirements": "requirements.txt"}}
HASH: Final = " --hash=sha256:" + "0" * 64
LOCKED: Final = (f"torch==2.10.0{HASH}", f"Ruamel.YAML==0.18.1{HASH}", f"einops==0.8.1{HASH}")
THERE: Final = {"torch": "2.10.0", "ruamel-yaml": "0.18.1", "einops": "0.8.1", "pip": "24.0"}

# check, the packages of PyTorch's environment, changed profile, whether the lock has them, outcome, words
CASES: Final[list[tuple[str, Any, dict[str, Any], bool, str, str]]] = [
    ("python-packages", THERE, ASKED, True, "pass", "packages: 3"),
    ("python-packages", THERE, {}, True, "not-applicable", "no packages of its own"),
    ("python-packages", THERE, {"stack__python": {"prefix": "/opt/pytorch"}}, True, "not-applicable", "no packages of its own"),
    ("python-packages", THERE, ASKED, False, "unknown", "the lock has none of them"),
    ("python-packages", {**THERE, "einops": "0.8.0"}, ASKED, True, "fail", "einops 0.8.0 instead of 0.8.1"),
    ("python-packages", {"torch": "2.10.0", "einops": "0.8.1"}, ASKED, True, "fail", "Ruamel.YAML not installed instead of 0.18.1"),
    ("python-packages", {**THERE, "torch": "2.9.1"}, ASKED, True, "fail", "torch 2.9.1 instead of 2.10.0"),
    ("python-packages", None, ASKED, True, "fail", "no such environment"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[4]} {case[5]}")
def test_table(case: tuple[str, Any, dict[str, Any], bool, str, str]) -> None:
    check, packages, asked, locked, outcome, words = case
    facts = good.facts(extras__environments={"pytorch": packages} if packages else {"jax": THERE})
    profile = good.profile(**asked).with_wheels(LOCKED if locked else ())
    (finding,) = judge(facts, profile, selection=Selection(only=frozenset({check}))).findings
    assert (finding.outcome, words in finding.observed) == (outcome, True), finding
    assert bool(finding.hint) == (outcome not in {"pass", "not-applicable"})


def test_what_a_lock_says_of_the_environment_is_no_part_of_the_profile() -> None:
    profile = good.profile(**ASKED)
    assert profile.with_wheels(LOCKED).dump() == profile.dump()
    assert profile.with_wheels(LOCKED).model_copy(update={"purpose": "x"}).locked_wheels == LOCKED
    assert profile.locked_wheels == ()

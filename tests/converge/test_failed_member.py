"""At which role and task a member failed: what is written on it is read here, whatever else it says."""

from __future__ import annotations

import pytest

from provision.converge.failed_member import FailedTask, failed_task, told_failure


def test_what_is_told_is_read_again_and_the_last_one_counts() -> None:
    said = "\n".join(["a warning", told_failure("a", "b", "c"), told_failure("drivers", "Install “it”", "no\nroom"), "role drivers failed"])
    assert failed_task(said) == FailedTask("drivers", "Install “it”", "no\nroom")
    assert "\n" not in told_failure("a", "b", "c\nd")


@pytest.mark.parametrize("said", ["", "broken", *(f"gpuprov-failed: {each}" for each in ("", "[1]", "{", "[" * 100_000))])
def test_where_nothing_is_told_there_is_none(said: str) -> None:
    assert failed_task(said) is None


def test_what_a_member_makes_up_is_text_of_a_bounded_length() -> None:
    found = failed_task('gpuprov-failed: {"role": ["x"], "task": null, "why": "%s"}' % ("y" * 9_000))
    assert found is not None
    assert (found.role, found.task, set(found.why), len(found.why) < 1_000) == ("['x']", "", {"y"}, True)
    assert len(told_failure("r" * 9_000, "t" * 9_000, "w" * 9_000)) < 1_000

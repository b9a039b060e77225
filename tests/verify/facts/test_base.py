"""What a fact is: missing, unknown and malformed ones are not observed, with the reason; readings answer for themselves."""

from typing import Any

import pytest

from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.base import Reading
from provision.verify.facts.disk import FileSystemsFacts
from provision.verify.facts.system import KernelFacts, UsersFacts, tool

from .. import good  # noqa: TID252 - the tests have no root package


def facts(**raw: Any) -> Facts:
    return Facts("", 0.0, raw)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "the probe sent no fact 'kernel'"),
        ([], "the probe sent no fact 'kernel'"),
        ({}, "the probe sent no fact 'kernel'"),
        ({"unknown": "timed out"}, "timed out"),
        ({"unknown": "x" * 9999}, "x" * 500),
        ({"value": {"release": "6.8", "machine": ""}}, "malformed at machine"),
        ({"value": {"release": "6.8"}}, "malformed at machine"),
        ({"value": {"release": 6.8, "machine": "x86_64"}}, "malformed at release"),
        ({"value": "6.8"}, "malformed at its top"),
        ({"value": {"release": "6.8", "machine": "\ud800"}}, "malformed at its top"),
        ({"value": {"release": float("nan"), "machine": "x86_64"}}, "malformed at release"),
    ],
)
def test_what_is_missing_unknown_or_malformed_is_not_observed(answer: Any, reason: str) -> None:
    with pytest.raises(NotObservedError) as error:
        facts(kernel=answer).read(KernelFacts)
    assert reason in str(error.value)
    assert len(str(error.value)) <= 600


def test_keys_of_a_newer_probe_are_ignored() -> None:
    kernel = facts(kernel={"value": {"release": "6.8", "machine": "x86_64", "flavour": "aws"}}).read(KernelFacts)
    assert (kernel.release, kernel.machine) == ("6.8", "x86_64")


def test_a_bare_list_is_read_into_its_field() -> None:
    assert facts(users={"value": ["ann", "bob"]}).read(UsersFacts).names == ("ann", "bob")
    root = good.facts().read(FileSystemsFacts).at("/")
    assert root is not None
    assert root.type == "ext4"


def test_a_tool_is_there_absent_or_not_observed() -> None:
    there = {"value": {"found": {"path": "/usr/bin/git", "version": "2.43.0"}}}
    program = tool(facts(tool_git=there), "git")
    assert program is not None
    assert program.version == "2.43.0"
    assert tool(facts(tool_git={"value": {"found": None}}), "git") is None
    with pytest.raises(NotObservedError, match="tool_git"):
        tool(facts(), "git")


@pytest.mark.parametrize(
    ("reading", "count"),
    [({"value": 3}, 3), ({"value": 0}, 0), ({"value": -1}, None), ({"value": 1.5}, None), ({"value": "3"}, None), ({}, None)],
)
def test_a_count_is_a_whole_number_from_nothing_on(reading: dict[str, Any], count: int | None) -> None:
    if count is None:
        with pytest.raises(NotObservedError):
            Reading(**reading).count()
    else:
        assert Reading(**reading).count() == count


@pytest.mark.parametrize(
    ("reading", "unsupported"),
    [
        ({"unknown": "Not Supported"}, True),
        ({"unknown": "Function Not Found"}, True),
        ({"unknown": "GPU is lost"}, False),
        ({}, False),
        ({"value": 0}, False),
    ],
)
def test_what_a_gpu_does_not_have_is_told_from_what_was_not_read(reading: dict[str, Any], *, unsupported: bool) -> None:
    assert Reading(**reading).unsupported is unsupported

"""Differences of two documents: where they are, and in words."""

from typing import Any

import pytest

from provision.profile.differences import Difference, compare


@pytest.mark.parametrize(
    ("old", "new", "key", "text"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ("a", "b"), "1 → 2"),
        ({"a": None}, {"a": {"version": "3"}}, ("a",), "none → 3"),
        ({}, {"a": {"x": 1, "y": 2}}, ("a",), "none → 2 values"),
        ({"a": [{"id": 1}]}, {"a": [{"id": 2}]}, ("a", "0", "id"), "1 → 2"),
        ({"a": [{"id": 1}]}, {"a": []}, ("a",), "1 entry → 0"),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ("a",), "+ y"),
        ({"a": ["x==1 --hash=sha256:0"]}, {"a": ["x==2 --hash=sha256:0"]}, ("a",), "x 1 → 2"),
    ],
)
def test_a_difference_says_where_it_is_and_what_it_was(old: dict[str, Any], new: dict[str, Any], key: tuple[str, ...], text: str) -> None:
    assert compare(old, new) == [Difference(key, text)]
    assert str(compare(old, new)[0]) == f"{'.'.join(key)}: {text}"


def test_other_hashes_of_the_same_version_are_a_kind_of_their_own() -> None:
    [difference] = compare({"wheels": ["x==1 --hash=sha256:0"]}, {"wheels": ["x==1 --hash=sha256:1"]})
    assert (difference.only_hashes, difference.text) == (True, "x 1 → 1 (other hashes)")


def test_a_value_that_reads_like_other_hashes_is_not_taken_for_them() -> None:
    [difference] = compare({"warnings": ["a"]}, {"warnings": ["a", "x (other hashes)"]})
    assert not difference.only_hashes


def test_equal_documents_do_not_differ() -> None:
    assert compare({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) == []


def test_a_difference_is_one_line_that_a_terminal_does_not_obey() -> None:
    (difference,) = compare({"a\x1b[2J": "b\nc"}, {"a\x1b[2J": "\x9b31m é"})
    assert str(difference) == "a�[2J: b�c → �31m é"

"""Which known name a wrong word was meant to be."""

from typing import get_args

import pytest

from provision.nearest import instead_of, meant, nearest, slips, suggested
from provision.profile.stack import Extra


@pytest.mark.parametrize(
    ("one", "other", "number"),
    [
        ("", "", 0),
        ("east", "east", 0),
        ("esat", "east", 1),
        ("est", "east", 1),
        ("eastt", "east", 1),
        ("eaxt", "east", 1),
        ("opencl", "nccl", 4),
        ("", "abc", 3),
        ("abc", "", 3),
        ("tase", "east", 2),
    ],
)
def test_slips_are_counted(one: str, other: str, number: int) -> None:
    assert slips(one, other) == number
    assert slips(other, one) == number


@pytest.mark.parametrize(
    ("word", "words", "near"),
    [
        ("nccll", get_args(Extra), "nccl"),
        ("NCCL", get_args(Extra), "nccl"),
        ("t5", ["t4", "v100"], "t4"),
        ("k80", ["t4", "l40s"], None),
        ("transfomer-engin", get_args(Extra), "transformer-engine"),
        ("x", [], None),
        ("price", ["deadline_h", "price_per_hour_usd"], "price_per_hour_usd"),
        ("centos", ["centos-stream"], None),
    ],
)
def test_a_word_is_taken_for_another_only_where_a_slip_explains_it(word: str, words: list[str], near: str | None) -> None:
    assert nearest(word, words) == near


def test_what_to_write_is_never_an_empty_list() -> None:
    assert instead_of("2", ["1"]) == "write 1"
    assert instead_of("opencl", ["nccl", "dali"]) == "write one of: nccl, dali"
    assert instead_of("ncl", ["nccl", "dali"]) == "did you mean 'nccl'?"


@pytest.mark.parametrize(
    ("word", "words", "near"),
    [
        ("T4", ["p4", "t4", "t4g"], ["t4"]),
        ("A100", ["v100", "a100-40gb", "a100-80gb"], ["a100-40gb", "a100-80gb"]),
        ("us-esat-1", ["us-west-1", "us-east-1"], ["us-east-1"]),
        ("g4dn", ["g4dn.xlarge", "g5.xlarge"], ["g4dn.xlarge"]),
        ("", ["-x", "y"], []),
        ("mi300x", ["t4", "l40s"], []),
    ],
)
def test_a_name_is_known_in_other_letters_and_by_its_beginning(word: str, words: list[str], near: list[str]) -> None:
    assert meant(word, words) == near
    assert suggested(word, words) == (f"did you mean {' or '.join(near)}?" if near else "")

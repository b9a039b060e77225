"""The rounds of the sums: which hosts meet, how often."""

import ast
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from provision.verify.together import sums

SOURCE = Path(sums.__file__).with_name("sumworker.py").read_text()


def rounds(count: int, most: int) -> list[list[tuple[int, int]]]:
    """The worker's own function; the module itself runs when it is imported, because it is a program."""
    (function,) = (each for each in ast.parse(SOURCE).body if isinstance(each, ast.FunctionDef) and each.name == "rounds")
    found: dict[str, Any] = {}
    exec(compile(ast.Module([function], []), "sumworker.py", "exec"), found)  # noqa: S102 - our own
    made: list[list[tuple[int, int]]] = found["rounds"](count, most)
    return made


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_each_host_meets_each_other_once_where_the_rounds_suffice(count: int) -> None:
    met = [tuple(sorted(pair)) for each in rounds(count, 7) for pair in each]
    assert sorted(met) == list(combinations(range(count), 2))


@pytest.mark.parametrize("count", [9, 16, 64])
def test_a_large_group_has_seven_rounds_and_no_host_stands_twice_in_one(count: int) -> None:
    made = rounds(count, 7)
    assert len(made) == 7
    for each in made:
        hosts = [host for pair in each for host in pair]
        assert len(hosts) == len(set(hosts)) >= count - 1
    met = [tuple(sorted(pair)) for each in made for pair in each]
    assert len(met) == len(set(met))

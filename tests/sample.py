"""A part of each matrix: what `make test` runs of the cases that `make test-all` runs whole.

A number chooses the part. By default it is the count of commits, so that ten commits in a row run every case. A matrix has the mark
`matrix`. Its tests take a part of their cases with `part` or `after`; or the mark says `of=3`, and each test, class or file with it runs at
one number of three: at `turn=1`, or at one that its name decides.
"""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeVar

import pytest

T = TypeVar("T")
PARTS: Final = 10
COMMIT: Final = "commit"
_chosen: int | None = None


def choose(said: str) -> None:
    """Take the part of a number, of this commit, or all where nothing was said."""
    global _chosen  # noqa: PLW0603 - one run of the tests takes one part
    _chosen = (of_commit() if said == COMMIT else int(said)) if said else None


def chosen() -> int | None:
    """The number of the part, or None where all cases run."""
    return _chosen


def of_commit() -> int:
    """How many commits lead to this one; where the clone has not all of them, its hash as a number; 0 where there is no clone."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    if git("rev-parse", "--is-shallow-repository") == "true":
        return int(git("rev-parse", "HEAD"), 16)
    return int(git("rev-list", "--count", "HEAD") or 0)


def part(cases: Iterable[T], shift: int = 0) -> list[T]:
    """A tenth of the cases, and at least one. With another shift it is another tenth."""
    everything = list(cases)
    if _chosen is None or not everything:
        return everything
    step = min(PARTS, len(everything))
    return everything[(_chosen + shift) % step :: step]


def after(number: int) -> int:
    """The number of the case that follows this one, where nobody knows how many there are; the first follows 0."""
    if _chosen is None:
        return number + 1
    return number + PARTS if number else 1 + _chosen % PARTS


def left_out(items: Iterable[pytest.Item], files: int = 1) -> list[pytest.Item]:
    """The tests whose turn it is not; with `files` one file of so many has its turn. It is the same however many tests are collected."""
    if _chosen is None:
        return []
    return [item for item in items if _turn(item.nodeid.partition("::")[0]) % files != _chosen % files or not _is_due(item, _chosen)]


def _is_due(item: pytest.Item, number: int) -> bool:
    marks = ((node.nodeid, mark.kwargs) for node, mark in item.iter_markers_with_node("matrix"))
    return all((number - kw.get("turn", _turn(name))) % kw.get("of", 1) == 0 for name, kw in marks)


def _turn(name: str) -> int:
    return zlib.crc32(name.encode())

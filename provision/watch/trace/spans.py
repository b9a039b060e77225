"""Sums of time that overlaps, in one pass and without memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A part of time."""

    start: int
    end: int


class Union:
    """The length of a union of spans that come in the order of their starts; each is cut to the window."""

    def __init__(self, began: int, ended: int) -> None:
        self._began, self._ended = began, ended
        self.length = 0
        self.reached = began

    def add(self, start: int, end: int) -> None:
        """One more span."""
        start, end = max(start, self.reached), min(end, self._ended)
        if end > start:
            self.length += end - start
        self.reached = max(self.reached, min(end, self._ended))


class Covered:
    """The spans of one thread, merged: how much of an interval they cover."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in spans:
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def within(self, start: int, end: int) -> int:
        """How much of it is covered."""
        return sum(b - a for a, b in self.parts(start, end))

    def parts(self, start: int, end: int) -> list[Span]:
        """The covered parts of it."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return [Span(max(start, self._starts[i]), min(end, self._ends[i])) for i in range(first, last)]

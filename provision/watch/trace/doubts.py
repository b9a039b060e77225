"""Why a verdict is less than sure, or why there is none: kinds with their figures, and each in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from provision.structs import Struct


class DoubtKind(StrEnum):
    """What speaks against a label."""

    NO_WORK = "no-work"
    TOO_FEW = "too-few"
    TOO_SHORT = "too-short"
    PART_MISSING = "part-missing"
    UNEXPLAINED = "unexplained"
    UNCORRELATED = "uncorrelated"
    OVERHEAD = "overhead"
    HALVES_DIFFER = "halves-differ"
    HOST_SLOWED = "host-slowed"
    ONE_GAP = "one-gap"
    RIVAL = "rival"
    NEAR_THRESHOLD = "near-threshold"
    NOTHING_LARGE = "nothing-large"


class Doubt(Struct):
    """One reason; its figure and its words, where the kind has some."""

    kind: DoubtKind
    figure: float = 0.0
    least: float = 0.0
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return _TEXTS[self.kind](self)


_TEXTS: Final[Mapping[DoubtKind, Callable[[Doubt], str]]] = {
    DoubtKind.NO_WORK: lambda doubt: ": ".join(("no GPU work in this trace", *doubt.words)),
    DoubtKind.TOO_FEW: lambda doubt: f"too few operations of a GPU: {doubt.figure:.0f}, and {doubt.least:.0f} are needed",
    DoubtKind.TOO_SHORT: lambda doubt: f"{doubt.figure:.0f} ms are short, and may not be like the rest: {doubt.least:.0f} ms are better",
    DoubtKind.PART_MISSING: lambda doubt: f"the gaps are not explained: missing in the trace: {', '.join(doubt.words)}",
    DoubtKind.UNEXPLAINED: lambda doubt: f"{doubt.figure:.0%} of the time is gaps before work whose call is not in the trace",
    DoubtKind.UNCORRELATED: lambda doubt: f"{doubt.figure:.0%} of the operations have no call in the trace",
    DoubtKind.OVERHEAD: lambda doubt: f"the profiler itself took {doubt.figure:.0%} of the time",
    DoubtKind.HALVES_DIFFER: lambda doubt: f"the two halves of the trace have different labels: {', '.join(doubt.words)}",
    DoubtKind.HOST_SLOWED: lambda doubt: (
        f"the profiler makes the host up to {doubt.figure:g} times slower: these gaps are shorter without it"
    ),
    DoubtKind.ONE_GAP: lambda doubt: f"one gap is {doubt.figure:.0%} of the idle time",
    DoubtKind.RIVAL: lambda doubt: f"another cause is about as large: {doubt.words[0]}, {doubt.figure:.0%}",
    DoubtKind.NEAR_THRESHOLD: lambda _: "the share is near its threshold",
    DoubtKind.NOTHING_LARGE: lambda _: "nothing reaches its threshold",
}

"""Which recipes run for how long: the plans of `--quick` and `--full`, and what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from provision.structs import Struct, field

START_S: Final = 15.0
"""To connect, and for PyTorch to start; from a cold disk it takes longer."""
CELL_S: Final = 1.08
"""What a recipe takes of its time, on the whole: buffers are made and kernels are chosen outside of it."""


class BenchStep(Struct):
    """One recipe: on `all` GPUs at once, `each` in turn, the `first`, or over growing groups for `sums`. The seconds are for all rounds.

    A recipe of the `host` is a program that somebody else installed there; it comes after all others.
    """

    recipe: str
    ranks: str
    seconds: float
    options: dict[str, Any] = field(default_factory=dict)

    def order(self) -> dict[str, Any]:
        """As the host reads it."""
        return {"recipe": self.recipe, "ranks": self.ranks, "seconds": self.seconds, "options": self.options}


_PROCESSOR: Final = {"threads": [1, 2, 4, 8, 16, 32], "cell_s": 20}
QUICK: Final = (
    BenchStep("gemm", "all", 20),
    BenchStep("memory", "all", 3),
    BenchStep("copies", "each", 4),
    BenchStep("copies", "all", 3),
    BenchStep("peers", "each", 4),
    BenchStep("peers", "sums", 6),
    BenchStep("launch", "first", 2),
    BenchStep("amp", "all", 10),
    BenchStep("alignment", "first", 6),
    BenchStep("intensity", "first", 6),
    BenchStep("minibatch", "first", 8),
    BenchStep("minibatch", "first", 15, {"threads": [4, 16], "cell_s": 5}),
    BenchStep("dcgm", "host", 5),
    BenchStep("nccl", "host", 5),
)
FULL: Final = (
    BenchStep("gemm", "all", 210, {"precisions": ["bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64"], "sizes": [8192, 4096]}),
    BenchStep("memory", "all", 10),
    BenchStep("copies", "each", 16),
    BenchStep("copies", "all", 10),
    BenchStep("peers", "each", 20),
    BenchStep("peers", "sums", 30),
    BenchStep("launch", "first", 8),
    BenchStep("amp", "all", 40),
    BenchStep("alignment", "first", 30),
    BenchStep("intensity", "first", 30),
    BenchStep("minibatch", "first", 30),
    BenchStep("minibatch", "first", 150, _PROCESSOR),
    BenchStep("soak", "all", 120),
    BenchStep("dcgm", "host", 10),
    BenchStep("nccl", "host", 15),
)
RECIPES: Final = tuple(dict.fromkeys(step.recipe for step in FULL))


def chosen(*, full: bool, only: Sequence[str]) -> tuple[BenchStep, ...]:
    """The steps of a plan, or those of some recipes; a recipe that a quick plan lacks is taken from the full one."""
    plan = FULL if full else QUICK
    lacking = [step for step in FULL if step.recipe in set(only) - {step.recipe for step in plan}]
    steps = (step for step in (*plan, *lacking) if not only or step.recipe in only)
    return tuple(sorted(steps, key=lambda step: step.ranks == "host"))


def recipes_of(words: Sequence[str]) -> tuple[str, ...]:
    """The recipes that plans and recipes mean, each once, in the order of the full plan."""
    meant = {step.recipe for word, plan in (("quick", QUICK), ("full", FULL)) if word in words for step in plan} | set(words)
    return tuple(recipe for recipe in RECIPES if recipe in meant)


def seconds(steps: Sequence[BenchStep]) -> float:
    """How long a plan takes."""
    return START_S + CELL_S * sum(step.seconds for step in steps)

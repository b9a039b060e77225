"""Which recipes run for how long: the plans of `--quick` and `--full`, and what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

START_S: Final = 15.0
"""To connect, and for PyTorch to start; from a cold disk it takes longer."""
CELL_S: Final = 1.08
"""What a recipe takes of its time, on the whole: buffers are made and kernels are chosen outside of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One recipe: on `all` GPUs at once, `each` in turn, the `first`, or over growing groups for `sums`. The seconds are for all rounds."""

    recipe: str
    ranks: str
    seconds: float
    options: dict[str, Any] = field(default_factory=dict)

    def order(self) -> dict[str, Any]:
        """As the host reads it."""
        return {"recipe": self.recipe, "ranks": self.ranks, "seconds": self.seconds, "options": self.options}


_PROCESSOR: Final = {"threads": [1, 2, 4, 8, 16, 32], "cell_s": 20}
QUICK: Final = (
    Step("gemm", "all", 20),
    Step("memory", "all", 3),
    Step("copies", "each", 4),
    Step("copies", "all", 3),
    Step("peers", "each", 4),
    Step("peers", "sums", 6),
    Step("launch", "first", 2),
    Step("amp", "all", 10),
    Step("alignment", "first", 6),
    Step("intensity", "first", 6),
    Step("minibatch", "first", 8),
    Step("minibatch", "first", 15, {"threads": [4, 16], "cell_s": 5}),
)
FULL: Final = (
    Step("gemm", "all", 210, {"precisions": ["bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64"], "sizes": [8192, 4096]}),
    Step("memory", "all", 10),
    Step("copies", "each", 16),
    Step("copies", "all", 10),
    Step("peers", "each", 20),
    Step("peers", "sums", 30),
    Step("launch", "first", 8),
    Step("amp", "all", 40),
    Step("alignment", "first", 30),
    Step("intensity", "first", 30),
    Step("minibatch", "first", 30),
    Step("minibatch", "first", 150, _PROCESSOR),
    Step("soak", "all", 120),
)
RECIPES: Final = tuple(dict.fromkeys(step.recipe for step in FULL))


def chosen(*, full: bool, only: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a plan, or those of some recipes; a recipe that a quick plan lacks is taken from the full one."""
    plan = FULL if full else QUICK
    lacking = [step for step in FULL if step.recipe in set(only) - {step.recipe for step in plan}]
    return tuple(step for step in (*plan, *lacking) if not only or step.recipe in only)


def seconds(steps: Sequence[Step]) -> float:
    """How long a plan takes."""
    return START_S + CELL_S * sum(step.seconds for step in steps)

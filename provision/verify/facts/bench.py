"""The last measurement of the host's GPUs, which the client adds: what the host said then, and what others of its kind had measured."""

from typing import Annotated, Literal

from pydantic import Field

from provision.verify.facts.base import Count, Fact

Median = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
_Many = Field(max_length=20_000)


class BenchFacts(Fact):
    """A run of `gpuprov bench`.

    Attributes:
        began: seconds since 1970, by the client's clock.
        plan: the plan that was asked for, also where only some of its recipes were.
        lines: what the host said, as it is parsed by `verify.bench.figures`.
        own: figure → the median of this machine's runs before it.
        fleet: figure → the median of other machines with the same card, and how many they are.
    """

    name = "bench"
    began: Annotated[float, Field(ge=0, le=1e11)]
    plan: Literal["quick", "full"]
    lines: Annotated[tuple[str, ...], _Many]
    own: Annotated[dict[str, Median], _Many] = Field(default_factory=dict)
    fleet: Annotated[dict[str, tuple[Median, Count]], _Many] = Field(default_factory=dict)

"""What `verify` demands of a host beside the profile's other keys, and which findings are waived."""

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from provision.profile.strings import CheckId, Email, Text
from provision.strict import StrictModel, later

BenchWord = Literal[
    "quick",
    "full",
    "gemm",
    "memory",
    "copies",
    "peers",
    "launch",
    "amp",
    "alignment",
    "intensity",
    "minibatch",
    "soak",
    "dcgm",
    "nccl",
]
"""A plan of `gpuprov bench` or one of its recipes, which belong to a later room; a test holds that the two are the same."""


class Waiver(StrictModel):
    """A finding that its owner accepts until a day."""

    check: CheckId
    """The check whose finding is accepted."""
    reason: Text
    """Why, in a sentence for whoever reads the report."""
    owner: Email
    """Who took that decision."""
    expires: Annotated[dt.date, Field(strict=False)]
    """The last day on which it counts. After it the finding fails again."""


class Verification(StrictModel):
    """How much `verify` checks, which measurements it demands, and which findings are waived."""

    tier: Literal["quick", "standard", "perf"] = "standard"
    """How much is checked. `quick` starts no framework and no profiler, `standard` does, and `perf` measures under load."""
    min_free_gb: Annotated[int, Field(ge=0, le=16_384)] = 5
    """The least free space that the root disk must have. Raise it where programs write much there."""
    bench: Annotated[tuple[BenchWord, ...], Field(max_length=20, strict=False)] = later(())
    """What `gpuprov bench` must have measured on these GPUs, with no figure below its gate."""
    bench_days: Annotated[int, Field(ge=1, le=366)] = later(7)
    """How old that measurement may be."""
    waivers: Annotated[tuple[Waiver, ...], Field(max_length=50, strict=False)] = ()
    """Findings that somebody accepts for a time."""

"""Bounds of the numbers and texts that a host says while it is watched or measured."""

from typing import Annotated

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1.05)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=10**18)]
Word = Annotated[str, msgspec.Meta(max_length=100)]
Line = Annotated[str, msgspec.Meta(max_length=300)]

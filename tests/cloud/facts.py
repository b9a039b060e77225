"""The fields of an answer as facts: names and types, and nothing of what somebody's account has."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.cloud import shapes

_TAG: Final = re.compile(r"\[[^\]]+\] tag$")
# Objects whose keys are values.
_MAPS: Final = re.compile(r"\b(labels|userLabels|userMetadata|namedPorts)\.[^ ]+ ")


def fields(answer: Any) -> set[str]:
    """The fields of an answer as `PATH TYPE`."""
    found = (_TAG.sub("[] tag", each) for each in shapes.fields(answer))
    return {_MAPS.sub(r"\1.{} ", each) for each in found}

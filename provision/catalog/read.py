"""The shipped data as typed objects. The files are ours and reviewed, so they are read plainly; tests hold their shape."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Aws", "Image", "Price", "aws"]

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Image:
    """How AWS finds the newest image of a system, and who logs in to it."""

    parameter: str
    login: str
    root_device: str


@dataclass(frozen=True, slots=True)
class Price:
    """An on-demand price in US dollars an hour, with where it was read."""

    usd_per_hour: float
    source: str


@dataclass(frozen=True, slots=True)
class Aws:
    """What is known of AWS.

    Attributes:
        regions: region codes.
        images: (system, version) → image.
        prices: (instance type, region) → price; a pair that is not here is not known.
    """

    regions: tuple[str, ...]
    images: dict[tuple[str, str], Image]
    prices: dict[tuple[str, str], Price]


@functools.cache
def aws() -> Aws:
    """The data of AWS."""
    data: dict[str, Any] = yaml.load((_DATA / "aws.yaml").read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    return Aws(
        regions=tuple(data["regions"]["codes"]),
        images={(i["os"], i["version"]): Image(i["parameter"], i["login"], i["root_device"]) for i in data["images"]},
        prices={(p["instance_type"], p["region"]): Price(p["usd_per_hour"], p["source"]) for p in data["prices"]},
    )

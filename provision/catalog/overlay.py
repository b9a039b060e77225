"""What `gpuprov catalog refresh` learnt: one JSON file in the cache, laid over the shipped data, dated, and whole or not used at all.

The file's first line is the SHA-256 of the rest. A file that was cut off, edited or written by another version is set aside with the
reason, which `gpuprov catalog age` prints; the shipped data is used then, and nothing else changes.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from provision import paths
from provision.catalog.records.base import Source
from provision.catalog.records.clouds import AwsPrice, AwsType

__all__ = ["Overlay", "PartRecord", "path", "problem", "read", "write"]

_SCHEMA: Final = 1


class PartRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One refreshed part: when, from where, and what the other side said that nobody can use yet."""

    name: str
    made_at: dt.datetime
    origin: str
    notes: list[str] = []


class Overlay(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Everything refreshed.

    Attributes:
        aws_types: instance types, their `offered` holding the refreshed regions only.
        aws_regions: the regions that were asked; what they no longer offer is taken away.
        aws_images: region → `ubuntu 24.04` → image id.
        gcp_zones: accelerator → zones; an accelerator that is nowhere any more has none.
        gcp_images: `ubuntu 24.04` → image, as `projects/PROJECT/global/images/NAME`.
        wheels: name of a wheel set → its text.
    """

    schema: int = _SCHEMA
    parts: list[PartRecord] = []
    aws_types: list[AwsType] = []
    aws_regions: list[str] = []
    aws_prices: list[AwsPrice] = []
    aws_images: dict[str, dict[str, str]] = {}
    gcp_zones: dict[str, list[str]] = {}
    gcp_images: dict[str, str] = {}
    wheels: dict[str, str] = {}

    def sources(self) -> dict[str, Source]:
        """The parts as sources, so that a refreshed figure can say where it is from."""
        return {f"refreshed-{p.name}": Source(p.origin, "", p.made_at.date(), "measured") for p in self.parts}

    def over_types(self, base: dict[str, AwsType]) -> dict[str, AwsType]:
        """The base's instance types with the refreshed regions in place of the old ones."""
        asked = set(self.aws_regions)
        fresh = {t.type: t for t in self.aws_types}
        merged = {}
        for name in [*base, *(t for t in fresh if t not in base)]:
            old, new = base.get(name), fresh.get(name)
            kept = {region: zones for region, zones in old.offered.items() if region not in asked} if old else {}
            record = msgspec.structs.replace(new, trap=old.trap if old else new.trap) if new else old
            assert record is not None  # noqa: S101 - the name is a key of one of them
            merged[name] = msgspec.structs.replace(record, offered=kept | (new.offered if new else {}))
        return merged


def path() -> Path:
    """Where the overlay lies: in the cache, or where `GPUPROV_OVERLAY` says, so that a team can share one."""
    given = os.environ.get("GPUPROV_OVERLAY")
    return Path(given) if given else paths.cache_path() / "catalog" / "overlay.json"


def read() -> Overlay:
    """The overlay, or an empty one when there is none or it is not whole."""
    return _load(path())[0]


def problem() -> str:
    """Why an overlay that is there is not used; empty when it is, or there is none."""
    return _load(path())[1]


@functools.cache
def _load(file: Path) -> tuple[Overlay, str]:
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return Overlay(), ""
    except OSError as error:
        return Overlay(), f"cannot be read: {error.strerror}"
    digest, _, body = raw.partition(b"\n")
    if digest.decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
        return Overlay(), "is cut off or was edited: its digest does not hold"
    try:
        overlay = msgspec.json.decode(body, type=Overlay)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Overlay(), f"has another shape: {error}"
    if overlay.schema != _SCHEMA:
        return Overlay(), f"has schema {overlay.schema}, and this release reads {_SCHEMA}"
    return overlay, ""


def write(overlay: Overlay) -> Path:
    """Put an overlay in place of the last one, in one step: a reader sees the old or the new."""
    body = msgspec.json.format(msgspec.json.encode(overlay), indent=1)
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.partial")
    partial.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    partial.replace(target)
    _load.cache_clear()
    return target

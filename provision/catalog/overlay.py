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
from typing import Any, Final, TypeVar, cast

import msgspec

from provision import paths
from provision.catalog.records.base import Source, typed

_SCHEMA: Final = 2
_MOST_BYTES: Final = 32 << 20  # what all regions of all clouds say has a few MiB


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One refreshed part: when, from where, and what the other side said that nobody can use yet."""

    name: str
    made_at: dt.datetime
    origin: str
    notes: list[str] = []


class Overlay(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Everything refreshed.

    Attributes:
        clouds: cloud → what it learnt, as the cloud's own data module shapes it.
        wheels: name of a wheel set → its text.
        packages: a group of repositories → package → its versions, the newest first.
    """

    schema: int = _SCHEMA
    parts: list[Part] = []
    clouds: dict[str, dict[str, Any]] = {}
    wheels: dict[str, str] = {}
    packages: dict[str, dict[str, list[str]]] = {}

    def sources(self) -> dict[str, Source]:
        """The parts as sources, so that a refreshed figure can say where it is from."""
        return {f"refreshed-{p.name}": Source(p.origin, "", p.made_at.date(), "measured") for p in self.parts}

    def with_part(self, name: str, origin: str, **changes: Any) -> Overlay:
        """The same overlay with fields replaced, and a part that says it was refreshed now."""
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)
        parts = [*(part for part in self.parts if part.name != name), Part(name, now, origin)]
        return msgspec.structs.replace(self, parts=parts, **changes)

    def with_cloud(self, cloud: str, layer: msgspec.Struct) -> dict[str, dict[str, Any]]:
        """`clouds` with what one cloud learnt replaced."""
        return {**self.clouds, cloud: msgspec.to_builtins(layer)}


_NONE: Final = Overlay()  # one object, so that what was merged with it is found again whichever file is missing
_S = TypeVar("_S", bound=msgspec.Struct)
_shapes: dict[str, type[msgspec.Struct]] = {}


def register(cloud: str, shape: type[msgspec.Struct]) -> None:
    """Say what an overlay must hold for a cloud, so that one of another shape is set aside as a whole."""
    _shapes[cloud] = shape
    _load.cache_clear()


def part(cloud: str, shape: type[_S]) -> _S:
    """What a refresh learnt about one cloud, in its own shape; the shape's defaults where there was none.

    The same overlay gives the same object, so that what was merged with it is found again.
    """
    return cast("_S", _part(read(), cloud, shape))


@functools.lru_cache(maxsize=8)
def _part(overlay: Overlay, cloud: str, shape: type[msgspec.Struct]) -> msgspec.Struct:
    return typed(overlay.clouds.get(cloud, {}), shape)


def path() -> Path:
    """Where the overlay lies: in the cache, or where `GPUPROV_OVERLAY` says, so that a team can share one."""
    return _path(*map(os.environ.get, ("GPUPROV_OVERLAY", "GPUPROV_CACHE", "XDG_CACHE_HOME", "HOME")))


@functools.lru_cache(maxsize=8)
def _path(own: str | None, *_where_caches_are: str | None) -> Path:
    """The path by the environment that decides it: every judgement asks for it, and platformdirs takes its time."""
    return Path(own) if own else paths.cache_path() / "catalog" / "overlay.json"


def read() -> Overlay:
    """The overlay, or an empty one when there is none or it is not whole."""
    return _load(path())[0]


def problem() -> str:
    """Why an overlay that is there is not used; empty when it is, or there is none."""
    return _load(path())[1]


@functools.cache
def _load(file: Path) -> tuple[Overlay, str]:
    try:
        raw = paths.read_bounded(file, _MOST_BYTES)
    except FileNotFoundError:
        return _NONE, ""
    except OSError as error:
        return Overlay(), f"cannot be read: {error.strerror}"
    digest, _, body = raw.partition(b"\n")
    if digest.decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
        return Overlay(), "is cut off or was edited: its digest does not match"
    try:
        overlay = typed(_of_today(msgspec.json.decode(body)), Overlay)
        for cloud, layer in overlay.clouds.items():
            typed(layer, _shapes.get(cloud, dict))
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        return Overlay(), f"has another shape: {error}"
    if overlay.schema != _SCHEMA:
        return Overlay(), f"has schema {overlay.schema}, and this release reads {_SCHEMA}"
    return overlay, ""


def _of_today(plain: Any) -> Any:
    """An overlay of schema 1 as schema 2 has it: `CLOUD_FIELD` became `clouds.CLOUD.FIELD`."""
    if not isinstance(plain, dict) or plain.get("schema", 1) != 1:
        return plain
    clouds: dict[str, dict[str, Any]] = {}
    for key in [key for key in plain if "_" in key]:
        cloud, _, field = key.partition("_")
        clouds.setdefault(cloud, {})[field] = plain.pop(key)
    return {**plain, "schema": _SCHEMA, "clouds": clouds}


def write(overlay: Overlay) -> Path:
    """Replace the overlay in one step, and return its path."""
    body = msgspec.json.format(msgspec.json.encode(overlay), indent=1)
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    paths.write_whole(target, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    _load.cache_clear()
    return target

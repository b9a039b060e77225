"""How old the catalog's data is: the dates of the sources that it cites."""

import datetime as dt
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from provision.catalog import read
from provision.catalog.records.base import Source


def cited(records: Any, known: Mapping[str, Source]) -> list[Source]:
    """The sources that records cite, the oldest first."""
    ids = {word for word in _words(msgspec.to_builtins(records)) if word in known}
    return sorted((known[key] for key in ids), key=lambda source: (source.date, source.title))


def _words(plain: Any) -> Iterator[str]:
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict):
        for key, value in plain.items():
            yield from _words(key)
            yield from _words(value)
    elif isinstance(plain, Iterable):
        for value in plain:
            yield from _words(value)


@functools.cache
def stack_parts() -> dict[str, Any]:
    """Part → its records, for what ships about hardware and software; the names of the stack's are those of the resolver's variables."""
    return {
        "gpu": read.gpus(),
        "os": read.systems(),
        "driver": read.driver(),
        "cuda": read.toolkits(),
        "cudnn": read.cudnn(),
        **read.frameworks(),
        "extras": list(read.extras().values()),
        "repositories": read.repositories(),
        "refused": read.refused(),
    }


@functools.cache
def day_of(part: str) -> dt.date:
    """The day of a part of the stack: that of the newest of its sources."""
    return cited(stack_parts()[part], read.sources())[-1].date

"""What all records share: frozen rows that refuse unknown fields, versions that compare, sources, spans of compute capability."""

import datetime as dt
import functools
import threading
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

Grade = Literal["measured", "documented", "third-party", "inferred", "memory"]
Covers = dict[str, list[str]]
_T = TypeVar("_T")
# msgspec (seen with 0.22) looks at a type when it first meets it, and ends the process where two threads do so at once.
_CONVERTING: Final = threading.Lock()


@functools.cache
def version(text: str) -> tuple[int, ...]:
    """A dotted version as a tuple that compares; a local part (`+cu126`) does not count."""
    return tuple(int(part) for part in text.partition("+")[0].split("."))


def typed(plain: Any, shape: type[_T], *, strict: bool = True, str_keys: bool = False) -> _T:
    """Plain data as records of a type, in whatever thread; without `strict` a number may stand in a text, with `str_keys` in a key.

    Raises:
        msgspec.ValidationError: it has another shape.
    """
    with _CONVERTING:
        return msgspec.convert(plain, shape, strict=strict, str_keys=str_keys)


class CatalogRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen row of the catalog; an unknown field is an error."""

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON-compatible data."""
        return cast("dict[str, Any]", msgspec.to_builtins(self))


class Source(CatalogRecord, frozen=True):
    """Where a figure was read, when, and how reliable that is."""

    title: str
    url: str
    date: dt.date
    grade: Grade


class Capabilities(CatalogRecord, frozen=True):
    """A span of compute capabilities, both ends included."""

    oldest: str
    newest: str

    def cover(self, capability: str) -> bool:
        """Whether a GPU of this compute capability lies in the span."""
        return version(self.oldest) <= version(capability) <= version(self.newest)

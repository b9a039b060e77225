"""The base of every model that is read from a file or a lock: frozen, strict about types, and closed to unknown keys."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class StrictModel(BaseModel):
    """A frozen pydantic model. An unknown key, a value of another type or a very long text is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_max_length=2000, defer_build=True)


def later(default: Any) -> Any:
    """A key of a later release: at its default it is omitted, so that the digest of an older file, which may be signed, stays the same."""
    return Field(default, exclude_if=lambda value: value == default)

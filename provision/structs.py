"""Records as structs of msgspec. A dataclass compiles its methods at each start, which takes forty times as long.

A record that hides a field in its text or leaves one out of comparison is a dataclass. So is one that pydantic checks, or that runs on a
host without gpuprov.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, cast, dataclass_transform

import msgspec
from msgspec import field

__all__ = ["MutableStruct", "Struct", "asdict", "field", "replace"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, frozen=True):
    """A record that never changes: equal where its fields are equal."""


@dataclass_transform(field_specifiers=(field,))
class MutableStruct(msgspec.Struct):
    """A record that changes: what a run keeps of itself."""


if TYPE_CHECKING:  # mypy checks the names of the fields, of a struct too
    from dataclasses import replace
else:

    def replace(record, /, **changes):  # noqa: ANN001, ANN003, ANN201
        """The record with some of its fields changed; it may be a dataclass too.

        `msgspec.structs.replace` of msgspec 0.19 does not call `__post_init__`, in which records check what they are given.
        """
        if isinstance(record, msgspec.Struct):
            return type(record)(**{**msgspec.structs.asdict(record), **changes})
        return dataclasses.replace(record, **changes)


def asdict(record: object) -> dict[str, Any]:
    """The record as a dictionary, with the records in it as dictionaries too. Times, paths and bytes stay what they are."""
    if isinstance(record, msgspec.Struct):
        return {name: _plain(getattr(record, name)) for name in record.__struct_fields__}
    return {each.name: _plain(getattr(record, each.name)) for each in dataclasses.fields(cast("Any", record))}


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            items = [_plain(each) for each in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)  # a named tuple takes them one by one
    return asdict(value) if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value) else value

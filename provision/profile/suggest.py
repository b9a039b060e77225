"""Turn pydantic's errors into complaints for people: line, key, what is wrong, and what to write instead."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from provision.profile.model import Profile
from provision.profile.plain import Complaint, KeyPath, PlainFile

_UNITS: Final = {
    "_gb": "a whole number of GB",
    "_h": "a whole number of hours",
    "_usd": "a number of US dollars",
    "_mhz": "a whole number of MHz",
    "count": "a whole number",
}
_MAX_QUOTED: Final = 60
_ABSENT: Final = object()


def complaints_of(error: ValidationError, file: PlainFile, model: type[BaseModel] = Profile, what: str = "profile") -> list[Complaint]:
    """All complaints, at most one for each key, since pydantic has an error for each branch of a union.

    Args:
        error: pydantic's error for the file's data.
        file: what was validated.
        model: the shape that the file should have.
        what: the word for the model, which is also the command that prints its schema.
    """
    by_key: dict[KeyPath, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # The list only seems too short because its items are invalid, and they have complaints of their own.
        by_key.setdefault(_present(details["loc"], file.data, is_missing=details["type"] == "missing"), []).append(details)
    complaints = []
    for where, several in by_key.items():
        problem, instead = _say(where, several, file, model, what)
        complaints.append(Complaint(_line(where, file.lines), ".".join(map(str, where)), problem, instead))
    return complaints


def _present(loc: KeyPath, document: Any, *, is_missing: bool) -> KeyPath:
    """The part of a location that is in the file: pydantic adds the names of union branches."""
    path: list[str | int] = []
    node: Any = document
    for part in loc:
        inner = _child(node, part)
        if inner is not _ABSENT:
            node = inner
            path.append(part)
    if is_missing:
        path.append(loc[-1])
    return tuple(path)


def _child(node: Any, part: str | int) -> Any:
    """The value of a mapping or list at a key or index, or `_ABSENT`."""
    if isinstance(node, dict):
        return node.get(part, _ABSENT)
    if isinstance(node, list) and isinstance(part, int) and part < len(node):
        return node[part]
    return _ABSENT


def _line(where: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """The line of the key, or of the nearest key around it."""
    while where and where not in lines:
        where = where[:-1]
    return lines.get(where, 1)


def _say(where: KeyPath, details: list[ErrorDetails], file: PlainFile, model: type[BaseModel], what: str) -> tuple[str, str]:
    """What is wrong and what to write, from the most specific of pydantic's errors about one key."""
    text, document = file.texts.get(where), file.data
    first = next((d for d in details if d["type"] not in {"model_type", "literal_error"}), details[0])
    value, kind = first["input"], first["type"]
    key = str(where[-1]) if where else ""
    if kind == "extra_forbidden":
        return f"is not a key of a {what}", _nearest(key, sorted(_keys_at(where[:-1], document, model)))
    if kind == "missing":
        return "is missing", f"add it: {_unit(key) or f'see `gpuprov {what} schema`'}"
    if kind.startswith(("union_tag", "literal_error", "enum")):
        allowed = [
            word
            for d in details
            for word in re.findall(r"'([^']+)'", str(d.get("ctx", {}).get("expected", d.get("ctx", {}).get("expected_tags", ""))))
        ]
        word = first.get("ctx", {}).get("tag", value)
        return f"cannot be {_source(text, word)}", _nearest(str(word), allowed)
    if kind in {"int_type", "int_parsing", "float_type", "float_parsing", "int_from_float"}:
        return f"cannot be {_source(text, value)}", f"write {_unit(key) or 'a number'}, without unit or quotes"
    if kind == "string_type" and text is not None:
        kinds = {bool: "is true or false, not text", int: "is a number", float: "is a number"}
        return f"{kinds.get(type(value), 'is empty')}: {_source(text, value)}", f'quote it: "{text}"' if text else "write a text"
    if kind == "string_pattern_mismatch":
        return f"cannot be {_quote(value)}", f"it must match {first['ctx']['pattern']}"
    if kind in {"model_type", "dict_type", "model_attributes_type"}:
        return f"cannot be {_quote(value)}", f"it has the keys {', '.join(sorted(_keys_at(where, document, model)))}"
    problem = "has keys that conflict" if isinstance(value, dict | BaseModel) else f"cannot be {_quote(value)}"
    return problem, first["msg"].removeprefix("Value error, ")


def _unit(key: str) -> str:
    return next((text for suffix, text in _UNITS.items() if key.endswith(suffix)), "")


def _quote(value: Any) -> str:
    """A value for a message: short, and without characters that a terminal would obey."""
    text = ascii(value) if not isinstance(value, dict | list) else f"a {'mapping' if isinstance(value, dict) else 'list'}"
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"


def _source(text: str | None, value: Any) -> str:
    """A value as it stands in the file, which for `24.10` and `True` is not what Python prints."""
    return _quote(value) if text is None or isinstance(value, str) else _quote(text)[1:-1]


def _nearest(word: str, allowed: list[str]) -> str:
    near = difflib.get_close_matches(word, allowed, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"write one of: {', '.join(allowed)}"


def _keys_at(where: KeyPath, document: Any, model: type[BaseModel]) -> set[str]:
    """The keys of the schema at a location in the file."""
    models: set[type[BaseModel]] = {model}
    node: Any = document
    for part in where:
        node = _child(node, part)
        if isinstance(part, str):
            fields = [field for model in models for name, field in model.model_fields.items() if part in {name, field.alias}]
            models = {model for field in fields for model in _models_in(field.annotation)}
    cloud = node.get("cloud") if isinstance(node, Mapping) else None
    narrowed = {m for m in models if "cloud" in m.model_fields and cloud in get_args(m.model_fields["cloud"].annotation)} or models
    return {field.alias or name for model in narrowed for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation mentions, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)

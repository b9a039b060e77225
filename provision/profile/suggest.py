"""Turn pydantic's errors into complaints for people: line, key, what is wrong, and what to write instead."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from provision.catalog.refused import refused_system
from provision.profile.model import Profile
from provision.profile.plain import Complaint, ComplaintKind, KeyPath, PlainFile, dotted
from provision.profile.sentences import Case, sentence
from provision.structs import Struct

_ABSENT: Final = object()
# Of several errors about one key these say the least.
_VAGUE: Final = frozenset({"model_type", "literal_error"})
_KINDS: Final = {"extra_forbidden": ComplaintKind.KEY, "missing": ComplaintKind.KEY}


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
    shape, complaints = _Shape(file, model, what, _forms(model)), []
    for where, several in by_key.items():
        first = next((d for d in several if d["type"] not in _VAGUE), several[0])
        problem, instead = _known(where, file.data) or sentence(first["type"], shape.case(where, first, several))
        kind = _KINDS.get(first["type"], ComplaintKind.VALUE)
        complaints.append(Complaint(_line(where, file.lines), dotted(where), problem, instead, kind))
    return complaints


class _Shape(Struct):
    """What a file should be: its model, the word for it, and the words for its patterns."""

    file: PlainFile
    model: type[BaseModel]
    what: str
    forms: Mapping[str, str]

    def case(self, where: KeyPath, first: ErrorDetails, several: list[ErrorDetails]) -> Case:
        """The first of several errors about one key, with all that its sentence needs."""
        context, value = first.get("ctx", {}), first["input"]
        at = where[:-1] if first["type"] == "extra_forbidden" else where
        return Case(
            key=str(where[-1]) if where else "",
            value={} if isinstance(value, BaseModel) else value,
            text=self.file.texts.get(where),
            context=context,
            form=self.forms.get(context.get("pattern", ""), ""),
            words=tuple(_words(several) or _tags(_models_at(where, self.model), context)),
            keys=tuple(_keys_of(_models_at(at, self.model), _node_at(at, self.file.data))),
            what=self.what,
            said=str(context["error"]) if first["type"] == "value_error" else "",
        )


def _known(where: KeyPath, document: Any) -> tuple[str, str] | None:
    """The sentence for a system that is refused by name; its version stands beside the name."""
    system = document.get("os") if isinstance(document, dict) and where == ("os", "name") else None
    refusal = refused_system(str(system.get("name")), str(system.get("version"))) if isinstance(system, dict) else None
    return (refusal.why, refusal.instead) if refusal else None


def _words(several: list[ErrorDetails]) -> list[str]:
    """The words that a key takes, from the errors of all branches; `Literal[1]` has a number."""
    expected = [str(d.get("ctx", {}).get("expected", d.get("ctx", {}).get("expected_tags", ""))) for d in several]
    return list(dict.fromkeys(quoted or bare for text in expected for quoted, bare in re.findall(r"'([^']+)'|\b(\d+)\b", text)))


def _tags(models: set[type[BaseModel]], context: Mapping[str, Any]) -> list[str]:
    """The values of the key that decides which model is meant."""
    name = str(context.get("discriminator", "")).strip("'")
    fields = [model.model_fields[name] for model in models if name in model.model_fields]
    return sorted(f"{name}: {word}" for each in fields for word in get_args(each.annotation))


@functools.cache
def _forms(model: type[BaseModel]) -> dict[str, str]:
    """Pattern → what it takes in words, which each type says beside its pattern."""

    def walk(node: Any) -> Iterator[tuple[str, str]]:
        if isinstance(node, dict) and isinstance(node.get("pattern"), str):
            yield node["pattern"], node.get("description", "")
        for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from walk(inner)

    return {pattern: words for pattern, words in walk(model.model_json_schema(by_alias=True)) if words}


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


def _node_at(where: KeyPath, document: Any) -> Any:
    node: Any = document
    for part in where:
        node = _child(node, part)
    return node


def _line(where: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """The line of the key, or of the nearest key around it."""
    while where and where not in lines:
        where = where[:-1]
    return lines.get(where, 1)


def _models_at(where: KeyPath, model: type[BaseModel]) -> set[type[BaseModel]]:
    """The models that a location in the file may have."""
    models: set[type[BaseModel]] = {model}
    for part in where:
        if isinstance(part, str):
            fields = [field for each in models for name, field in each.model_fields.items() if part in {name, field.alias}]
            models = {inner for field in fields for inner in _models_in(field.annotation)}
    return models


def _keys_of(models: set[type[BaseModel]], node: Any) -> set[str]:
    """The keys of the models, only of the right cloud's where the file names one."""
    cloud = node.get("cloud") if isinstance(node, Mapping) else None
    narrowed = {m for m in models if "cloud" in m.model_fields and cloud in get_args(m.model_fields["cloud"].annotation)} or models
    return {field.alias or name for model in narrowed for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation mentions, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)

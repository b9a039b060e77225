"""What each key of a profile is for, in a sentence: the docstring under the field in the schema's own source.

The source is read when somebody asks, so that no other command waits for it.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from provision import paths
from provision.profile.model import Profile
from provision.strict import StrictModel


def models(kind: type[StrictModel] = StrictModel) -> Iterator[type[StrictModel]]:
    """Every model of the package that is loaded, those of a profile among them."""
    for each in kind.__subclasses__():
        yield each
        yield from models(each)


@cache
def _documented(path: str) -> dict[str, dict[str, str]]:
    """Class → field → docstring, of one source file."""
    classes = [node for node in ast.parse(paths.text_of(Path(path))).body if isinstance(node, ast.ClassDef)]
    return {each.name: dict(_of(each)) for each in classes}


def _of(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in zip(node.body, node.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def sentences(model: type[StrictModel]) -> dict[str, str]:
    """Key → what it is for, with the keys that a model inherits; a key is named as in YAML."""
    said: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, StrictModel):
            said |= _documented(inspect.getfile(each)).get(each.__name__, {})
    return {field.alias or name: said[name] for name, field in model.model_fields.items() if name in said}


def schema() -> dict[str, Any]:
    """The JSON Schema of a profile in which every key says what it is for, for editors."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Profile.model_json_schema(by_alias=True)}
    by_name = {each.__name__: each for each in models()}
    for name, part in [("Profile", found), *found["$defs"].items()]:
        for key, said in sentences(by_name[name]).items() if name in by_name else ():
            takes = part["properties"][key].get("description")
            part["properties"][key]["description"] = f"{said} It takes {takes}." if takes else said
    return found

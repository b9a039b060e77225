"""The reference of the profile: every key of the schema with what it takes, its default, its unit, an example, and why one would change it.

The sentences are the schema's own (`provision/profile/described.py`). Examples are read from the profiles that ship, else from
`examples.yml`, which uses what those do not. The build fails when a key has no sentence or no example, or an example is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from docs.site.cells import code, prose, title
from provision import paths
from provision.profile import described
from provision.profile.model import Profile

EXAMPLES: Final = Path(__file__).with_name("examples.yml")
_UNITS: Final = {
    "price_per_hour_usd": "US dollars an hour",
    "_gb": "GB, of 10^9 bytes at a cloud that counts so",
    "_h": "hours",
    "_mhz": "MHz",
    "_days": "days",
}
_FIRST: Final = "t4-train"  # whose examples come first
_LONGEST: Final = 90


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        path: with dots; `[]` after a list, `.*` for any word.
        cloud: whose places have it; empty where it is not about one cloud.
        node: its JSON Schema.
        needed: whether a profile, or its part, must have it.
        why: what it is for.
    """

    path: str
    cloud: str
    node: dict[str, Any]
    needed: bool
    why: str

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return "-".join(each for each in (self.cloud, self.path.replace("[]", "").replace(".", "-")) if each)


@cache
def keys() -> tuple[Key, ...]:
    """Every key of the schema, in its order; keys of places once for each cloud."""
    return tuple(_Walk().keys("Profile", Profile.model_json_schema(by_alias=True), "", ""))


class _Walk:
    """Through the schema, with the models behind its parts."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = Profile.model_json_schema(by_alias=True)["$defs"]
        self._models = {each.__name__: each for each in described.models()}

    def keys(self, name: str, part: dict[str, Any], path: str, cloud: str) -> Iterator[Key]:
        """The keys of one part and of what is below it."""
        said = described.sentences(self._models[name])
        for key, node in part["properties"].items():
            whole = f"{path}.{key}" if path else key
            yield Key(whole, cloud, node, key in part.get("required", ()), said.get(key, ""))
            yield from self._below(node, whole, cloud)

    def _below(self, node: dict[str, Any], path: str, cloud: str) -> Iterator[Key]:
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            part = self._parts[name]
            if "properties" in part:
                own = part["properties"].get("cloud", {}).get("const", "") if path == "places[]" else ""
                yield from self.keys(name, part, path, own or cloud)
        for each in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
            yield from self._below(each, path, cloud)
        if "items" in node:
            yield from self._below(node["items"], f"{path}[]", cloud)

    def takes(self, node: dict[str, Any]) -> str:
        """What may stand there, in words."""
        if "$ref" in node:
            part = self._parts[node["$ref"].rsplit("/", 1)[1]]
            return "the keys below" if "properties" in part else self.takes(part)
        choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        if choices:
            words = [self.takes(each) for each in choices if each.get("type") != "null"]
            return ", or ".join(dict.fromkeys(words))
        if "const" in node or "enum" in node:
            return " or ".join(code(_yaml(each)) for each in node.get("enum", [node.get("const")]))
        return self._of_type(node)

    def _of_type(self, node: dict[str, Any]) -> str:
        match node.get("type"):
            case "array":
                most = f", {node['maxItems']} at most" if "maxItems" in node else ""
                return f"a list{most}, each: {self.takes(node['items'])}"
            case "object":
                return "your own words and values for them: " + self.takes(node["additionalProperties"])
            case "boolean":
                return "`true` or `false`"
            case "integer" | "number" as kind:
                return ("a whole number" if kind == "integer" else "a number") + _bounds(node)
        if node.get("format") == "date":
            return "a date, such as 2027-03-31"
        return prose(node["description"]) if "description" in node else f"a text of up to {node.get('maxLength', 2000)} characters"


def _bounds(node: dict[str, Any]) -> str:
    low = f" from {node['minimum']}" if "minimum" in node else f" above {node['exclusiveMinimum']}" if "exclusiveMinimum" in node else ""
    above = "," if "exclusiveMinimum" in node else ""
    return f"{low}{above} to {node['maximum']}" if "maximum" in node else low


def _yaml(value: Any) -> str:
    """A value on one line, as it is written in YAML."""
    if isinstance(value, str):
        plain = yaml.safe_dump(value, default_flow_style=True, width=10_000).split("\n")[0]
        return plain.replace("'", '"') if plain.startswith("'") and '"' not in plain else plain
    return json.dumps(value, ensure_ascii=False)


@cache
def _profiles() -> tuple[dict[str, Any], ...]:
    """The data of every profile that examples are taken from."""
    shipped = sorted(path for path in paths.profiles_dir().glob("*.yml") if not path.name.endswith(".lock.yml"))
    shipped.sort(key=lambda path: path.stem != _FIRST)
    found = [yaml.safe_load(path.read_text()) for path in shipped]
    for own in yaml.safe_load_all(EXAMPLES.read_text()):
        Profile.model_validate_json(json.dumps(_over(found[0], own), default=str))
        found.append(own)
    return tuple(found)


def _over(below: Any, above: Any) -> Any:
    """A value put over another; mappings are put together."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: _over(below.get(key), value) for key, value in above.items()}}


def _values(node: Any, parts: list[str], cloud: str) -> Iterator[Any]:
    if not parts:
        yield node
        return
    key, rest = parts[0], parts[1:]
    if isinstance(node, dict) and key.removesuffix("[]") in node:
        below = node[key.removesuffix("[]")]
        for each in below if key.endswith("[]") and isinstance(below, list) else [below]:
            if key != "places[]" or not cloud or each.get("cloud") == cloud:
                yield from _values(each, rest, cloud)


def example(key: Key) -> str:
    """A value of the key from the first profile that has one, as YAML on one line."""
    for data in _profiles():
        for value in _values(data, key.path.split("."), key.cloud):
            if value not in (None, [], {}):
                return _flow(value)
    return ""


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).removesuffix("\n...\n").strip()
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()} …"


def unit(key: Key) -> str:
    """The unit of a figure; empty where there is none."""
    name = key.path.rsplit(".", 1)[-1]
    return next((words for end, words in _UNITS.items() if name == end or (end.startswith("_") and name.endswith(end))), "")


def _default(key: Key) -> str:
    if key.needed:
        return "none, the key is needed"
    value = key.node.get("default")
    return "not set" if value in (None, [], {}) or isinstance(value, dict) else code(_yaml(value))


def _one(key: Key, walk: _Walk) -> Iterator[str]:
    found = example(key)
    assert key.why, f"{key.path} has no sentence: write it as the docstring of the field"
    assert found, f"{key.path} has no example: use it in docs/site/examples.yml"
    where = f" ({key.cloud})" if key.cloud else ""
    yield from (f"### {code(key.path)}{where} {{#{key.anchor}}}", "", prose(key.why), "")
    yield from (f"- **Takes:** {walk.takes(key.node)}", f"- **Default:** {_default(key)}")
    if unit(key):
        yield f"- **Unit:** {unit(key)}"
    last = key.path.rsplit(".", 1)[-1].removesuffix("[]")
    yield from (f"- **Example:** {code(f'{last}: {found}')}", "")


def reference() -> str:
    """Every key, by the part of the profile that it belongs to."""
    walk, lines, last = _Walk(), list[str](), ""
    for key in keys():
        part = key.path.split(".")[0].removesuffix("[]")
        if part != last:
            lines += [f"## {title(part)} {{#part-{part}}}", ""]
            last = part
        lines += _one(key, walk)
    return "\n".join(lines)

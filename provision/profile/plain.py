"""Plain YAML → data, with the line and the text of every value.

Plain means: no aliases, anchors, tags, merge keys or duplicate keys, one document, and limits on size, depth and number of nodes. These are
checked on the stream of events, before anything is expanded. Unquoted values have the meaning of YAML 1.2's core schema; those that YAML
1.1 reads as another value are refused, because their reader cannot know which version is meant.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from provision.errors import counted
from provision.structs import MutableStruct, Struct, asdict, field

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's on libyaml; a build without it has the slower one in Python."""
KeyPath = tuple[str | int, ...]
Lines = Mapping[KeyPath, int]
_REASON: Final = "are refused so that a reviewer sees exactly what gpuprov reads"
_MOST_DIGITS: Final = 18
_SHOWN: Final = 20
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")
# Chapter 10.3.2 of https://yaml.org/spec/1.2.2/
_NULL: Final = re.compile(r"null|Null|NULL|~|")
_BOOLEAN: Final = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_PREFIXES: Final = {"0o": 8, "0x": 16}
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class ComplaintKind(StrEnum):
    """What a complaint is about."""

    FILE = "file"
    """It is not text, not YAML, or more than plain YAML."""
    KEY = "key"
    """A key is unknown, missing, or occurs twice."""
    AMBIGUOUS = "ambiguous"
    """An unquoted value that YAML 1.1 and YAML 1.2 read as two."""
    VALUE = "value"
    """A value has another type or form, or conflicts with another."""
    SYSTEM = "system"
    """The system is not supported, or has no image at a place."""
    UNKNOWN_CHECK = "unknown-check"
    MISSPELT = "misspelt"
    """A type, region or zone that cannot exist: one of its words is a slip away from a known one."""
    STACK = "stack"
    """The demands conflict, or no place can have them: `lock` refuses the same."""
    EXPIRED_WAIVER = "expired-waiver"
    NOT_IN_CATALOG = "not-in-catalog"
    """A type, region or zone that the catalog does not have, and that may be newer than it."""
    UNAVAILABLE = "unavailable"
    """A location that `up` skips, since it does not have what is asked for."""
    ADVICE = "advice"
    """The stack goes against the catalog's advice."""

    @property
    def severity(self) -> Literal["error", "warning"]:
        """Whether the profile is refused."""
        return "warning" if self in _WARNINGS else "error"


_WARNINGS: Final = frozenset({ComplaintKind.EXPIRED_WAIVER, ComplaintKind.NOT_IN_CATALOG, ComplaintKind.UNAVAILABLE, ComplaintKind.ADVICE})


class Complaint(Struct):
    """One thing wrong with a profile file; `key` is dotted and empty for the file as a whole."""

    line: int
    key: str
    problem: str
    instead: str
    kind: ComplaintKind = ComplaintKind.FILE

    @property
    def is_error(self) -> bool:
        """Whether the file is refused for it."""
        return self.kind.severity == "error"

    def as_dict(self) -> dict[str, Any]:
        """The complaint as JSON-compatible data."""
        return {"severity": self.kind.severity, **asdict(self)}

    def line_of(self, path: Path) -> str:
        """The complaint as one line that editors can jump to."""
        where = f"{self.key}: " if self.key else ""
        return f"  {path}:{self.line}: {where}{self.problem}; {self.instead}"


class Bounds(Struct):
    """What a file may be: its size in bytes, how deep it is nested, and how many nodes it has."""

    size: int
    depth: int
    nodes: int


class PlainFile(MutableStruct):
    """A file that was read.

    Attributes:
        data: what it holds; it counts only without complaints.
        lines: the line of each key, from 1.
        texts: what stands in the file for each unquoted value.
        complaints: what is wrong with it.
    """

    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    complaints: list[Complaint] = field(default_factory=list)


def read(raw: bytes, bounds: Bounds, what: str) -> PlainFile:
    """Read plain YAML.

    Args:
        raw: the file's bytes.
        bounds: what they may be.
        what: the word for the file in complaints.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return PlainFile(complaints=[_no_text(raw[: error.start].count(b"\n") + 1)])
    try:
        complaint = foreign(text, bounds, what)
        if complaint:
            return PlainFile(complaints=[complaint])
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not YAML: {error.problem}"
        return PlainFile(complaints=[Complaint(mark.line + 1 if mark else 1, "", problem, "check indentation, colons and quotes")])
    except yaml.reader.ReaderError as error:
        return PlainFile(complaints=[_no_text(text.partition(chr(error.character))[0].count("\n") + 1)])
    if node is None:
        return PlainFile(complaints=[Complaint(1, "", "the file is empty", f"start from `gpuprov {what} schema`")])
    file = PlainFile()
    file.data = _value(node, (), file)
    return file


def foreign(raw: bytes | str, bounds: Bounds, what: str) -> Complaint | None:
    """The first feature or size that is not plain. Only events are read, so nothing is expanded.

    Args:
        raw: the file.
        bounds: what it may be.
        what: the word for the file.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    if len(raw) > bounds.size:
        return Complaint(1, "", f"larger than {bounds.size // 1024} KiB", f"a {what} is one purpose; split it")
    depth = documents = line = 0
    for nodes, event in enumerate(yaml.parse(raw, Loader=LOADER)):
        line = event.start_mark.line + 1 if event.start_mark else line
        if isinstance(event, yaml.AliasEvent):
            return Complaint(line, "", f"uses the alias *{event.anchor}", f"write the value out; aliases {_REASON}")
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            return Complaint(line, "", f"uses the anchor &{event.anchor}", f"remove it; anchors {_REASON}")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag:
            return Complaint(line, "", f"uses the tag {event.tag}", "remove it; values are plain text, numbers, true or false")
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > bounds.depth:
            return Complaint(line, "", f"is nested more than {bounds.depth} deep", f"no {what} is")
        if nodes > bounds.nodes:
            return Complaint(line, "", f"holds more than {bounds.nodes} values", f"a {what} is one machine purpose; split it")
        if documents > 1:
            return Complaint(line, "", "holds more than one YAML document", f"write one {what} per file")
    return None


def listed(head: str, complaints: Sequence[Complaint], path: Path) -> str:
    """A message with the complaints in the order of their lines; of very many only the first, and how many there are."""
    ordered = sorted(complaints, key=lambda complaint: complaint.line)
    lines = [f"{head} ({counted(len(ordered), 'error')})", *(c.line_of(path) for c in ordered[:_SHOWN])]
    return "\n".join([*lines, *([f"  … and {len(ordered) - _SHOWN} more"] if len(ordered) > _SHOWN else [])])


def dotted(at: KeyPath) -> str:
    """A key as messages name it, such as `places.0.regions.1`."""
    return ".".join(map(str, at))


def _no_text(line: int) -> Complaint:
    return Complaint(line, "", "not YAML: it holds a character that no text has, or is not UTF-8", "save the file as UTF-8 text")


def _value(node: yaml.Node, at: KeyPath, file: PlainFile) -> Any:
    """A node as plain data. Fills the file's lines and texts, and adds its complaints."""
    file.lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*at, index), file) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, at, file)
    assert isinstance(node, yaml.MappingNode)  # noqa: S101 - YAML has three kinds of nodes
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line, key = key_node.start_mark.line + 1, key_node.value
        if not isinstance(key_node, yaml.ScalarNode) or key == "<<" or not _KEY.fullmatch(key):
            problem = "has a key that is not a plain word"
            file.complaints.append(Complaint(line, dotted(at), problem, "keys are lower-case words joined by _"))
        elif key in mapping:
            problem = f"occurs twice (first in line {file.lines[*at, key]})"
            file.complaints.append(Complaint(line, dotted((*at, key)), problem, "keep one of them"))
        else:
            file.lines[*at, key] = line
            mapping[key] = _value(value_node, (*at, key), file)
    return mapping


def _scalar(node: yaml.ScalarNode, at: KeyPath, file: PlainFile) -> Any:
    text = node.value
    if node.style:
        return text
    file.texts[at] = text
    line = node.start_mark.line + 1
    if len(text) > _MOST_DIGITS and (_INTEGER.fullmatch(text) or _FLOAT.fullmatch(text)):
        file.complaints.append(Complaint(line, dotted(at), "has more digits than any number here", "quote it if it is text"))
        return None
    value = _core(text)
    if _differs(text, value):
        problem = f"cannot be {text}, which YAML 1.1 and YAML 1.2 read as two values"
        file.complaints.append(Complaint(line, dotted(at), problem, f'write "{text}"', ComplaintKind.AMBIGUOUS))
        return text
    return value


def _core(text: str) -> Any:
    """What an unquoted text means in YAML 1.2's core schema."""
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text[2:], _PREFIXES[text[:2]]) if text[:2] in _PREFIXES else int(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _differs(text: str, value: Any) -> bool:
    """Whether YAML 1.1 reads another value; a date is text to both of us, and its reader sees the same."""
    tag: str = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # PyYAML is not typed
    if tag == _TIMESTAMP:
        return False
    try:
        older = yaml.constructor.SafeConstructor().construct_object(yaml.ScalarNode(tag, text))
    except (ValueError, yaml.YAMLError):
        return tag != "tag:yaml.org,2002:str"
    return type(older) is not type(value) or bool(older != value and older == older)  # noqa: PLR0124 - NaN is not itself

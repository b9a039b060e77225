"""The filter grammar of list calls: comparisons joined by AND, OR, NOT and parentheses (AIP-160), and Compute Engine's older `eq` and `ne`.

labels.gpuprov-name = "a b" AND (status = RUNNING OR status = STAGING) AND labels.owner:* AND NOT name = x*
"""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

from provision.rehearsal.gcp.refusals import invalid

_TOKEN: Final = re.compile(r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<sign>!=|<=|>=|[=:<>()])|(?P<word>[^\s()=!:<>"']+))""")
_SIGNS: Final = {"=", "!=", ":", "eq", "ne", "<", ">", "<=", ">="}

Test = Callable[[dict[str, Any]], bool]


def matcher(expression: str | None) -> Test:
    """A function that says whether a resource passes a filter; everything passes an empty one.

    Raises:
        ComputeError: it is not a filter.
    """
    if not expression or not expression.strip():
        return lambda _: True
    tokens, position = [], 0
    while position < len(expression.rstrip()):
        match = _TOKEN.match(expression, position)
        if not match:
            raise _no_filter(expression)
        tokens.append(match.group().strip())
        position = match.end()
    parser = _Parser(tokens)
    try:
        test = parser.all_of()
    except (IndexError, re.error) as error:
        raise _no_filter(expression) from error
    if parser.tokens:
        raise _no_filter(expression)
    return test


def _no_filter(expression: str) -> Exception:
    return invalid("filter", expression, "Invalid list filter expression.")


class _Parser:
    """Recursive descent; in this grammar OR binds tighter than AND, and side by side means AND."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def all_of(self) -> Test:
        parts = [self.any_of()]
        while self.tokens and self.tokens[0] != ")":
            if self.tokens[0] == "AND":
                self.tokens.pop(0)
            parts.append(self.any_of())
        return lambda resource: all(part(resource) for part in parts)

    def any_of(self) -> Test:
        parts = [self.one()]
        while self.tokens and self.tokens[0] == "OR":
            self.tokens.pop(0)
            parts.append(self.one())
        return lambda resource: any(part(resource) for part in parts)

    def one(self) -> Test:
        first = self.tokens.pop(0)
        if first == "NOT":
            inner = self.one()
            return lambda resource: not inner(resource)
        if first == "(":
            inner = self.all_of()
            if self.tokens.pop(0) != ")":
                raise IndexError
            return inner
        sign = self.tokens.pop(0)
        if sign not in _SIGNS or not re.fullmatch(r"[\w.\-]+", first):
            raise IndexError
        return _comparison(first, sign, self.tokens.pop(0))


def _comparison(path: str, sign: str, token: str) -> Test:
    value = re.sub(r"\\(.)", r"\1", token[1:-1]) if token[:1] in {'"', "'"} else token
    if sign in {"eq", "ne"}:
        pattern = re.compile(value)
        return lambda resource: bool(pattern.fullmatch(_text(_at(resource, path)))) == (sign == "eq")
    if sign in {"=", "!="}:
        return lambda resource: _equal(_at(resource, path), value) == (sign == "=")
    if sign == ":":
        return lambda resource: _has(_at(resource, path), value)
    return lambda resource: _compare(_text(_at(resource, path)), sign, value)


def _at(resource: dict[str, Any], path: str) -> Any:
    """The value at a dotted path; a label's name may hold dots itself."""
    value: Any = resource
    names = path.split(".")
    for number, name in enumerate(names):
        if not isinstance(value, dict):
            return None
        rest = ".".join(names[number:])
        if rest in value:
            return value[rest]
        value = value.get(name)
    return value


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _equal(value: Any, pattern: str) -> bool:
    return value is not None and fnmatchcase(_text(value), pattern.replace("[", "[[]").replace("?", "[?]"))


def _has(value: Any, pattern: str) -> bool:
    if pattern == "*":
        return value is not None
    if isinstance(value, list | dict):
        return any(_equal(item, pattern) for item in value)
    return pattern in _text(value)


def _compare(value: str, sign: str, bound: str) -> bool:
    """Numbers are compared as numbers, anything else as text."""
    try:
        difference = float(value) - float(bound)
    except ValueError:
        difference = (value > bound) - (value < bound)
    return bool({"<": difference < 0, ">": difference > 0, "<=": difference <= 0, ">=": difference >= 0}[sign])

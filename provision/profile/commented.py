"""YAML with a reason beside each value. Every value is written by the YAML dumper, so that none of them can become structure."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from provision.structs import Struct

_WIDTH: Final = 140


class Entry(Struct):
    """One key.

    Attributes:
        value: plain data; or entries, which stand below the key; or lists of entries, which are its items.
        why: the reason, as a comment.
    """

    key: str
    value: Any
    why: str = ""

    def lines(self, indent: str = "") -> Iterator[str]:
        """The lines of the key and of what stands below it."""
        below = _below(self.value)
        line = f"{indent}{self.key}:" if below else f"{indent}{self.key}: {_flow(self.value)}"
        reason = re.sub(r"\s+", " ", self.why).strip()
        if reason and len(f"{line} # {reason}") > _WIDTH:
            yield from comment(reason, indent)
        elif reason:
            line = f"{line} # {reason}"
        yield line
        for block, is_item in below:
            for number, entry in enumerate(block):
                for at, text in enumerate(entry.lines(f"{indent}    " if is_item else f"{indent}  ")):
                    first = is_item and number == 0 and at == 0
                    yield f"{indent}  - {text.lstrip()}" if first else text


def comment(text: str, indent: str = "") -> Iterator[str]:
    """A text of any length as lines of comments."""
    return (f"{indent}# {line}" for line in textwrap.wrap(text, _WIDTH - len(indent) - 2, break_on_hyphens=False))


def document(heading: str, entries: Sequence[Entry]) -> str:
    """A whole file; what has keys below it stands apart from the rest."""
    parts = ["---", *comment(heading)]
    for entry in entries:
        lines = list(entry.lines())
        parts += ["", *lines] if len(lines) > 1 else lines
    return "\n".join(parts) + "\n"


def _below(value: Any) -> list[tuple[Sequence[Entry], bool]]:
    """The blocks below a key, each with whether it is an item of a list."""
    if not isinstance(value, tuple) or not value:
        return []
    if isinstance(value[0], Entry):
        return [(value, False)]
    return [(item, True) for item in value] if isinstance(value[0], tuple) else []


def _flow(value: Any) -> str:
    """A value on one line; in a list, because a scalar alone would end with a line of its own."""
    plain = list(value) if isinstance(value, tuple) else value
    return str(yaml.safe_dump([plain], default_flow_style=True, allow_unicode=True, width=float("inf"))).strip()[1:-1]

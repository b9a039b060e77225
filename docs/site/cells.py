"""Text of the package as Markdown: nothing in it is taken for a mark, beyond code between backticks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_CODE: Final = re.compile(r"(`[^`]+`)")
_MARKS: Final = re.compile(r"([\\*_\[\]|#])")
_SHORT: Final = ("gpu", "mig", "os")  # names that are abbreviations


def prose(text: str) -> str:
    """One paragraph or cell."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else _MARKS.sub(r"\\\1", part).replace("<", "&lt;") for part in parts)


def code(text: object) -> str:
    """A value as code; a tag of HTML in it stays text."""
    return f"`{text}`" if "`" not in str(text) else f"`` {text} ``"


def title(name: str) -> str:
    """The name of a module or key as a heading."""
    return name.upper() if name in _SHORT else name.capitalize()


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a table, and an empty one after it."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles), *("| " + " | ".join(row) + " |" for row in rows), ""]

"""The review as Markdown, for an issue, a pull request or an archive: the page's twin, section by section.

The templates hold the Markdown, and every value that they print is prose in which nothing is markup, unless a filter below made it a code
span, a cell of a table or a block. So a value that somebody forgets to escape is escaped.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final

from jinja2 import Template
from markupsafe import Markup

from provision.report.base import inert
from provision.report.markdown import code, prose
from provision.report.template import environment
from provision.review import page
from provision.review.against import SIGNS, Shift, by_subject, legend
from provision.review.tree import EnvironmentItem, Review

_PIECE: Final = 390  # `prose` cuts longer text
_CELL: Final = 300


def render(review: Review) -> str:
    """The whole review, without the end of its last line."""
    return template("review.md").render(review=review).rstrip("\n")


def changes(title: str, shifts: Sequence[Shift]) -> str:
    """What changed between two reviews."""
    return template("changes.md").render(title=title, changes=by_subject(shifts), legend=legend(shifts)).rstrip("\n")


def _safe(value: Any) -> Markup:
    """A value on one line in which nothing is markup; a line break in it becomes a space."""
    if isinstance(value, Markup):
        return value
    flat = str(value).replace("\n", " ")
    return Markup("".join(prose(flat[at : at + _PIECE]) for at in range(0, max(1, len(flat)), _PIECE)))  # noqa: S704 - escaped as Markdown


def _cell(value: Any) -> Markup:
    """Prose in a table, whose bars are read before anything else."""
    return Markup(str(_safe(value)).replace("\\|", "&#124;").replace("|", "&#124;"))  # noqa: S704 - as above


def _code(text: str) -> Markup:
    return Markup(code(text))  # noqa: S704 - a code span


def _code_cell(text: str, longest: int = page.LONGEST) -> Markup:
    """A code span in a table."""
    return Markup(code(text, longest).replace("|", "\\|"))  # noqa: S704 - a code span


def _block(lines: Iterable[str], language: str = "text") -> Markup:
    """A fenced block, with a longer fence than any that it holds."""
    text = "\n".join(inert(line, page.LONGEST_PARAMETER) for line in lines)
    fence = "````"
    while fence in text:
        fence += "`"
    return Markup(f"{fence}{language}\n{text}\n{fence}")  # noqa: S704 - fenced


def _pins(environment: EnvironmentItem) -> list[str]:
    """The wheels of an environment, each with its hashes below it."""
    lines = []
    for wheel in environment.wheels:
        lines.append(f"{wheel.name}=={wheel.version}" if wheel.hashes else f"NO HASH: {wheel.name}")
        lines += [f"    sha256:{digest}" for digest in wheel.hashes]
    return lines


def _usd(figure: float | None, digits: int = 2) -> Markup:
    return Markup("not known" if figure is None else f"{figure:.{digits}f} USD")  # noqa: S704 - a number


@functools.cache
def template(name: str) -> Template:
    """A Markdown template, in which every value is inert."""
    jinja = environment(page.TEMPLATES)
    jinja.finalize = _safe
    jinja.filters |= {
        "code": _code,
        "code_cell": _code_cell,
        "short_cell": lambda text: _code_cell(text, _CELL),
        "cell": _cell,
        "block": _block,
        "pins": _pins,
        "data": lambda value: _block(page.pretty(value).split("\n"), "json"),
        "usd": _usd,
    }
    jinja.globals |= {"GLYPHS": page.GLYPHS, "SIGNS": SIGNS}
    return jinja.get_template(name)

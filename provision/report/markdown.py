"""The report for issues, pull requests and summaries of CI jobs: Markdown as GitHub and GitLab read it."""

import functools
import re
from typing import Final

from jinja2 import Template

from provision.report.base import EXPLAINED, GLYPHS, TEMPLATES, inert, pasteable, spans, tally, uneven_checks
from provision.report.template import environment
from provision.verify.finding import Report, summary

# Emphasis, links, HTML, entities, tables, formulas, and the characters by which GitHub recognises an address or a name in plain text.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>#|~&@:.$^])")
# GitHub acts on names, issues and addresses even where they are escaped. Only a code span prevents it.
_REFERENCE: Final = re.compile(r"[@#]|://")
_CELL_WIDTH: Final = 120


def render(*reports: Report, strict: bool = False) -> str:
    """Of several hosts first the checks that some of them do not pass; then each host: its notes, a table, and what does not pass."""
    text = _template().render(reports=[*map(pasteable, reports)], strict=strict, summary=summary(reports), uneven=uneven_checks(reports))
    return text.rstrip("\n")


def prose(text: str) -> str:
    """A sentence in which nothing but the commands between backticks is markup."""
    return "".join(code(part) if is_command or _REFERENCE.search(part) else _MARKUP.sub(r"\\\1", part) for is_command, part in spans(text))


def code(text: str, longest: int = 0) -> str:
    """A code span, in which no markup, link, mention or HTML is recognised: its fence has more backticks than any run in the text."""
    content = inert(text, longest) if longest else inert(text)
    if not content.strip():
        return "(empty)"
    fence = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    edge = " " if content[0] in "` " or content[-1] in "` " else ""
    return f"{fence}{edge}{content}{edge}{fence}"


def _cell(text: str) -> str:
    """A code span within a table, where bars are recognised even before code spans are."""
    return code(text, _CELL_WIDTH).replace("|", "\\|")


@functools.cache
def _template() -> Template:
    jinja = environment(TEMPLATES, autoescape=False)
    jinja.filters |= {"prose": prose, "code": code, "cell": _cell, "tally": tally}
    jinja.globals |= {"GLYPHS": GLYPHS, "EXPLAINED": EXPLAINED}
    return jinja.get_template("report.md")

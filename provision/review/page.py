"""The review as a page: one file that asks nobody for anything, for a browser or for paper, in the look of the reports.

The page is read without its script, which only exports the answers of the checklist. Its policy admits the style and the script that
are written here, by their digests, and nothing else: what a profile says could not run even if the template let it through.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision import report
from provision.report.base import inert, spans
from provision.review.tree import SEVERITIES, Review, Severity

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["GLYPHS", "TONES", "policy", "pretty", "render", "style", "template"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_STYLE: Final = Path(report.__file__).parent / "templates" / "report.css"
_LONGEST: Final = 2_000
_WIDE: Final = 110
# A severity in the colours of an outcome, and a glyph for those who do not see them.
TONES: Final[dict[Severity, str]] = {"high": "fail", "medium": "warn", "low": "unknown", "note": "not-applicable"}
GLYPHS: Final[dict[Severity, str]] = {"high": "▲", "medium": "!", "low": "▽", "note": "i"}


def render(review: Review) -> str:
    """One self-contained page, without the end of its last line."""
    styled = style("review.css")
    script = (_TEMPLATES / "review.js").read_text(encoding="utf-8")
    worst: Severity = next((severity for severity in SEVERITIES if review.count(severity)), "note")
    by_role: dict[str, list[Any]] = {}
    for change in review.changes:
        by_role.setdefault(change.role, []).append(change)
    at: dict[int, list[Any]] = {}
    for risk in review.risks:
        if risk.line is not None:
            at.setdefault(risk.line, []).append(risk)
    return template("review.html").render(
        review=review,
        tone=TONES[worst],
        glyph=GLYPHS[worst],
        counts={severity: review.count(severity) for severity in SEVERITIES if review.count(severity)},
        bars=list(_bars(review)),
        by_role=by_role,
        at=at,
        policy=policy(styled, script),
        style=styled,
        script=script,
    )


def pretty(data: Any, indent: int = 0) -> str:
    """Data as JSON for people: what fits a line is on one. Each line is inert, and still to be escaped."""
    flat = json.dumps(data, ensure_ascii=False)
    if indent + len(flat) <= _WIDE or not isinstance(data, dict | list) or not data:
        return inert(flat, _LONGEST)
    inner, outer = " " * (indent + 2), " " * indent
    if isinstance(data, dict):
        parts = [f"{inner}{inert(json.dumps(key, ensure_ascii=False), _LONGEST)}: {pretty(data[key], indent + 2)}" for key in data]
        return "{\n" + ",\n".join(parts) + f"\n{outer}}}"
    return "[\n" + ",\n".join(f"{inner}{pretty(each, indent + 2)}" for each in data) + f"\n{outer}]"


def _bars(review: Review) -> Iterator[tuple[str, float, float]]:
    """The parts of a bar of 100: tone, where it begins, how wide it is."""
    begin = 0.0
    for severity in SEVERITIES:
        if width := 100 * review.count(severity) / max(1, len(review.risks)):
            yield TONES[severity], round(begin, 3), round(width, 3)
            begin += width


def style(*names: str) -> str:
    """The style of the reports, and what a page of this room has beside it."""
    return _STYLE.read_text(encoding="utf-8") + "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def policy(style: str, script: str | None = None) -> str:
    """The Content Security Policy: nothing but this style and this script; without one no script at all."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = digest(script) if script is not None else "'none'"
    return f"default-src 'none'; style-src {digest(style)}; script-src {scripts}; base-uri 'none'; form-action 'none'"


def _line(text: str) -> str:
    """A value on one line; a line break of a text is a space."""
    return inert(text.replace("\n", " "), _LONGEST)


@functools.cache
def template(name: str) -> Template:
    """A template of this room. Every value is escaped in it, and made inert by the filters."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - only for this

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "inert": _line,
        "spans": lambda text: spans(text, _LONGEST),
        "usd": lambda figure: "not known" if figure is None else f"{figure:,.2f} USD",
        "usd_h": lambda figure: "not known" if figure is None else f"{figure:.3f} USD",
        # Indented for people; each line is inert, and the template escapes it.
        "data": pretty,
    }
    environment.globals |= {"SEVERITIES": SEVERITIES, "TONES": TONES, "GLYPHS": GLYPHS}
    return environment.get_template(name)

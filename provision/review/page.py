"""The review as a page: one file that loads nothing, for a browser or for paper, in the look of the reports.

The page can be read without its script, which only exports the answers to the questions. Its policy admits this style and this script
by their digests and nothing else: text of a profile could not run even if the template let it through.
"""

import base64
import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Template

from provision.converge.declared import Change
from provision.report.base import TEMPLATES as REPORT_TEMPLATES
from provision.report.base import inert, spans
from provision.report.template import environment
from provision.review.against import SIGNS, Shift, by_subject, legend
from provision.review.tree import SEVERITIES, Review, Risk, Severity

LONGEST: Final = 2_000  # characters of one value
LONGEST_PARAMETER: Final = 50_000  # of a call: 16 KB of user data, in which quotes are escaped twice, are what a machine runs
# A severity in the colours of an outcome, and a glyph for those who do not see them.
TONES: Final[dict[Severity, str]] = {"high": "fail", "medium": "warn", "low": "unknown", "note": "not-applicable"}
GLYPHS: Final[dict[Severity, str]] = {"high": "▲", "medium": "!", "low": "▽", "note": "i"}
TEMPLATES: Final = Path(__file__).parent / "templates"
_WIDE: Final = 110


def render(review: Review) -> str:
    """One self-contained page, without the end of its last line."""
    css = style("review.css")
    script = (TEMPLATES / "review.js").read_text(encoding="utf-8")
    by_role: dict[str, list[Change]] = defaultdict(list)
    for change in review.changes:
        by_role[change.role].append(change)
    by_line: dict[int | None, list[Risk]] = defaultdict(list)
    for risk in review.risks:
        by_line[risk.line].append(risk)
    return template("review.html").render(
        review=review,
        worst=review.risks[0].severity if review.risks else "note",  # the most severe comes first
        counts={severity: review.count(severity) for severity in SEVERITIES if review.count(severity)},
        by_role=by_role,
        by_line=by_line,
        policy=policy(css, script),
        style=css,
        script=script,
    )


def changes(title: str, shifts: Sequence[Shift]) -> str:
    """What changed between two reviews as a page."""
    css = style("review.css")
    return template("changes.html").render(title=title, changes=by_subject(shifts), legend=legend(shifts), policy=policy(css), style=css)


def pretty(data: Any, indent: int = 0) -> str:
    """Data as JSON for people: what fits a line is on one. Each line is inert, and still to be escaped."""
    flat = json.dumps(data, ensure_ascii=False)
    if indent + len(flat) <= _WIDE or not isinstance(data, dict | list) or not data:
        return inert(flat, LONGEST_PARAMETER)
    inner, outer = " " * (indent + 2), " " * indent
    if isinstance(data, dict):
        entries = [f"{inner}{inert(json.dumps(key, ensure_ascii=False), LONGEST)}: {pretty(data[key], indent + 2)}" for key in data]
        return "{\n" + ",\n".join(entries) + f"\n{outer}}}"
    return "[\n" + ",\n".join(f"{inner}{pretty(each, indent + 2)}" for each in data) + f"\n{outer}]"


def style(*names: str) -> str:
    """The style of the reports, followed by the named style sheets of this room."""
    sheets = (REPORT_TEMPLATES / "report.css", *(TEMPLATES / name for name in names))
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def policy(css: str, script: str | None = None) -> str:
    """The Content Security Policy: nothing but this style and this script; without one no script at all."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = digest(script) if script is not None else "'none'"
    return f"default-src 'none'; style-src {digest(css)}; script-src {scripts}; base-uri 'none'; form-action 'none'"


@functools.cache
def template(name: str) -> Template:
    """An HTML template. Every value is escaped in it, and made inert by the filters."""
    jinja = environment(TEMPLATES)
    jinja.filters |= {
        "inert": lambda text: inert(text.replace("\n", " "), LONGEST),
        "spans": lambda text: spans(text, LONGEST),
        "usd": lambda figure: "not known" if figure is None else f"{figure:,.2f} USD",
        "usd_h": lambda figure: "not known" if figure is None else f"{figure:.3f} USD",
        # Indented for people; each line is inert, and the template escapes it.
        "data": pretty,
    }
    jinja.globals |= {"TONES": TONES, "GLYPHS": GLYPHS, "SIGNS": SIGNS}
    return jinja.get_template(name)

"""A trace as a page: the verdict, a timeline, the evidence and the advice. One file that loads nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Template

from provision.report.base import TEMPLATES, inert
from provision.report.template import environment
from provision.watch.trace.document import TraceDocument
from provision.watch.trace.model import Trace
from provision.watch.trace.timeline import PARTS, STEPS, strip

PAGES: Final = Path(__file__).parent / "templates"


def render(parts: Sequence[tuple[TraceDocument, Trace]], said: Sequence[str] = ()) -> str:
    """The page of one trace, or of two that are compared; `said` is what the comparison says."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8") + (PAGES / "trace.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    strips = [[strip(trace, each.device) for each in document.devices] for document, trace in parts]
    return _template().render(
        documents=[document for document, _ in parts],
        strips=strips,
        said=said,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )


@cache
def _template() -> Template:
    jinja = environment(PAGES)
    jinja.filters["inert"] = inert
    jinja.filters["percent"] = lambda share: f"{100 * share:.1f} %"
    jinja.globals |= {"PARTS": PARTS, "STEPS": STEPS}
    return jinja.get_template("trace.html")

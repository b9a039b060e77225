"""Formats of a report. One module each; none of them decides the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from provision.errors import UsageError
from provision.report import ctrf, html, json, junit, markdown, nagios, prometheus, tap, text
from provision.report.base import Format
from provision.verify.finding import Report

__all__ = ["FORMATS", "ctrf", "html", "json", "junit", "markdown", "nagios", "prometheus", "render", "tap", "text"]

FORMATS: dict[str, Format] = {
    "text": Format("people, in a terminal", ".txt", text.render),
    "json": Format("programs: gpuprov-report/1, of several hosts gpuprov-reports/1", ".json", json.render),
    "html": Format("people, in a browser or on paper", ".html", html.render),
    "markdown": Format("people, in an issue or a job's summary", ".md", markdown.render),
    "junit": Format("CI: a test suite for each host", ".xml", junit.render),
    "tap": Format("test harnesses: TAP version 14", ".tap", tap.render),
    "ctrf": Format("CI: Common Test Report Format", ".ctrf.json", ctrf.render),
    "nagios": Format("monitoring: one line with counts", ".nagios", nagios.render),
    "prometheus": Format("monitoring: node_exporter's text files", ".prom", prometheus.render),
}


def render(name: str, reports: Sequence[Report], *, strict: bool = False) -> str:
    """The reports in one format, without the end of the last line (which `click.echo` adds, and a file must get).

    With `strict` a warning is a failure in each of them, as it is to the exit code.

    Raises:
        UsageError: no such format, or no report.
    """
    if name not in FORMATS:
        msg = f"no report format {name!a}"
        raise UsageError(msg, hint=f"one of {', '.join(FORMATS)}")
    if not reports:
        msg = "no host was verified, so that there is nothing to report"
        raise UsageError(msg, hint="name at least one host")
    return FORMATS[name].render(*reports, strict=strict)

"""Formats of a report. One module each; none of them decides the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from provision.errors import UsageError
from provision.report.base import Format
from provision.verify.finding import Report

__all__ = ["FORMATS", "render"]

# By name, and imported on use: a run prints one of them.
FORMATS: dict[str, Format] = {
    "text": Format("people, in a terminal", ".txt", "provision.report.text"),
    "json": Format("programs: gpuprov-report/1, of several hosts gpuprov-reports/1", ".json", "provision.report.json"),
    "html": Format("people, in a browser or on paper", ".html", "provision.report.html"),
    "markdown": Format("people, in an issue or a job's summary", ".md", "provision.report.markdown"),
    "junit": Format("CI: a test suite for each host", ".xml", "provision.report.junit"),
    "tap": Format("test harnesses: TAP version 14", ".tap", "provision.report.tap"),
    "ctrf": Format("CI: Common Test Report Format", ".ctrf.json", "provision.report.ctrf"),
    "nagios": Format("monitoring: one line with counts", ".nagios", "provision.report.nagios"),
    "prometheus": Format("monitoring: node_exporter's text files", ".prom", "provision.report.prometheus"),
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

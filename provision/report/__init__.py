"""The formats of a report, a module each; none of them decides the verdict."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from provision.errors import UsageError

if TYPE_CHECKING:
    from provision.verify.finding import Report

# Each is the name of a module, which is imported when it is used, because a run prints one of them.
FORMATS: Final = (
    "text",  # for people, in a terminal
    "json",  # for programs: gpuprov-report/1, for several hosts gpuprov-reports/1
    "html",  # for people, in a browser or on paper
    "markdown",  # for people, in an issue or a job's summary
    "junit",  # for CI: a test suite for each host
    "tap",  # for test harnesses: TAP version 13
    "ctrf",  # for CI: Common Test Report Format
    "nagios",  # for monitoring: one line with counts
    "prometheus",  # for monitoring: node_exporter's text files
)


def render(name: str, reports: Sequence[Report], *, strict: bool = False) -> str:
    """The reports in one format; the last line has no line end. UsageError where there is no such format, or no report.

    With `strict` a warning is a failure in each of them, as it is to the exit code.
    """
    if name not in FORMATS:
        msg = f"no report format {name!a}"
        raise UsageError(msg, hint=f"one of {', '.join(FORMATS)}")
    if not reports:
        msg = "no host was verified, so there is nothing to report"
        raise UsageError(msg, hint="name at least one host")
    text: str = importlib.import_module(f"provision.report.{name}").render(*reports, strict=strict)
    return text

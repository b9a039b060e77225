"""The report for CI systems that read the Common Test Report Format (ctrf.io)."""

import json
from collections.abc import Sequence
from typing import Any, Final

from provision import __version__
from provision.report.base import inert, observed_at, pasteable
from provision.verify.finding import Finding, Outcome, Report, exit_code, fails, summary

# `rawStatus` carries our own outcome. Unknown is not a pass, and it was not seen to fail.
_STATUS: Final[dict[Outcome, str]] = {
    "pass": "passed",
    "warn": "passed",
    "waived": "passed",
    "fail": "failed",
    "unknown": "other",
    "not-applicable": "skipped",
}


def render(*reports: Report, strict: bool = False) -> str:
    """One document, a suite for each host."""
    data = {
        "reportFormat": "CTRF",
        "specVersion": "1.0.0",
        "generatedBy": "gpuprov",
        "results": {
            "tool": {"name": "gpuprov", "version": __version__},
            "summary": _summary(reports, strict=strict),
            "tests": [_test(finding, report, strict=strict) for report in map(pasteable, reports) for finding in report.findings],
            "extra": {
                "exit_code": exit_code(reports, strict=strict),
                "outcomes": summary(reports),
                "notes": [{"host": inert(r.host), "note": inert(note)} for r in reports for note in r.all_notes(strict=strict)],
            },
        },
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _summary(reports: Sequence[Report], *, strict: bool) -> dict[str, int]:
    """Counts, and when the first observation began and the last one ended: 0 where no host gave a time."""
    counts = summary(reports)
    statuses = dict.fromkeys(("passed", "failed", "skipped", "pending", "other"), 0)
    for outcome, count in counts.items():
        statuses[_status(outcome, strict=strict)] += count
    spans = [
        (begin := round(observed.timestamp() * 1000), begin + round((report.elapsed_s or 0) * 1000))
        for report in reports
        if (observed := observed_at(report))
    ]
    start, stop = min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
    return {"tests": sum(counts.values()), **statuses, "suites": len(reports), "start": start, "stop": stop}


def _status(outcome: Outcome, *, strict: bool) -> str:
    return "failed" if fails(outcome, strict=strict) else _STATUS[outcome]


def _test(finding: Finding, report: Report, *, strict: bool) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": inert(finding.check) or "?",
        "status": _status(finding.outcome, strict=strict),
        "rawStatus": finding.outcome,
        "duration": 0,  # one round trip observes everything
        "suite": [inert(report.profile), inert(report.host)],
        "extra": {"title": inert(finding.title), "expected": inert(finding.expected), "observed": inert(finding.observed)},
    }
    if finding.outcome != "pass":
        test["message"] = inert(finding.observed)
    if finding.hint:
        test["extra"]["hint"] = inert(finding.hint)
    if finding.role:
        test["extra"]["role"] = inert(finding.role)
    return test

"""The report for test harnesses: the Test Anything Protocol, version 13, which Perl's own harness reads too."""

import json
from collections.abc import Iterator

from provision.errors import EXIT_OK
from provision.report.base import EXPLAINED, inert, pasteable
from provision.verify.finding import Finding, Report, fails


def render(*reports: Report, strict: bool = False) -> str:
    """A test point for each check; of several hosts a subtest for each.

    `unknown` is `not ok`; `waived` is `not ok` with a `TODO`, which harnesses do not count as a failure; `not-applicable` is skipped.
    With `strict` a warning is `not ok`.
    """
    lines = ["TAP version 13"]
    if len(reports) == 1:
        lines += _points(pasteable(reports[0]), strict=strict)
    else:
        lines.append(f"1..{len(reports)}")
        for number, report in enumerate(reports, 1):
            lines.append(f"# Subtest: {_escaped(report.host)}")
            lines += [f"    {line}" for line in _points(pasteable(report), strict=strict)]
            lines.append(f"{'ok' if report.exit_code(strict=strict) == EXIT_OK else 'not ok'} {number} - {_escaped(report.host)}")
    return "\n".join(lines)


def _points(report: Report, *, strict: bool) -> Iterator[str]:
    # A plan without test points must say why.
    yield f"1..{len(report.findings)}" if report.findings else "1..0 # SKIP no check was made"
    yield f"# {inert(report.host)} against profile {inert(report.profile)}, observed {inert(report.observed_at) or 'at an unknown time'}"
    yield from (f"# {inert(note)}" for note in report.all_notes(strict=strict))
    for number, finding in enumerate(report.findings, 1):
        yield from _point(number, finding, strict=strict)


def _point(number: int, finding: Finding, *, strict: bool) -> Iterator[str]:
    word = "not ok" if finding.outcome in {"unknown", "waived"} or fails(finding.outcome, strict=strict) else "ok"
    directive = ""
    if finding.outcome == "waived":
        directive = f" # TODO waived: {_escaped(finding.observed)}"
    elif finding.outcome == "not-applicable":
        directive = f" # SKIP {_escaped(finding.observed)}"
    yield f"{word} {number} - {_escaped(finding.check)}: {_escaped(finding.title)}{directive}"
    if finding.outcome in EXPLAINED:
        yield "  ---"
        for key in ("outcome", "observed", "expected", "hint", "role"):
            if value := getattr(finding, key):
                # A JSON string is a YAML string, without YAML's ways to mean something else.
                yield f"  {key}: {json.dumps(inert(value), ensure_ascii=False)}"
        yield "  ..."


def _escaped(text: str) -> str:
    """Without a `#` that would begin a directive."""
    return inert(text).replace("\\", "\\\\").replace("#", "\\#")

"""The report for CI systems: JUnit's XML, a test suite for each host."""

from collections.abc import Mapping
from xml.etree import ElementTree as ET  # written here, never read: nothing of theirs is parsed

from provision.report.base import inert, observed_at, pasteable
from provision.verify.finding import Finding, Outcome, Report, fails, summary


def render(*reports: Report, strict: bool = False) -> str:
    """`fail` is a failure, `unknown` an error, `not-applicable` skipped; waived and warned checks pass and say so in their output.

    With `strict` a warning is a failure of type `warn`.
    """
    counts = _counts(summary(reports), strict=strict)
    del counts["skipped"]  # which Jenkins's schema has for a suite alone
    root = ET.Element("testsuites", {"name": "gpuprov", **counts})
    root.extend(_suite(report, strict=strict) for report in map(pasteable, reports))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _counts(counts: Mapping[Outcome, int], *, strict: bool) -> dict[str, str]:
    failures = sum(count for outcome, count in counts.items() if fails(outcome, strict=strict))
    kinds = {"tests": sum(counts.values()), "failures": failures, "errors": counts["unknown"], "skipped": counts["not-applicable"]}
    return {name: str(count) for name, count in kinds.items()}


def _suite(report: Report, *, strict: bool) -> ET.Element:
    host = inert(report.host)
    suite = ET.Element("testsuite", {"name": host, "hostname": host, **_counts(report.summary, strict=strict)})
    suite.set("time", f"{report.elapsed_s or 0:.3f}")
    if observed := observed_at(report):
        # The schema that Jenkins checks with allows neither a zone nor fractions.
        suite.set("timestamp", observed.strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="profile", value=inert(report.profile))
    for note in report.all_notes(strict=strict):
        ET.SubElement(properties, "property", name="note", value=inert(note))
    suite.extend(_case(finding, report.profile, strict=strict) for finding in report.findings)
    return suite


def _case(finding: Finding, profile: str, *, strict: bool) -> ET.Element:
    # One round trip observes everything, so no check has a time of its own.
    case = ET.Element("testcase", name=inert(finding.check), classname=f"gpuprov.{inert(profile)}", time="0")
    match finding.outcome:
        case outcome if fails(outcome, strict=strict):
            _explained(case, "failure", finding)
        case "unknown":
            _explained(case, "error", finding)
        case "not-applicable":
            ET.SubElement(case, "skipped", message=inert(finding.observed))
        case "waived" | "warn":
            ET.SubElement(case, "system-out").text = f"{finding.outcome}: {_words(finding)}"
        case "pass":
            pass
    return case


def _explained(case: ET.Element, tag: str, finding: Finding) -> None:
    ET.SubElement(case, tag, message=inert(finding.observed), type=finding.outcome).text = _words(finding)


def _words(finding: Finding) -> str:
    lines = [inert(finding.title), f"observed: {inert(finding.observed)}", f"expected: {inert(finding.expected)}"]
    if finding.hint:
        lines.append(f"hint: {inert(finding.hint)}")
    return "\n".join(lines)

"""The report as a page for a browser or for paper: one file that loads nothing.

The page is complete without its script, which only filters and moves between findings. Its security policy admits our style and our
script by their digests and nothing else: text from a host could not run even if the template let it through.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Final

from jinja2 import Template

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.report.base import EXPLAINED, GLYPHS, TEMPLATES, inert, observed_at, pasteable, spans
from provision.report.chart import CHART_HEIGHT, CHART_WIDTH, PLANE, Chart
from provision.report.template import environment
from provision.structs import Struct
from provision.verify.finding import OUTCOMES, Finding, Outcome, Report, exit_code, fails, summary

_LONGEST: Final = 2_000  # a page has room, but not for a host that floods it
_LONGEST_NAME: Final = 80
_ACROSS: Final = 20  # hosts beside each other in the matrix: as many as fit on A4
# How an exit code is shown: with the colour and glyph of an outcome, and in words.
_VERDICTS: Final[dict[int, tuple[Outcome, str]]] = {
    EXIT_OK: ("pass", "matches"),
    EXIT_FAILED_CHECK: ("fail", "does NOT match"),
    EXIT_UNKNOWN: ("unknown", "not proven"),
}


class _Issue(Struct):
    """A finding that does not pass, and the hosts on which it is the same, as indices of their reports."""

    finding: Finding
    hosts: list[int]


def render(*reports: Report, strict: bool = False, charts: Sequence[Chart] = ()) -> str:
    """One self-contained page; `charts` are the rooflines of the cards that were measured under load, of `chart.charts`."""
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    if len(reports) == 1:  # of several, equal findings stand together
        reports = (pasteable(reports[0]),)
    issues, counts = list(_issues(reports)), summary(reports)
    return _template().render(
        reports=reports,
        several=len(reports) > 1,
        mixed=len({report.profile for report in reports}) > 1,
        verdict=_verdict(reports, strict=strict),
        verdicts=[_verdict([report], strict=strict) for report in reports],
        summary=counts,
        total=sum(counts.values()),
        failures=sum(count for outcome, count in counts.items() if fails(outcome, strict=strict)),
        codes=[report.exit_code(strict=strict) for report in reports],
        notes=_notes(reports, strict=strict),
        names=_short_names(reports),
        needs=[issue for outcome in EXPLAINED for issue in issues if issue.finding.outcome == outcome],
        waived=[issue for issue in issues if issue.finding.outcome == "waived"],
        checks=list(dict.fromkeys(finding.check for report in reports for finding in report.findings)),
        outcomes=[{finding.check: finding.outcome for finding in report.findings} for report in reports],
        policy=_policy(style, script),
        style=style,
        script=script,
        charts=charts,
    )


def _issues(reports: Sequence[Report]) -> Iterator[_Issue]:
    """Every finding that is neither pass nor not-applicable, in the order of the checks' list; equal ones of several hosts together."""
    hosts: dict[Finding, list[int]] = {}
    for index, report in enumerate(reports):
        for finding in report.findings:
            if finding.outcome not in {"pass", "not-applicable"}:
                hosts.setdefault(finding, []).append(index)
    order = list(dict.fromkeys(finding.check for report in reports for finding in report.findings))
    for finding in sorted(hosts, key=lambda finding: order.index(finding.check)):
        yield _Issue(finding, hosts[finding])


def _verdict(reports: Sequence[Report], *, strict: bool) -> tuple[Outcome, str]:
    """How the verdict is shown. Where nothing was checked, or something is waived, the page must not look as if all had passed."""
    if not any(report.findings for report in reports):
        return "unknown", "nothing checked"
    code = exit_code(reports, strict=strict)
    if code == EXIT_OK and summary(reports)["waived"]:
        return "waived", "matches, with waivers"
    return _VERDICTS[code]


def _notes(reports: Sequence[Report], *, strict: bool) -> dict[str, list[int]]:
    """Each note, with the indices of the hosts that it is about."""
    hosts: dict[str, list[int]] = {}
    for index, report in enumerate(reports):
        for note in report.all_notes(strict=strict):
            hosts.setdefault(note, []).append(index)
    return hosts


def _short_names(reports: Sequence[Report]) -> list[str]:
    """The hosts without their domains, unless that makes two of them equal; the table of hosts has the full names."""
    full = [report.host for report in reports]
    short = [host.partition(".")[0] for host in full]
    addresses = any(name.isdigit() for name in short)
    return full if addresses or len(set(short)) < len(short) else short


def _when(report: Report) -> str:
    """When and for how long the host was observed; an invalid time is shown as the host sent it."""
    observed = observed_at(report)
    when = observed.strftime("%Y-%m-%d %H:%M:%S UTC") if observed else inert(report.observed_at, _LONGEST_NAME) or "at an unknown time"
    return when if report.elapsed_s is None else f"{when} in {report.elapsed_s:.1f} s"


def _policy(style: str, script: str) -> str:
    """The Content Security Policy: nothing but this style and this script."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; base-uri 'none'; form-action 'none'"


@cache
def _template() -> Template:
    jinja = environment(TEMPLATES)
    jinja.filters.update(
        inert=partial(inert, longest=_LONGEST),
        brief=inert,
        name=partial(inert, longest=_LONGEST_NAME),
        spans=partial(spans, longest=_LONGEST),
        when=_when,
    )
    jinja.globals |= {"GLYPHS": GLYPHS, "OUTCOMES": OUTCOMES, "EXPLAINED": EXPLAINED, "ACROSS": _ACROSS}
    jinja.globals |= {"CHART_WIDTH": CHART_WIDTH, "CHART_HEIGHT": CHART_HEIGHT, "PLANE": PLANE}
    jinja.globals |= {"EXIT_FAILED_CHECK": EXIT_FAILED_CHECK, "EXIT_UNKNOWN": EXIT_UNKNOWN}
    return jinja.get_template("report.html")

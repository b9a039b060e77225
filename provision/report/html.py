"""The report as a page: one file that asks nobody for anything, for a browser or for paper.

The page is read without its script, which only filters and moves between findings. Its policy admits the style and the script that
are written here, by their digests, and nothing else: what a host said could not run even if the template let it through.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.report.base import CHART_HEIGHT, CHART_WIDTH, EXPLAINED, GLYPHS, PLANE, Chart, inert, observed_at, spans
from provision.verify.finding import OUTCOMES, Finding, Outcome, Report, exit_code, fails, summary

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["render"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_LONGEST: Final = 2_000  # there is room on a page, but not for a host that floods it
_LONGEST_NAME: Final = 80
_ACROSS: Final = 20  # hosts beside each other in the matrix: what A4 holds
# How an exit code is shown: with the colour and the glyph of which outcome, and in which words.
_VERDICTS: Final[dict[int, tuple[Outcome, str]]] = {
    EXIT_OK: ("pass", "holds"),
    EXIT_FAILED_CHECK: ("fail", "does not hold"),
    EXIT_UNKNOWN: ("unknown", "not proven"),
}


@dataclass(frozen=True, slots=True)
class _Issue:
    """What does not pass, once for all hosts on which it is the same, which are named by their place among the reports."""

    finding: Finding
    hosts: list[int]


def render(*reports: Report, strict: bool = False, charts: Sequence[Chart] = ()) -> str:
    """One self-contained page.

    Args:
        *reports: what was found.
        strict: a warning is a failure.
        charts: the rooflines of the cards with what was measured under load, as `chart.charts` makes them.
    """
    style, script = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    issues = list(_issues(reports))
    return _template().render(
        reports=reports,
        several=len(reports) > 1,
        mixed=len({report.profile for report in reports}) > 1,
        sentence=_sentence(reports, strict=strict),
        verdict=_verdict(reports, strict=strict),
        verdicts=[_verdict([report], strict=strict) for report in reports],
        summary=summary(reports),
        total=sum(len(report.findings) for report in reports),
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
    found: dict[Finding, list[int]] = {}
    for index, report in enumerate(reports):
        for finding in report.findings:
            if finding.outcome not in {"pass", "not-applicable"}:
                found.setdefault(finding, []).append(index)
    order = list(dict.fromkeys(finding.check for report in reports for finding in report.findings))
    for finding in sorted(found, key=lambda each: order.index(each.check)):
        yield _Issue(finding, found[finding])


def _verdict(reports: Sequence[Report], *, strict: bool) -> tuple[Outcome, str]:
    """How the verdict is shown; where nothing was checked the page must not look as if something had passed."""
    if not any(report.findings for report in reports):
        return "unknown", "nothing checked"
    return _VERDICTS[exit_code(reports, strict=strict)]


def _sentence(reports: Sequence[Report], *, strict: bool) -> str:
    """The verdict in one sentence."""
    if not any(report.findings for report in reports):
        return "No check was made, so nothing is proven"
    profiles = list(dict.fromkeys(report.profile for report in reports))
    asked = f"profile {inert(profiles[0], _LONGEST_NAME)}" if len(profiles) == 1 else "their profiles"
    if len(reports) == 1:
        return _of_one(reports[0], asked, strict=strict)
    codes = [report.exit_code(strict=strict) for report in reports]
    failed, unknown = codes.count(EXIT_FAILED_CHECK), codes.count(EXIT_UNKNOWN)
    if not failed and not unknown:
        return f"All {len(reports)} hosts hold {asked}"
    if not failed:
        return f"{unknown} of {len(reports)} hosts {'is' if unknown == 1 else 'are'} not proven to hold {asked}"
    rest = f"; {unknown} {'is' if unknown == 1 else 'are'} not proven to" if unknown else ""
    return f"{failed} of {len(reports)} hosts {'does' if failed == 1 else 'do'} not hold {asked}{rest}"


def _of_one(report: Report, asked: str, *, strict: bool) -> str:
    host, counts = inert(report.host, _LONGEST_NAME), report.summary
    unknown = f"{counts['unknown']} {'check is' if counts['unknown'] == 1 else 'checks are'} unknown"
    match report.exit_code(strict=strict):
        case code if code == EXIT_FAILED_CHECK:
            also = f", {unknown}" if counts["unknown"] else ""
            failed = sum(count for outcome, count in counts.items() if fails(outcome, strict=strict))
            return f"{host} does not hold {asked}: {failed} {'check fails' if failed == 1 else 'checks fail'}{also}"
        case code if code == EXIT_UNKNOWN:
            return f"{host} is not proven to hold {asked}: {unknown}"
    return f"{host} holds {asked}"


def _notes(reports: Sequence[Report], *, strict: bool) -> dict[str, list[int]]:
    """Each note, with the hosts that it is about."""
    hosts: dict[str, list[int]] = {}
    for index, report in enumerate(reports):
        for note in report.all_notes(strict=strict):
            hosts.setdefault(note, []).append(index)
    return hosts


def _short_names(reports: Sequence[Report]) -> list[str]:
    """The hosts without their domains where that tells them apart; the table of hosts has them whole."""
    whole = [report.host for report in reports]
    short = [host.partition(".")[0] for host in whole]
    addresses = any(name.isdigit() for name in short)
    return whole if addresses or len(set(short)) < len(short) else short


def _when(report: Report) -> str:
    """When and how long, as a person reads it; what is not a time is shown as the host sent it."""
    observed = observed_at(report)
    when = observed.strftime("%Y-%m-%d %H:%M:%S UTC") if observed else inert(report.observed_at, _LONGEST_NAME) or "at an unknown time"
    return when if report.elapsed_s is None else f"{when} in {report.elapsed_s:.1f} s"


def _bars(counts: dict[Outcome, int]) -> Iterator[tuple[Outcome, float, float]]:
    """The parts of a bar of 100: outcome, where it begins, how wide it is."""
    total, begin = sum(counts.values()), 0.0
    for outcome in OUTCOMES:
        if width := 100 * counts[outcome] / total if total else 0:
            yield outcome, round(begin, 3), round(width, 3)
            begin += width


def _policy(style: str, script: str) -> str:
    """The Content Security Policy: nothing but this style and this script."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; base-uri 'none'; form-action 'none'"


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - only for this

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "inert": lambda text: inert(text, _LONGEST),
        "brief": inert,
        "name": lambda text: inert(text, _LONGEST_NAME),
        "spans": lambda text: spans(text, _LONGEST),
        "when": _when,
        "bars": _bars,
    }
    environment.globals |= {
        "GLYPHS": GLYPHS,
        "OUTCOMES": OUTCOMES,
        "EXPLAINED": EXPLAINED,
        "ACROSS": _ACROSS,
        "CHART_WIDTH": CHART_WIDTH,
        "CHART_HEIGHT": CHART_HEIGHT,
        "PLANE": PLANE,
    }
    return environment.get_template("report.html")

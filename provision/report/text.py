"""The report for people: what was excused first, a line for each check, more for those that do not pass, the summary last."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from provision.report.base import EXPLAINED, inert, tally, uneven_checks
from provision.verify.finding import Outcome, Report, summary

_STYLES: Final[dict[Outcome, dict[str, Any]]] = {
    "pass": {"fg": "green"},
    "fail": {"fg": "red", "bold": True},
    "warn": {"fg": "yellow"},
    "waived": {"fg": "magenta"},
    "unknown": {"fg": "yellow", "bold": True},
    "not-applicable": {"dim": True},
}
_OUTCOME_WIDTH: Final = 15  # the longest outcome and a space
_LONGEST_NAME: Final = 40
Styled = Callable[..., str]  # a text in a style, with the arguments of `click.style`


def plain(text: str, **_style: Any) -> str:
    """A text in no style."""
    return text


def render(*reports: Report, strict: bool = False, styled: Styled = plain) -> str:
    """The reports as text: several hosts one after the other, then a table of the checks that some of them do not pass.

    Whatever `styled` does, text from a host never reaches the terminal as anything but plain text.
    """
    lines: list[str] = []
    for report in reports:
        lines += _host(styled, report, strict=strict)
        if len(reports) > 1:
            lines.append("")
    if len(reports) > 1:
        lines += _side_by_side(styled, reports)
        total = sum(len(report.findings) for report in reports)
        lines.append(styled(f"{len(reports)} hosts, {total} checks: {tally(summary(reports))}", bold=True))
    return "\n".join(lines)


def _host(styled: Styled, report: Report, *, strict: bool) -> Iterator[str]:
    for note in report.all_notes(strict=strict):
        yield styled(inert(note), bold=True)
    duration = f" in {report.elapsed_s:.1f} s" if report.elapsed_s is not None else ""
    when = inert(report.observed_at) or "at an unknown time"
    yield f"{inert(report.host)} against profile {inert(report.profile)}, observed {when}{duration}"
    width = max((len(inert(finding.check)) for finding in report.findings), default=0) + 1
    for finding in report.findings:
        outcome = styled(f"{finding.outcome:<{_OUTCOME_WIDTH}}", **_STYLES[finding.outcome])
        yield f"  {outcome}{inert(finding.check):<{width}}{inert(finding.observed)}"
        if finding.outcome in EXPLAINED:
            yield f"{'':19}expected: {inert(finding.expected)}"
            if finding.hint:
                yield f"{'':19}hint: {inert(finding.hint)}"
    yield styled(f"{len(report.findings)} checks: {tally(report.summary)}", bold=True)


def _side_by_side(styled: Styled, reports: Sequence[Report]) -> Iterator[str]:
    """A row for each check that some host does not pass, a column for each host."""
    rows = uneven_checks(reports)
    if not rows:
        return
    hosts = [inert(report.host, _LONGEST_NAME) for report in reports]
    first = max(len(name) for name in ("not everywhere", *(inert(check, _LONGEST_NAME) for check, _ in rows))) + 1
    widths = [max(len(host) + 1, _OUTCOME_WIDTH) for host in hosts]
    heads = "".join(f"{host:<{width}}" for host, width in zip(hosts, widths, strict=True))
    yield styled(f"  {'not everywhere':<{first}}{heads}".rstrip(), bold=True)
    for check, outcomes in rows:
        cells = [
            styled(f"{outcome or 'not checked':<{width}}", **(_STYLES[outcome] if outcome else {"dim": True}))
            for outcome, width in zip(outcomes, widths, strict=True)
        ]
        yield f"  {inert(check, _LONGEST_NAME):<{first}}{''.join(cells)}".rstrip()
    yield ""

"""The report for people: the verdict first and last, then what asks something of them, then the rest in a line for each outcome."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN, counted
from provision.report.base import EXPLAINED, LONGEST_NAME, broken, inert, pasteable, quoted, tally, uneven_checks
from provision.verify.finding import Finding, Outcome, Report, summary

_STYLES: Final[dict[Outcome, dict[str, Any]]] = {
    "pass": {"fg": "green"},
    "fail": {"fg": "red", "bold": True},
    "warn": {"fg": "yellow"},
    "waived": {"fg": "magenta"},
    "unknown": {"fg": "yellow", "bold": True},
    "not-applicable": {"dim": True},
}
_VERDICTS: Final = {EXIT_OK: "matches", EXIT_FAILED_CHECK: "does NOT match", EXIT_UNKNOWN: "is not proven to match"}
_FOLDED: Final[tuple[Outcome, ...]] = ("waived", "pass")
_OUTCOME_WIDTH: Final = 15  # the longest outcome and a space
_EXPLAINED_WIDTH: Final = 9  # the longest of those that are explained or folded, and two spaces
_FEW: Final = 12  # as many checks are listed whole
_ALIKE: Final = 3  # as many unknown checks with one reason are told once
Styled = Callable[..., str]  # a text in a style, with the arguments of `click.style`


def plain(text: str, **_style: Any) -> str:
    """A text in no style."""
    return text


def render(*reports: Report, strict: bool = False, styled: Styled = plain, width: int | None = None, everything: bool = False) -> str:
    """The reports as text: several hosts one after the other, then a table of the checks that some of them do not pass.

    Args:
        reports: one for each host.
        strict: whether warnings count as failures.
        styled: gives a text its style. Text from a host never reaches the terminal as anything but plain text.
        width: of the terminal in columns, where long lines are to be broken.
        everything: whether each check has its own line, in the order of the checks' list.
    """
    lines: list[str] = []
    for report in map(pasteable, reports):
        lines += _host(styled, report, strict=strict, width=width, everything=everything or len(report.findings) <= _FEW)
        if len(reports) > 1:
            lines.append("")
    if len(reports) > 1:
        lines += _side_by_side(styled, reports)
        total = sum(len(report.findings) for report in reports)
        lines.append(styled(f"{counted(len(reports), 'host')}, {counted(total, 'check')}: {tally(summary(reports))}", bold=True))
    return "\n".join(lines)


def _host(styled: Styled, report: Report, *, strict: bool, width: int | None, everything: bool) -> Iterator[str]:
    verdict = [styled(line, bold=True) for line in broken("", _verdict(report, strict=strict), width)]
    yield from verdict
    duration = f" in {report.elapsed_s:.1f} s" if report.elapsed_s is not None else ""
    yield f"observed {inert(report.observed_at) or 'at an unknown time'}{duration}"
    for note in report.all_notes(strict=strict):
        yield from (styled(line, bold=True) for line in broken("", inert(note), width))
    if everything:
        yield from _rows(styled, report.findings, _OUTCOME_WIDTH, width)
    else:
        explained = [finding for outcome in EXPLAINED for finding in report.findings if finding.outcome == outcome]
        yield from _rows(styled, explained, _EXPLAINED_WIDTH, width, short=True)
        for outcome in _FOLDED:
            ids = [inert(finding.check) for finding in report.findings if finding.outcome == outcome]
            if ids:
                lead = f"  {styled(f'{outcome:<{_EXPLAINED_WIDTH}}', **_STYLES[outcome])}"
                yield from broken(lead, f"{len(ids)}: {', '.join(ids)}", width, 2 + _EXPLAINED_WIDTH)
        if inapplicable := report.summary["not-applicable"]:
            listing = "`--all`" if report.elapsed_s is None else f"`gpuprov verify {quoted(report)} --all`"
            yield styled(f"  {inapplicable} not applicable; {listing} lists every check", dim=True)
    yield from verdict


def _verdict(report: Report, *, strict: bool) -> str:
    if not report.findings:
        return f"no check was made of {inert(report.host)} against profile {inert(report.profile)}"
    waived, code = report.summary["waived"], report.exit_code(strict=strict)
    but = ""
    if code == EXIT_OK:
        but = f" apart from {counted(waived, 'waived check')}" if waived else " in every check that was made"
    counts = ", ".join(f"{report.summary[outcome]} {outcome}" for outcome in (*EXPLAINED, *_FOLDED) if report.summary[outcome])
    return f"{inert(report.host)} {_VERDICTS[code]} profile {inert(report.profile)}{but}: {counts or 'none applies'}"


def _rows(styled: Styled, findings: Sequence[Finding], outcome_width: int, width: int | None, *, short: bool = False) -> Iterator[str]:
    """Each finding with what it shows, and what is told of those that do not pass. Many that are unknown for one reason are one row.

    `short` leaves lines out: what was expected stands behind what was observed, and a hint that the next row has too is told there.
    """
    column = max((len(inert(finding.check, LONGEST_NAME)) for finding in findings), default=0) + 1
    rows = list(_together(findings))
    for number, (finding, alike) in enumerate(rows, 1):
        lead = f"  {styled(f'{finding.outcome:<{outcome_width}}', **_STYLES[finding.outcome])}"
        name = inert(finding.check, LONGEST_NAME) if len(alike) == 1 else f"{len(alike)} checks:"
        behind = f"; expected: {inert(finding.expected)}" if short and finding.outcome != "unknown" else ""
        yield from broken(f"{lead}{name:<{column}}", inert(finding.observed) + behind, width, 2 + outcome_width + column)
        if len(alike) > 1:
            yield from broken(" " * (4 + outcome_width), ", ".join(inert(one.check, LONGEST_NAME) for one in alike), width)
        if finding.outcome in EXPLAINED:
            if len(alike) == 1 and not short:
                yield from broken(" " * (4 + outcome_width), f"expected: {inert(finding.expected)}", width)
            below = any(after.hint == finding.hint for after, _ in rows[number : number + 1])
            if finding.hint and not (short and below):
                label = "" if short else "hint: "
                yield from broken(" " * (4 + outcome_width), f"{label}{inert(finding.hint)}", width)


def _together(findings: Sequence[Finding]) -> Iterator[tuple[Finding, list[Finding]]]:
    reasons: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.outcome == "unknown":
            reasons.setdefault((finding.observed, finding.hint), []).append(finding)
    for finding in findings:
        alike = reasons.get((finding.observed, finding.hint), []) if finding.outcome == "unknown" else []
        if len(alike) < _ALIKE:
            yield finding, [finding]
        elif finding is alike[0]:
            yield finding, alike


def _side_by_side(styled: Styled, reports: Sequence[Report]) -> Iterator[str]:
    """A row for each check that some host does not pass, a column for each host."""
    rows = uneven_checks(reports)
    if not rows:
        return
    hosts = [inert(report.host, LONGEST_NAME) for report in reports]
    first = max(len(name) for name in ("not everywhere", *(inert(check, LONGEST_NAME) for check, _ in rows))) + 1
    widths = [max(len(host) + 1, _OUTCOME_WIDTH) for host in hosts]
    heads = "".join(f"{host:<{width}}" for host, width in zip(hosts, widths, strict=True))
    yield styled(f"  {'not everywhere':<{first}}{heads}".rstrip(), bold=True)
    for check, outcomes in rows:
        cells = [
            styled(f"{outcome or 'not checked':<{width}}", **(_STYLES[outcome] if outcome else {"dim": True}))
            for outcome, width in zip(outcomes, widths, strict=True)
        ]
        yield f"  {inert(check, LONGEST_NAME):<{first}}{''.join(cells)}".rstrip()
    yield ""

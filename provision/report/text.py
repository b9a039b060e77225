"""The report for people: what was excused first, a line a check, more for what does not pass, the summary last."""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.text import Text

from provision.report.base import EXPLAINED, counted, inert
from provision.verify.finding import Finding, Outcome, Report, summary

__all__ = ["render"]

_STYLES: dict[Outcome, str] = {
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "waived": "magenta",
    "unknown": "bold yellow",
    "not-applicable": "dim",
}
_WIDTH = 160
_COLUMN = 14  # the longest outcome
_LONGEST_NAME = 40


def render(*reports: Report, strict: bool = False, color: bool = False) -> str:
    """The reports as text; of several hosts one after the other, then what does not pass everywhere as a table.

    Args:
        *reports: what was found.
        strict: say that a warning is a failure.
        color: whether to use a terminal's colours. What came from the host never reaches the terminal as anything but plain text.
    """
    system: Literal["standard"] | None = "standard" if color else None
    console = Console(force_terminal=color, no_color=not color, color_system=system, width=_WIDTH, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for report in reports:
            _one_host(console, report, strict=strict)
            if len(reports) > 1:
                console.print()
        if len(reports) > 1:
            _side_by_side(console, reports)
            total = sum(len(report.findings) for report in reports)
            console.print(Text(f"{len(reports)} hosts, {total} checks: {counted(summary(reports))}", style="bold"))
    return captured.get().rstrip("\n")


def _one_host(console: Console, report: Report, *, strict: bool) -> None:
    for note in report.all_notes(strict=strict):
        console.print(Text(inert(note), style="bold"))
    took = f" in {report.elapsed_s:.1f} s" if report.elapsed_s is not None else ""
    when = inert(report.observed_at) or "at an unknown time"
    console.print(Text(f"{inert(report.host)} against profile {inert(report.profile)}, observed {when}{took}"))
    width = max((len(inert(finding.check)) for finding in report.findings), default=0) + 1
    for finding in report.findings:
        _one(console, finding, width)
    console.print(Text(f"{len(report.findings)} checks: {counted(report.summary)}", style="bold"))


def _one(console: Console, finding: Finding, width: int) -> None:
    line = Text("  ")
    line.append(f"{finding.outcome:<15}", style=_STYLES[finding.outcome])
    line.append(f"{inert(finding.check):<{width}}")
    line.append(inert(finding.observed))
    console.print(line)
    if finding.outcome in EXPLAINED:
        console.print(Text(f"{'':19}expected: {inert(finding.expected)}"))
        if finding.hint:
            console.print(Text(f"{'':19}hint: {inert(finding.hint)}"))


def _side_by_side(console: Console, reports: tuple[Report, ...]) -> None:
    """A row for each check that some host does not pass, a column for each host; what does not apply somewhere is no reason for a row."""
    outcomes = [{finding.check: finding.outcome for finding in report.findings} for report in reports]
    checks = dict.fromkeys(finding.check for report in reports for finding in report.findings)
    rows = [check for check in checks if any(column.get(check, "pass") not in {"pass", "not-applicable"} for column in outcomes)]
    if not rows:
        return
    names = [inert(report.host, _LONGEST_NAME) for report in reports]
    first = max(len(name) for name in ("not everywhere", *(inert(check, _LONGEST_NAME) for check in rows))) + 1
    widths = [max(len(name), _COLUMN) + 1 for name in names]
    heads = "".join(f"{name:<{width}}" for name, width in zip(names, widths, strict=True))
    console.print(Text(f"  {'not everywhere':<{first}}{heads}".rstrip(), style="bold"))
    for check in rows:
        line = Text(f"  {inert(check, _LONGEST_NAME):<{first}}")
        for column, width in zip(outcomes, widths, strict=True):
            outcome = column.get(check)
            line.append(f"{outcome or 'not checked':<{width}}", style=_STYLES[outcome] if outcome else "dim")
        line.rstrip()
        console.print(line)
    console.print()

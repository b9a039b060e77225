"""The report for people: what was excused first, a line for each check, more for those that do not pass, the summary last."""

from collections.abc import Sequence
from typing import Final, Literal

from rich.console import Console
from rich.text import Text

from provision.report.base import EXPLAINED, inert, tally, uneven_checks
from provision.verify.finding import Outcome, Report, summary

_STYLES: Final[dict[Outcome, str]] = {
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "waived": "magenta",
    "unknown": "bold yellow",
    "not-applicable": "dim",
}
_WIDTH: Final = 160
_OUTCOME_WIDTH: Final = 15  # the longest outcome and a space
_LONGEST_NAME: Final = 40


def render(*reports: Report, strict: bool = False, color: bool = False) -> str:
    """The reports as text: several hosts one after the other, then a table of the checks that some of them do not pass.

    Even with `color`, text from a host never reaches the terminal as anything but plain text.
    """
    system: Literal["standard"] | None = "standard" if color else None
    console = Console(force_terminal=color, no_color=not color, color_system=system, width=_WIDTH, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for report in reports:
            _print_host(console, report, strict=strict)
            if len(reports) > 1:
                console.print()
        if len(reports) > 1:
            _print_side_by_side(console, reports)
            total = sum(len(report.findings) for report in reports)
            console.print(Text(f"{len(reports)} hosts, {total} checks: {tally(summary(reports))}", style="bold"))
    return captured.get().rstrip("\n")


def _print_host(console: Console, report: Report, *, strict: bool) -> None:
    for note in report.all_notes(strict=strict):
        console.print(Text(inert(note), style="bold"))
    duration = f" in {report.elapsed_s:.1f} s" if report.elapsed_s is not None else ""
    when = inert(report.observed_at) or "at an unknown time"
    console.print(Text(f"{inert(report.host)} against profile {inert(report.profile)}, observed {when}{duration}"))
    width = max((len(inert(finding.check)) for finding in report.findings), default=0) + 1
    for finding in report.findings:
        outcome = (f"{finding.outcome:<{_OUTCOME_WIDTH}}", _STYLES[finding.outcome])
        console.print(Text.assemble("  ", outcome, f"{inert(finding.check):<{width}}", inert(finding.observed)))
        if finding.outcome in EXPLAINED:
            console.print(Text(f"{'':19}expected: {inert(finding.expected)}"))
            if finding.hint:
                console.print(Text(f"{'':19}hint: {inert(finding.hint)}"))
    console.print(Text(f"{len(report.findings)} checks: {tally(report.summary)}", style="bold"))


def _print_side_by_side(console: Console, reports: Sequence[Report]) -> None:
    """A row for each check that some host does not pass, a column for each host."""
    rows = uneven_checks(reports)
    if not rows:
        return
    hosts = [inert(report.host, _LONGEST_NAME) for report in reports]
    first = max(len(name) for name in ("not everywhere", *(inert(check, _LONGEST_NAME) for check, _ in rows))) + 1
    widths = [max(len(host) + 1, _OUTCOME_WIDTH) for host in hosts]
    heads = "".join(f"{host:<{width}}" for host, width in zip(hosts, widths, strict=True))
    console.print(Text(f"  {'not everywhere':<{first}}{heads}".rstrip(), style="bold"))
    for check, outcomes in rows:
        line = Text(f"  {inert(check, _LONGEST_NAME):<{first}}")
        for outcome, width in zip(outcomes, widths, strict=True):
            line.append(f"{outcome or 'not checked':<{width}}", style=_STYLES[outcome] if outcome else "dim")
        line.rstrip()
        console.print(line)
    console.print()

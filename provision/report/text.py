"""The report for people: what was excused first, a line a check, more for what does not pass, the summary last."""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.text import Text

from provision.verify.finding import OUTCOMES, Finding, Outcome, Report

__all__ = ["render"]

_STYLES: dict[Outcome, str] = {
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "waived": "magenta",
    "unknown": "bold yellow",
    "not-applicable": "dim",
}
_EXPLAINED = {"fail", "warn", "unknown"}
_WIDTH = 160
_LONGEST = 400


def render(report: Report, *, color: bool = False) -> str:
    """The report as text.

    Args:
        report: what was found.
        color: whether to use a terminal's colours. What came from the host never reaches the terminal as anything but plain text.
    """
    system: Literal["standard"] | None = "standard" if color else None
    console = Console(force_terminal=color, no_color=not color, color_system=system, width=_WIDTH, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for note in report.notes:
            console.print(Text(_inert(note), style="bold"))
        took = f" in {report.elapsed_s:.1f} s" if report.elapsed_s is not None else ""
        when = _inert(report.observed_at) or "at an unknown time"
        console.print(Text(f"{_inert(report.host)} against profile {report.profile}, observed {when}{took}"))
        width = max((len(finding.check) for finding in report.findings), default=0) + 1
        for finding in report.findings:
            _one(console, finding, width)
        counts = ", ".join(f"{report.summary[outcome]} {outcome}" for outcome in OUTCOMES if report.summary[outcome])
        console.print(Text(f"{len(report.findings)} checks: {counts}", style="bold"))
    return captured.get().rstrip("\n")


def _one(console: Console, finding: Finding, width: int) -> None:
    line = Text("  ")
    line.append(f"{finding.outcome:<15}", style=_STYLES[finding.outcome])
    line.append(f"{finding.check:<{width}}")
    line.append(_inert(finding.observed))
    console.print(line)
    if finding.outcome in _EXPLAINED:
        console.print(Text(f"{'':19}expected: {_inert(finding.expected)}"))
        if finding.hint:
            console.print(Text(f"{'':19}hint: {_inert(finding.hint)}"))


def _inert(text: str) -> str:
    """Text from a host as it may be shown: one line, nothing that a terminal would obey, bounded."""
    shown = "".join(c if c.isprintable() else "�" for c in text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"

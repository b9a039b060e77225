"""The report for Nagios, Icinga and what else reads their plugins: one line, with counts as performance data.

The status word follows the verdict. The exit code stays gpuprov's own, which plugins read otherwise: 1 is their WARNING, while here a
check failed. Whoever runs gpuprov as a plugin goes by the word, or maps 1 to 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.report.base import EXPLAINED, counted, inert
from provision.verify.finding import OUTCOMES, Outcome, Report, exit_code, summary

__all__ = ["render"]

_WORDS: Final = {EXIT_FAILED_CHECK: "CRITICAL", EXIT_UNKNOWN: "UNKNOWN"}
_NAMED: Final = 8  # the line must fit a pager, and the 4 KB that old NRPE carries
_NOTES: Final = 3
_LONGEST_NAME: Final = 60


def render(*reports: Report, strict: bool = False) -> str:
    """Status word, counts, what does not pass by name, notes; then the counts again for graphs."""
    code, counts = exit_code(reports, strict=strict), summary(reports)
    word = "WARNING" if code == EXIT_OK and counts["warn"] else _WORDS.get(code, "OK")
    where = _name(reports[0].host) if len(reports) == 1 else f"{len(reports)} hosts"
    parts = [f"{counted(counts) or 'no check was made'} on {where}"]
    parts += [named for outcome in EXPLAINED if (named := _named(reports, outcome))]
    parts += list(dict.fromkeys(_plain(note) for report in reports for note in report.all_notes(strict=strict)))[:_NOTES]
    return f"GPUPROV {word} - {'; '.join(parts)} | {_performance(reports, counts)}"


def _named(reports: Sequence[Report], outcome: Outcome) -> str:
    """Such as `fail: driver, counters`; with the host before it where there are several."""
    several = len(reports) > 1
    names = [
        f"{_name(report.host)}/{_name(finding.check)}" if several else _name(finding.check)
        for report in reports
        for finding in report.findings
        if finding.outcome == outcome
    ]
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{outcome}: {', '.join(names[:_NAMED])}{more}"


def _performance(reports: Sequence[Report], counts: dict[Outcome, int]) -> str:
    total = sum(counts.values())
    data = [f"hosts={len(reports)};;;0", *(f"{outcome}={counts[outcome]};;;0;{total}" for outcome in OUTCOMES)]
    took = [report.elapsed_s for report in reports if report.elapsed_s is not None]
    if took:
        data.append(f"elapsed={max(took):.3f}s;;;0")  # hosts are observed side by side: the slowest is what was waited for
    return " ".join(data)


def _plain(text: str, longest: int = 200) -> str:
    """Without the bar that begins performance data."""
    return inert(text, longest).replace("|", "¦")


def _name(text: str) -> str:
    return _plain(text, _LONGEST_NAME)

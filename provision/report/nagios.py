"""The report for Nagios, Icinga and everything that runs their plugins: one line, with counts as performance data.

The status word follows the verdict. The exit code stays gpuprov's own and means something else to Nagios: 1 is its WARNING, while here
a check failed. A wrapper must go by the word, or map 1 to 2.
"""

from collections.abc import Sequence
from typing import Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.report.base import EXPLAINED, inert, tally
from provision.verify.finding import OUTCOMES, Outcome, Report, exit_code, summary

_WORDS: Final = {EXIT_FAILED_CHECK: "CRITICAL", EXIT_UNKNOWN: "UNKNOWN"}
_MOST_CHECKS: Final = 8  # the line must fit a pager, and the 4 KB of old NRPE
_MOST_NOTES: Final = 3
_LONGEST_NAME: Final = 60


def render(*reports: Report, strict: bool = False) -> str:
    """Status word, counts, the names of the checks that do not pass, notes; then the counts again for graphs."""
    code, counts = exit_code(reports, strict=strict), summary(reports)
    word = "WARNING" if code == EXIT_OK and counts["warn"] else _WORDS.get(code, "OK")
    where = _name(reports[0].host) if len(reports) == 1 else f"{len(reports)} hosts"
    parts = [f"{tally(counts) or 'no check was made'} on {where}"]
    parts += [checks for outcome in EXPLAINED if (checks := _checks(reports, outcome))]
    parts += list(dict.fromkeys(_plain(note) for report in reports for note in report.all_notes(strict=strict)))[:_MOST_NOTES]
    return f"GPUPROV {word} - {'; '.join(parts)} | {_performance(reports, counts)}"


def _checks(reports: Sequence[Report], outcome: Outcome) -> str:
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
    more = f" and {len(names) - _MOST_CHECKS} more" if len(names) > _MOST_CHECKS else ""
    return f"{outcome}: {', '.join(names[:_MOST_CHECKS])}{more}"


def _performance(reports: Sequence[Report], counts: dict[Outcome, int]) -> str:
    total = sum(counts.values())
    data = [f"hosts={len(reports)};;;0", *(f"{outcome}={counts[outcome]};;;0;{total}" for outcome in OUTCOMES)]
    durations = [report.elapsed_s for report in reports if report.elapsed_s is not None]
    if durations:
        data.append(f"elapsed={max(durations):.3f}s;;;0")  # hosts are observed side by side: the slowest one determines the wait
    return " ".join(data)


def _plain(text: str, longest: int = 200) -> str:
    """Without the bar that begins performance data."""
    return inert(text, longest).replace("|", "¦")


def _name(text: str) -> str:
    return _plain(text, _LONGEST_NAME)

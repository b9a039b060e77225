"""Judged checks, the report on a host, and the verdict, which is decided here and nowhere else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN

Outcome = Literal["pass", "fail", "warn", "waived", "unknown", "not-applicable"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
# Why a finding is `waived`: the user gave --without-gpu, or the profile has a waiver of the check.
Excuse = Literal["without-gpu", "waiver"]
_STRICT: Final = "warnings count as failures (--strict)"


class Finding(NamedTuple):
    """One judged check; see `provision.verify.checks.base.Check`."""

    check: str
    title: str
    outcome: Outcome
    expected: str  # what the profile demands
    observed: str  # what the host shows, or why nothing was observed
    hint: str = ""  # what to do when it does not pass; empty when it does
    role: str | None = None
    needs_gpu: bool = False
    excuse: Excuse | None = None  # None unless the outcome is `waived`

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON-compatible data; `excuse` is there only where there is one."""
        data = self._asdict()
        if self.excuse is None:
            del data["excuse"]
        return data


@dataclass(frozen=True, slots=True)
class Report:
    """All findings on one host against one profile, in the order of the checks' list."""

    host: str  # as the user called it
    profile: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()  # what a reader must know before the findings, the most important first
    observed_at: str = ""  # when the facts were gathered, ISO 8601 UTC
    elapsed_s: float | None = None  # from the request to the facts, as the client saw them; None when judged from a file
    schema: str = field(default="gpuprov-report/1")

    @property
    def summary(self) -> dict[Outcome, int]:
        """How many findings have each outcome, for every outcome."""
        counts = Counter(finding.outcome for finding in self.findings)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    def exit_code(self, *, strict: bool = False) -> int:
        """The exit code of the process: 0 holds, 1 a check failed, 3 something is unknown; `strict` counts warnings as failures."""
        counts = self.summary
        if any(fails(outcome, strict=strict) for outcome in OUTCOMES if counts[outcome]):
            return EXIT_FAILED_CHECK
        return EXIT_UNKNOWN if counts["unknown"] else EXIT_OK

    def all_notes(self, *, strict: bool = False) -> tuple[str, ...]:
        """The notes; with `strict` and a warning also that warnings are failures."""
        return (*self.notes, _STRICT) if strict and self.summary["warn"] else self.notes

    def as_dict(self, *, strict: bool = False) -> dict[str, Any]:
        """The report as JSON-compatible data; `strict` changes no finding, so that their digest stays the same."""
        return {
            **asdict(self),
            "findings": [finding.as_dict() for finding in self.findings],
            "notes": self.all_notes(strict=strict),
            "summary": self.summary,
            "exit_code": self.exit_code(strict=strict),
        }


def fails(outcome: Outcome, *, strict: bool = False) -> bool:
    """Whether a finding is a failure; `strict` counts warnings as failures."""
    return outcome == "fail" or (strict and outcome == "warn")


def summary(reports: Sequence[Report]) -> dict[Outcome, int]:
    """How many findings on all hosts together have each outcome, for every outcome."""
    return {outcome: sum(report.summary[outcome] for report in reports) for outcome in OUTCOMES}


def exit_code(reports: Sequence[Report], *, strict: bool = False) -> int:
    """The verdict on several hosts: a failure on any of them outweighs what is unknown; without hosts it is unknown."""
    codes = {report.exit_code(strict=strict) for report in reports}
    if EXIT_FAILED_CHECK in codes:
        return EXIT_FAILED_CHECK
    return EXIT_UNKNOWN if EXIT_UNKNOWN in codes or not codes else EXIT_OK

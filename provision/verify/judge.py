"""The verdict: every check over the facts, waivers applied, what was excused said first. Pure, apart from today's date."""

from __future__ import annotations

import dataclasses
import datetime as dt
import textwrap

from provision.profile.model import Profile, Waiver
from provision.verify.checks import CHECKS, Check
from provision.verify.checks.base import TIERS, Tier
from provision.verify.facts import Facts
from provision.verify.finding import Finding, Report
from provision.verify.schema import NotObservedError
from provision.verify.schema_health import Clock

__all__ = ["Selection", "judge"]

_CLOCK_OFF_S = 60
_PIECE = 300
_NO_GPU = "no NVIDIA GPU on this host"
_JUST_UP_S = 120
_EXCUSE_HINT = "verify on a host with the GPU, or excuse the GPU part with --without-gpu"


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Which checks are made: all but `skip`, or `only` these, of a tier. What is left out is named in the report, and proves nothing.

    Attributes:
        only: these checks; empty means all.
        skip: not these.
        tier: how much is looked at; None means what the profile says.
    """

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    tier: Tier | None = None

    def tier_of(self, profile: Profile) -> Tier:
        """How much is looked at where this profile should hold."""
        return self.tier or profile.verify.tier

    def takes(self, check: str) -> bool:
        """Whether a check is made."""
        return check not in self.skip and (not self.only or check in self.only)


def judge(
    facts: Facts,
    profile: Profile,
    *,
    host: str = "facts",
    selection: Selection = Selection(),
    without_gpu: bool = False,
    today: dt.date | None = None,
    elapsed_s: float | None = None,
) -> Report:
    """Judge facts against a profile.

    Args:
        facts: what was observed.
        profile: what should hold.
        host: the host's name, for the report.
        selection: which checks.
        without_gpu: excuse the checks that need a GPU; the first note says how many were not proven.
        today: the day on which waivers are looked at.
        elapsed_s: seconds that the observation took.
    """
    asked = profile.model_copy(update={"verify": profile.verify.model_copy(update={"tier": selection.tier_of(profile)})})
    findings = [_judge_one(check, facts, asked) for check in CHECKS if selection.takes(check.id)]
    left_out = [check.id for check in CHECKS if not selection.takes(check.id)]
    # In pieces, because formats cut a long line, and each check that was left out is named.
    notes = [f"not checked, by --only or --skip: {piece}" for piece in textwrap.wrap(", ".join(left_out), _PIECE)]
    if without_gpu:
        excused = [f.check for f in findings if _excusable(f)]
        findings = [_excuse(f) if f.check in excused else f for f in findings]
        notes.append(f"GPU part excused by --without-gpu: {len(excused)} checks were not proven")
    waivers = tuple(waiver for waiver in profile.verify.waivers if waiver.check not in left_out)
    findings, about_waivers = _waive(findings, waivers, today or dt.datetime.now(dt.UTC).date())
    return Report(
        host=host,
        profile=profile.name,
        findings=tuple(findings),
        notes=(*notes, *about_waivers, *_about_host(findings), *_about_boot(facts), *_about_clock(facts)),
        observed_at=facts.gathered_at,
        elapsed_s=elapsed_s,
    )


def _judge_one(check: Check, facts: Facts, profile: Profile) -> Finding:
    asked = profile.verify.tier
    if TIERS.index(check.tier) > TIERS.index(asked):
        return Finding(
            check=check.id,
            title=check.title,
            outcome="not-applicable",
            expected="nothing",
            observed=f"not checked: tier {asked} leaves it out, tier {check.tier} has it",
            role=check.role,
            needs_gpu=check.needs_gpu,
        )
    try:
        verdict = check.judge(facts, profile)
    except NotObservedError as reason:
        return Finding(
            check=check.id,
            title=check.title,
            outcome="unknown",
            expected=check.title,
            observed=f"not observed: {reason}",
            hint=_EXCUSE_HINT if _NO_GPU in str(reason) else check.unknown_hint,
            role=check.role,
            needs_gpu=check.needs_gpu,
        )
    return Finding(check=check.id, title=check.title, role=check.role, needs_gpu=check.needs_gpu, **dataclasses.asdict(verdict))


def _excusable(finding: Finding) -> bool:
    return finding.needs_gpu and finding.outcome in {"unknown", "fail", "warn"}


def _excuse(finding: Finding) -> Finding:
    return dataclasses.replace(
        finding, outcome="waived", excuse="without-gpu", observed=f"excused by --without-gpu: {finding.observed}", hint=""
    )


def _waive(findings: list[Finding], waivers: tuple[Waiver, ...], today: dt.date) -> tuple[list[Finding], list[str]]:
    """Apply the profile's waivers; one that has expired excuses nothing, and one that nothing needs is reported."""
    by_check = {waiver.check: waiver for waiver in waivers}
    notes = [f"waiver of {w.check!r}: there is no such check" for w in waivers if w.check not in {f.check for f in findings}]
    judged = []
    for finding in findings:
        waiver = by_check.get(finding.check)
        if waiver is None or finding.outcome == "waived":
            judged.append(finding)
        elif finding.outcome in {"pass", "not-applicable"}:
            notes.append(f"waiver of {finding.check!r} is not needed: it is {finding.outcome}")
            judged.append(finding)
        elif waiver.expires < today:
            expired = f"{finding.observed}; its waiver by {waiver.owner} expired on {waiver.expires}"
            judged.append(dataclasses.replace(finding, observed=expired))
        else:
            words = f"{finding.outcome}: {finding.observed}; waived by {waiver.owner} until {waiver.expires}: {waiver.reason}"
            judged.append(dataclasses.replace(finding, outcome="waived", excuse="waiver", observed=words, hint=""))
    return judged, notes


def _about_host(findings: list[Finding]) -> list[str]:
    missing = [f for f in findings if f.outcome == "unknown" and _NO_GPU in f.observed]
    return [f"{_NO_GPU}: {len(missing)} GPU checks are unknown"] if missing else []


def _about_boot(facts: Facts) -> list[str]:
    """What makes the times of a report doubtful, or its settings younger than they look; nothing where the probe is older than the fact."""
    try:
        clock = facts.read(Clock)
    except NotObservedError:
        return []
    notes = [] if clock.synchronised is not False else ["the host's clock follows no time server: its times may be off"]
    if clock.up_s < _JUST_UP_S:
        notes.append(f"the host is up for {clock.up_s:.0f} s: units of the boot may still be at work")
    return notes


def _about_clock(facts: Facts) -> list[str]:
    """A clock that is wrong makes certificates, package indexes and the dates of logs and waivers wrong."""
    ahead_s = facts.clock_ahead_s
    if ahead_s is None or abs(ahead_s) < _CLOCK_OFF_S:
        return []
    days, seconds = divmod(round(abs(ahead_s)), 86_400)
    long = f"{days} days" if days else f"{seconds} s"
    return [f"the host's clock is {long} {'ahead of' if ahead_s > 0 else 'behind'} this machine's: every date that it gave is off by that"]

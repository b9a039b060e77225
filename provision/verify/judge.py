"""The verdict: every check judged over the facts, excuses and waivers applied. Pure, apart from today's date."""

import contextlib
import datetime as dt
import functools
import re
import textwrap
from typing import Final

from provision.errors import counted
from provision.profile.model import Profile
from provision.profile.verification import Waiver
from provision.structs import Struct
from provision.verify.checks import CHECKS, Check
from provision.verify.checks.base import SPLIT, TIERS, Tier, Verdict, not_applicable, unknown
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import GpuFacts
from provision.verify.facts.system import ClockFacts, KernelFacts
from provision.verify.finding import Finding, Report

_CLOCK_OFF_S = 60
_NOTE_WIDTH = 300
_JUST_UP_S = 120
_WAIT_HINT = "wait until `systemctl is-system-running --wait` ends, and verify again"
_MICROSOFT: Final = re.compile(r"-microsoft-\S*WSL2")
_NO_GPU_HINT = "verify on a host with the GPU, or excuse the GPU part with --without-gpu"


class Selection(Struct):
    """Which checks are made. The report names the checks that are left out; nothing is proven about them."""

    only: frozenset[str] = frozenset()  # empty means all
    skip: frozenset[str] = frozenset()
    tier: Tier | None = None  # None means what the profile says

    def tier_of(self, profile: Profile) -> Tier:
        """The tier for a host on which this profile should hold."""
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

    `without_gpu` excuses the checks that need a GPU, and a note says how many were not proven. `today` decides whether a waiver has
    expired; None is the current day in UTC. `host` and `elapsed_s` (of the observation) are for the report.
    """
    tier = selection.tier_of(profile)
    if profile.verify.tier != tier:
        profile = profile.model_copy(update={"verify": profile.verify.model_copy(update={"tier": tier})})
    gpu_missing = _gpu_missing(facts)
    made, omitted = _chosen(selection, tier, split=bool(profile.gpu.mig))
    findings = [told or _judge_one(check, facts, profile, gpu_missing=gpu_missing) for check, told in made]
    # Those that were made are named where they are fewer; in several notes, because some formats cut a long line.
    few = [check.id for check, _ in made] if selection.only and len(made) < len(omitted) else []
    lead = f"not checked, by --only or --skip: {f'the {len(omitted)} others than ' if few else ''}"
    notes = [f"{lead}{ids}" for ids in textwrap.wrap(", ".join(few or omitted), _NOTE_WIDTH, break_on_hyphens=False)]
    if without_gpu:
        findings = [_excuse(finding) for finding in findings]
        excused = sum(finding.excuse == "without-gpu" for finding in findings)
        notes.append(f"GPU part excused by --without-gpu: {counted(excused, 'check was', 'checks were')} not proven")
    if waivers := [waiver for waiver in profile.verify.waivers if waiver.check not in omitted]:
        findings, waiver_notes = _waive(findings, waivers, today or dt.datetime.now(dt.UTC).date())
        notes += waiver_notes
    if gpu_missing and (unproven := sum(finding.outcome == "unknown" and finding.needs_gpu for finding in findings)):
        words = (
            "this is WSL, where the driver is that of Windows and none may be installed" if _wsl(facts) else "no NVIDIA GPU on this host"
        )
        notes.append(f"{words}: {counted(unproven, 'GPU check is', 'GPU checks are')} unknown")
    notes += [*_boot_notes(facts), *_clock_notes(facts)]
    return Report(host, profile.name, tuple(findings), tuple(notes), facts.gathered_at, elapsed_s)


def _gpu_missing(facts: Facts) -> bool:
    """Whether the host was observed to have no GPU; not whether that is merely unknown."""
    try:
        return not facts.read(GpuFacts).exists
    except NotObservedError:
        return False


def _wsl(facts: Facts) -> bool:
    """Whether the kernel is Microsoft's for Linux under Windows, where the GPU is no device on the bus."""
    try:
        return _MICROSOFT.search(facts.read(KernelFacts).release) is not None
    except NotObservedError:
        return False


@functools.lru_cache(maxsize=32)
def _chosen(selection: Selection, tier: Tier, *, split: bool) -> tuple[list[tuple[Check, Finding | None]], list[str]]:
    """The checks that are made, each with its finding where no fact decides it, and those that are left out: the same for every host."""
    made = [(check, _without_facts(check, tier, split=split)) for check in CHECKS if selection.takes(check.id)]
    return made, [check.id for check in CHECKS if not selection.takes(check.id)]


def _without_facts(check: Check, tier: Tier, *, split: bool) -> Finding | None:
    if TIERS.index(check.tier) > TIERS.index(tier):
        return _finding(check, not_applicable(f"not checked: tier {tier} leaves it out, tier {check.tier} has it"))
    return _finding(check, not_applicable(SPLIT)) if check.whole_gpus and split else None


def _judge_one(check: Check, facts: Facts, profile: Profile, *, gpu_missing: bool) -> Finding:
    if not check.finds_unasked and (why := check.unasked(profile)):
        return _finding(check, not_applicable(why))
    try:
        verdict = check.judge(facts, profile)
        if verdict.outcome == "fail" and _starts(check, facts):
            verdict = unknown(verdict.expected, f"{verdict.observed}; its unit is still starting", _WAIT_HINT)
        return _finding(check, verdict)
    except NotObservedError as reason:
        hint = _NO_GPU_HINT if gpu_missing and check.needs_gpu else check.unknown_hint
        return _finding(check, unknown(check.title, f"not observed: {reason}", hint))


def _starts(check: Check, facts: Facts) -> bool:
    with contextlib.suppress(NotObservedError):
        unit = check.unit(facts)
        return unit is not None and unit.starting
    return False


def _finding(check: Check, verdict: Verdict) -> Finding:
    return Finding(check.id, check.title, *verdict, check.role, check.needs_gpu)


def _excuse(finding: Finding) -> Finding:
    """The finding, excused by --without-gpu where it is about the GPU and does not hold."""
    if not finding.needs_gpu or finding.outcome not in {"unknown", "fail", "warn"}:
        return finding
    return finding._replace(outcome="waived", excuse="without-gpu", observed=f"excused by --without-gpu: {finding.observed}", hint="")


def _waive(findings: list[Finding], waivers: list[Waiver], today: dt.date) -> tuple[list[Finding], list[str]]:
    """Apply the profile's waivers. An expired one excuses nothing; a needless one is noted."""
    by_check = {waiver.check: waiver for waiver in waivers}
    notes = [f"the waiver of {check!r} names no check that exists" for check in by_check if check not in {f.check for f in findings}]
    result = []
    for finding in findings:
        waiver = by_check.get(finding.check)
        if waiver is None or finding.outcome == "waived":
            result.append(finding)
        elif finding.outcome in {"pass", "not-applicable"}:
            notes.append(f"the waiver of {finding.check!r} is not needed: the outcome is {finding.outcome}")
            result.append(finding)
        elif waiver.expires < today:
            text = f"{finding.observed}; its waiver by {waiver.owner} expired on {waiver.expires}"
            result.append(finding._replace(observed=text))
        else:
            text = f"{finding.outcome}: {finding.observed}; waived by {waiver.owner} until {waiver.expires}: {waiver.reason}"
            result.append(finding._replace(outcome="waived", excuse="waiver", observed=text, hint=""))
    return result, notes


def _boot_notes(facts: Facts) -> list[str]:
    """What makes the report's times doubtful, or its settings premature; nothing where the probe is older than this fact."""
    try:
        clock = facts.read(ClockFacts)
    except NotObservedError:
        return []
    notes = [] if clock.synchronised is not False else ["the host's clock follows no time server: its times may be wrong"]
    if clock.up_s < _JUST_UP_S:
        notes.append(f"the host has been up for only {clock.up_s:.0f} s: services of the boot may still be starting")
    return notes


def _clock_notes(facts: Facts) -> list[str]:
    """A wrong clock makes certificates, package indexes and the dates of logs and waivers wrong."""
    ahead_s = facts.clock_ahead_s
    if ahead_s is None or abs(ahead_s) < _CLOCK_OFF_S:
        return []
    days, seconds = divmod(round(abs(ahead_s)), 86_400)
    length = counted(days, "day") if days else f"{seconds} s"
    return [f"the host's clock is {length} {'ahead of' if ahead_s > 0 else 'behind'} this machine's: its dates are off by that much"]

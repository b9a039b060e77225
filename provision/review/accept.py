"""What a certificate says: evidence held against the review that it was made for, and judged again where the same program can.

A certificate is no better than the evidence: who makes evidence can make up facts. What is refused here is what contradicts itself:
parts that were changed, another review, findings that do not follow from the facts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from provision.canonical import digest
from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN, EvidenceRefusedError
from provision.profile.locked import pin
from provision.profile.model import Waiver
from provision.review.approval import Agreed
from provision.review.sign import Signature
from provision.verify import evidence as proof
from provision.verify.checks import CHECKS
from provision.verify.checks.base import TIERS
from provision.verify.evidence import Evidence, HostEvidence
from provision.verify.finding import Finding, Report, exit_code, fails
from provision.verify.fleet import REACHABLE
from provision.verify.judge import Selection, judge

__all__ = ["VERDICTS", "Certificate", "Part", "Waived", "certificate"]

VERDICTS: Final = {EXIT_OK: "holds", EXIT_FAILED_CHECK: "does not hold", EXIT_UNKNOWN: "not proven"}
_EXCUSED: Final = "excused by --without-gpu: "


@dataclass(frozen=True, slots=True)
class Waived:
    """A finding that somebody took responsibility for."""

    finding: Finding
    waiver: Waiver


@dataclass(frozen=True, slots=True)
class Part:
    """One host of a certificate.

    Attributes:
        fails, unknown, warns, holds: its findings; with --strict a warning fails.
        waived: by the profile.
        excused: by --without-gpu: nothing was proven.
        idle: not asked for by the profile, or not made by hardware.
        notes: of the report.
        again: whether the facts were judged again here, with the same findings.
        digests: of report, facts, profile and lock.
    """

    host: str
    observed_at: str
    verdict: int
    fails: tuple[Finding, ...]
    unknown: tuple[Finding, ...]
    warns: tuple[Finding, ...]
    holds: tuple[Finding, ...]
    waived: tuple[Waived, ...]
    excused: tuple[Finding, ...]
    idle: tuple[Finding, ...]
    notes: tuple[str, ...]
    again: bool
    digests: dict[str, str]


@dataclass(frozen=True, slots=True)
class Certificate:
    """Everything that the page says.

    Attributes:
        verdict: the exit code of the evidence.
        left_out: checks that nobody made, by --only, --skip or a tier below the profile's.
        required: how many signatures the rules demand; 0 for none.
        digests: of statement, profile and lock as signed, and of the evidence.
        evidence_by, made_by: which gpuprov.
    """

    profile: str
    purpose: str
    owner: str
    verdict: int
    parts: tuple[Part, ...]
    left_out: tuple[str, ...]
    approvals: tuple[Signature, ...]
    required: int
    counted: int
    digests: dict[str, str]
    evidence_by: str
    made_by: str
    made_at: str

    @property
    def word(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.verdict]

    @property
    def sentence(self) -> str:
        """The verdict as one sentence, the worst first."""
        hosts = ", ".join(part.host for part in self.parts[:3]) + (f" and {len(self.parts) - 3} more" if len(self.parts) > 3 else "")  # noqa: PLR2004
        failed = sum(len(part.fails) for part in self.parts)
        unknown = sum(len(part.unknown) for part in self.parts)
        excused = sum(len(part.excused) for part in self.parts)
        kinds = ((failed, "fails", "fail"), (unknown, "is unknown", "are unknown"), (excused, "is excused", "are excused"))
        left = (len(self.left_out), "was left out", "were left out")
        counts = [f"{n} check {one}" if n == 1 else f"{n} checks {more}" for n, one, more in (*kinds, left) if n]
        verb = {EXIT_OK: "holds", EXIT_FAILED_CHECK: "does not hold", EXIT_UNKNOWN: "is not proven to hold"}[self.verdict]
        return f"{hosts} {verb} {self.profile}" + (f": {', '.join(counts)}" if counts else "")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        data = asdict(self)
        for part, made in zip(self.parts, data["parts"], strict=True):
            made["waived"] = [{**asdict(one.finding), "waiver": one.waiver.model_dump(mode="json")} for one in part.waived]
        return {"schema": "gpuprov-certificate/1", "word": self.word, "sentence": self.sentence, **data}


def certificate(evidence: Evidence, agreed: Agreed, now: dt.datetime) -> Certificate:
    """Hold evidence against a review.

    Args:
        evidence: whose digests hold.
        agreed: the bundle, and who approved it.
        now: the time, with its zone.

    Raises:
        EvidenceRefusedError: it belongs to another review or to none, or contradicts itself.
    """
    bundle = agreed.bundle
    _bind(evidence, agreed)
    tier = evidence.method.tier or bundle.profile.verify.tier
    return Certificate(
        profile=bundle.profile.name,
        purpose=bundle.profile.purpose,
        owner=f"{bundle.profile.owner.name} <{bundle.profile.owner.email}>",
        verdict=exit_code([one.report for one in evidence.hosts], strict=evidence.method.strict),
        parts=tuple(_part(evidence, one, agreed) for one in evidence.hosts),
        left_out=tuple(_left_out(evidence, tier, bundle.profile.verify.tier)),
        approvals=agreed.signatures,
        required=agreed.required,
        counted=agreed.reviewed.counted,
        digests={
            "statement": bundle.digest,
            "profile": bundle.statement.profile.sha256,
            "lock": bundle.statement.lock.sha256,
            "evidence": evidence.sha256,
        },
        evidence_by=evidence.made_by,
        made_by=proof.MADE_BY,
        made_at=now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _bind(evidence: Evidence, agreed: Agreed) -> None:
    bundle = agreed.bundle
    hint = f"verify again with `gpuprov verify HOST --bundle {bundle.path} --evidence FILE`"
    if evidence.review is None:
        msg = "this evidence belongs to no review: it was made without --bundle"
        raise EvidenceRefusedError(msg, hint=hint)
    if evidence.review.statement != bundle.digest:
        msg = f"this evidence belongs to another statement: sha256:{evidence.review.statement}, and {bundle.path} is sha256:{bundle.digest}"
        raise EvidenceRefusedError(msg, hint=f"give the bundle that it was made with, or {hint}")
    if not evidence.hosts:
        msg = "there is no host in this evidence"
        raise EvidenceRefusedError(msg, hint=hint)
    asked = digest(pin(bundle.profile, bundle.lock).dump())
    for one in evidence.hosts:
        if one.sha256["profile"] != asked or one.report.profile != bundle.profile.name:
            msg = f"{one.host!a} was judged against another profile than the one that was signed"
            raise EvidenceRefusedError(msg, hint=hint)
        if one.sha256["lock"] != bundle.lock.digest:
            msg = f"{one.host!a} was judged against another lock than the one that was signed"
            raise EvidenceRefusedError(msg, hint=hint)
        if one.report.host != one.host:
            msg = f"the report of {one.host!a} is about another host, {one.report.host!a}"
            raise EvidenceRefusedError(msg, hint=hint)


def _judged_again(evidence: Evidence, one: HostEvidence, agreed: Agreed) -> bool:
    """Whether the findings follow from the facts; False where another version made them, which may have other checks.

    Raises:
        EvidenceRefusedError: they do not.
    """
    if one.facts is None:
        follows = [finding.check for finding in one.report.findings] == [REACHABLE] and one.report.exit_code() == EXIT_UNKNOWN
    elif evidence.made_by != proof.MADE_BY:
        return False
    else:
        how = evidence.method
        asked = pin(agreed.bundle.profile, agreed.bundle.lock)
        found = judge(
            one.facts,
            asked,
            host=one.host,
            selection=Selection(frozenset(how.only), frozenset(how.skip), how.tier),
            without_gpu=how.without_gpu,
            today=_day(how.on),
        )
        follows = found.findings == one.report.findings
    if not follows:
        msg = f"the findings on {one.host!a} do not follow from the facts in the evidence"
        raise EvidenceRefusedError(msg, hint="ask for evidence that `gpuprov verify` wrote; somebody changed this one and its digests")
    return one.facts is not None


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        msg = f"the day of this evidence is none: {text!a}"
        raise EvidenceRefusedError(msg, hint="ask for evidence that `gpuprov verify` wrote") from error


def _left_out(evidence: Evidence, tier: str, asked: str) -> Iterator[str]:
    selection = Selection(frozenset(evidence.method.only), frozenset(evidence.method.skip))
    for check in CHECKS:
        below = TIERS.index(tier) < TIERS.index(check.tier) <= TIERS.index(asked)
        if below or not selection.takes(check.id):
            yield check.id


def _part(evidence: Evidence, one: HostEvidence, agreed: Agreed) -> Part:
    again = _judged_again(evidence, one, agreed)
    report: Report = one.report
    strict = evidence.method.strict
    waivers = {waiver.check: waiver for waiver in agreed.bundle.profile.verify.waivers}
    excused = tuple(f for f in report.findings if f.outcome == "waived" and f.observed.startswith(_EXCUSED))
    waived = [f for f in report.findings if f.outcome == "waived" and f not in excused]
    if strange := [f.check for f in waived if f.check not in waivers]:
        msg = f"{strange[0]!a} is waived on {one.host!a}, and the profile has no waiver of it"
        raise EvidenceRefusedError(msg, hint="ask for evidence that `gpuprov verify` wrote with the signed bundle")

    def of(*outcomes: str) -> tuple[Finding, ...]:
        return tuple(f for f in report.findings if f.outcome in outcomes)

    return Part(
        host=one.host,
        observed_at=report.observed_at,
        verdict=report.exit_code(strict=strict),
        fails=tuple(f for f in report.findings if fails(f.outcome, strict=strict)),
        unknown=of("unknown"),
        warns=() if strict else of("warn"),
        holds=of("pass"),
        waived=tuple(Waived(f, waivers[f.check]) for f in waived),
        excused=excused,
        idle=of("not-applicable"),
        notes=report.all_notes(strict=strict),
        again=again,
        digests=dict(one.sha256),
    )

"""What a certificate says: evidence compared with the review that it was made for, and its facts judged again.

A certificate is only as good as its evidence, because whoever makes evidence can invent facts. Evidence that contradicts itself is
refused: changed parts, another review, a report that does not follow from the facts.
"""

import datetime as dt
from collections import Counter
from typing import Any, Final

from provision.canonical import digest
from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN, EvidenceRefusedError
from provision.profile.locked import pin
from provision.profile.verification import Waiver
from provision.review.approval import Agreement
from provision.review.bundle import Bundle
from provision.review.sign import Signature
from provision.structs import Struct, asdict
from provision.verify.checks import CHECKS
from provision.verify.checks.base import TIERS
from provision.verify.evidence import MADE_BY, Evidence, HostEvidence
from provision.verify.finding import Finding, Report, fails
from provision.verify.fleet import REACHABLE
from provision.verify.judge import Selection, judge

VERDICTS: Final = {EXIT_OK: "matches", EXIT_FAILED_CHECK: "does NOT match", EXIT_UNKNOWN: "not proven"}
_GROUPS: Final = ("fails", "unknown", "warns", "holds", "excused", "idle")
_ASK_AGAIN: Final = "ask for evidence that `gpuprov verify` wrote"
_NAMED_HOSTS: Final = 3
_SAME_DAY: Final = dt.timedelta(days=1)  # a run may pass midnight, and clocks differ


class WaivedFinding(Struct):
    """A finding that somebody takes responsibility for."""

    finding: Finding
    waiver: Waiver


class CertifiedHost(Struct):
    """One host of a certificate.

    Attributes:
        fails, unknown, warns, holds: its findings; with --strict a warning fails.
        waived: by the profile.
        excused: by --without-gpu, so that nothing about them is proven.
        idle: not required by the profile, or not possible with the hardware.
        notes: of the report.
        again: whether the facts were judged again here, with the same report.
        digests: of report, facts, profile and lock.
    """

    host: str
    observed_at: str
    verdict: int
    fails: tuple[Finding, ...]
    unknown: tuple[Finding, ...]
    warns: tuple[Finding, ...]
    holds: tuple[Finding, ...]
    waived: tuple[WaivedFinding, ...]
    excused: tuple[Finding, ...]
    idle: tuple[Finding, ...]
    notes: tuple[str, ...]
    again: bool
    digests: dict[str, str]


class Certificate(Struct):
    """Everything that the page says.

    Attributes:
        verdict: the exit code of the evidence.
        left_out: checks that nobody made, because of --only, --skip or a tier below the profile's.
        below_tier: those of them that only the lower tier left out.
        required: how many signatures the rules demand; 0 for none.
        digests: of statement, profile and lock as signed, and of the evidence.
        evidence_by, made_by: the gpuprov that made the evidence, and the one that made this.
    """

    profile: str
    purpose: str
    owner: str
    verdict: int
    parts: tuple[CertifiedHost, ...]
    left_out: tuple[str, ...]
    below_tier: tuple[str, ...]
    approvals: tuple[Signature, ...]
    required: int
    counted: int
    digests: dict[str, str]
    evidence_by: str
    made_by: str
    made_at: str

    @property
    def word(self) -> str:
        """The verdict in one or two words, and whether nobody signed what was judged."""
        return VERDICTS[self.verdict] + ("" if self.counted else ", unsigned")

    @property
    def sentence(self) -> str:
        """The verdict as one sentence, the worst first."""
        more, one = len(self.parts) - _NAMED_HOSTS, len(self.parts) == 1
        hosts = ", ".join(host.host for host in self.parts[:_NAMED_HOSTS]) + (f" and {more} more" if more > 0 else "")
        verb = {
            EXIT_OK: "matches" if one else "match",
            EXIT_FAILED_CHECK: "does NOT match" if one else "do NOT match",
            EXIT_UNKNOWN: "is not proven to match" if one else "are not proven to match",
        }[self.verdict]
        counts = (
            (sum(len(host.fails) for host in self.parts), "fails", "fail"),
            (sum(len(host.unknown) for host in self.parts), "is unknown", "are unknown"),
            (sum(len(host.excused) for host in self.parts), "is excused", "are excused"),
            (len(self.left_out), "was left out", "were left out"),
        )
        clauses = [f"{n} check {singular}" if n == 1 else f"{n} checks {plural}" for n, singular, plural in counts if n]
        return f"{hosts} {verb} the profile {self.profile}" + (f": {', '.join(clauses)}" if clauses else "")

    def as_dict(self) -> dict[str, Any]:
        """The certificate as JSON-compatible data."""
        data = asdict(self)
        del data["below_tier"]
        for host, entry in zip(self.parts, data["parts"], strict=True):
            entry |= {name: [finding.as_dict() for finding in getattr(host, name)] for name in _GROUPS}
            entry["waived"] = [{**each.finding.as_dict(), "waiver": each.waiver.model_dump(mode="json")} for each in host.waived]
        return {"schema": "gpuprov-certificate/1", "word": self.word, "sentence": self.sentence, **data}


def certificate(evidence: Evidence, agreement: Agreement, now: dt.datetime) -> Certificate:
    """Make the certificate of evidence, whose digests were checked, for the bundle that it was made with."""
    bundle = agreement.bundle
    _belongs_to(evidence, bundle)
    unselected, below_tier = _omissions(evidence, bundle)
    parts = tuple(_certified(evidence, host, bundle, now.astimezone(dt.UTC).date()) for host in evidence.hosts)
    verdicts = {part.verdict for part in parts}
    return Certificate(
        profile=bundle.profile.name,
        purpose=bundle.profile.purpose,
        owner=f"{bundle.profile.owner.name} <{bundle.profile.owner.email}>",
        verdict=next((code for code in (EXIT_FAILED_CHECK, EXIT_UNKNOWN) if code in verdicts), EXIT_OK),
        parts=parts,
        left_out=tuple(check.id for check in CHECKS if check.id in unselected or check.id in below_tier),
        below_tier=below_tier,
        approvals=agreement.signatures,
        required=agreement.required,
        counted=agreement.reviewed.counted,
        digests={
            "statement": bundle.digest,
            "profile": bundle.statement.profile.sha256,
            "lock": bundle.statement.lock.sha256,
            "evidence": evidence.sha256,
        },
        evidence_by=evidence.made_by,
        made_by=MADE_BY,
        made_at=now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _belongs_to(evidence: Evidence, bundle: Bundle) -> None:
    hint = f"verify again with `gpuprov verify HOST --bundle {bundle.path} --evidence FILE`"
    if evidence.review is None:
        msg = "this evidence belongs to no review: it was made without --bundle"
        raise EvidenceRefusedError(msg, hint=hint)
    if evidence.review.statement != bundle.digest:
        msg = f"this evidence belongs to another statement: sha256:{evidence.review.statement}, and {bundle.path} is sha256:{bundle.digest}"
        raise EvidenceRefusedError(msg, hint=f"name the bundle that the evidence was made with, or {hint}")
    if not evidence.hosts:
        msg = "there is no host in this evidence"
        raise EvidenceRefusedError(msg, hint=hint)
    names = Counter(host.host for host in evidence.hosts)
    if twice := next((name for name, count in names.items() if count > 1), None):
        msg = f"{twice!a} is in this evidence more than once"
        raise EvidenceRefusedError(msg, hint=_ASK_AGAIN)
    expected = digest(pin(bundle.profile, bundle.lock).dump())
    for host in evidence.hosts:
        if host.sha256["profile"] != expected or host.report.profile != bundle.profile.name:
            msg = f"{host.host!a} was judged against another profile than the signed one"
            raise EvidenceRefusedError(msg, hint=hint)
        if host.sha256["lock"] != bundle.lock.digest:
            msg = f"{host.host!a} was judged against another lock than the signed one"
            raise EvidenceRefusedError(msg, hint=hint)
        if host.report.host != host.host:
            msg = f"the report of {host.host!a} is about another host, {host.report.host!a}"
            raise EvidenceRefusedError(msg, hint=hint)


def _omissions(evidence: Evidence, bundle: Bundle) -> tuple[frozenset[str], tuple[str, ...]]:
    """The checks that --only or --skip left out, and those that a tier below the profile's left out."""
    conditions, required = evidence.conditions, TIERS.index(bundle.profile.verify.tier)
    tier = TIERS.index(conditions.tier or bundle.profile.verify.tier)
    selection = Selection(frozenset(conditions.only), frozenset(conditions.skip))
    unselected = frozenset(check.id for check in CHECKS if not selection.takes(check.id))
    below = (check.id for check in CHECKS if tier < TIERS.index(check.tier) <= required)
    return unselected, tuple(check for check in below if check not in unselected)


def _judged(evidence: Evidence, host: HostEvidence, bundle: Bundle) -> Report:
    """What the facts say by the checks of this version, whichever made the evidence; of a host without facts, that nobody observed it.

    Raises:
        EvidenceRefusedError: the report in the evidence does not follow, or its day is before the facts'. Of another version only the
            facts count: its checks may be others, so its report is neither compared nor believed.
    """
    conditions = evidence.conditions
    if host.facts is None:
        report = host.report
        follows = [finding.check for finding in report.findings] == [REACHABLE] and report.exit_code() == EXIT_UNKNOWN
    else:
        day = _day(conditions.on)
        report = judge(
            host.facts,
            pin(bundle.profile, bundle.lock),
            host=host.host,
            selection=Selection(frozenset(conditions.only), frozenset(conditions.skip), conditions.tier),
            without_gpu=conditions.without_gpu,
            today=day,
        )
        if _day(report.observed_at[:10]) - day > _SAME_DAY:
            msg = (
                f"{host.host!a} was observed on {report.observed_at[:10]} and judged as of {day}, when waivers counted that may have ended"
            )
            raise EvidenceRefusedError(msg, hint=_ASK_AGAIN)
        told = (host.report.findings, host.report.notes, host.report.observed_at)
        follows = evidence.made_by != MADE_BY or told == (report.findings, report.all_notes(strict=conditions.strict), report.observed_at)
    if not follows:
        msg = f"the findings on {host.host!a}, or the notes and the time beside them, do not follow from the facts in the evidence"
        raise EvidenceRefusedError(msg, hint=f"{_ASK_AGAIN}; somebody changed this one and its digests")
    return report


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        msg = f"the day in this evidence is not a date: {text!a}"
        raise EvidenceRefusedError(msg, hint=_ASK_AGAIN) from error


def _certified(evidence: Evidence, host: HostEvidence, bundle: Bundle, today: dt.date) -> CertifiedHost:
    report, strict = _judged(evidence, host, bundle), evidence.conditions.strict
    waivers = {waiver.check: waiver for waiver in bundle.profile.verify.waivers}
    waived = [finding for finding in report.findings if finding.outcome == "waived" and finding.excuse != "without-gpu"]
    for finding in waived:
        if finding.check not in waivers:
            msg = f"{finding.check!a} is waived on {host.host!a}, and the profile has no waiver of it"
            raise EvidenceRefusedError(msg, hint=f"{_ASK_AGAIN} with the signed bundle")
    excused = [finding for finding in report.findings if finding.outcome == "waived" and finding.excuse == "without-gpu"]
    for finding in excused:
        if not (evidence.conditions.without_gpu and finding.needs_gpu):
            msg = f"{finding.check!a} is excused on {host.host!a}, and it is not of a GPU part that --without-gpu left out"
            raise EvidenceRefusedError(msg, hint=_ASK_AGAIN)

    ended = (waivers[finding.check] for finding in waived)
    over = [f"the waiver of {waiver.check} counted, and ended on {waiver.expires}" for waiver in ended if waiver.expires < today]

    def with_outcome(outcome: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in report.findings if finding.outcome == outcome)

    return CertifiedHost(
        host=host.host,
        observed_at=report.observed_at,
        verdict=report.exit_code(strict=strict),
        fails=tuple(finding for finding in report.findings if fails(finding.outcome, strict=strict)),
        unknown=with_outcome("unknown"),
        warns=() if strict else with_outcome("warn"),
        holds=with_outcome("pass"),
        waived=tuple(WaivedFinding(finding, waivers[finding.check]) for finding in waived),
        excused=tuple(excused),
        idle=with_outcome("not-applicable"),
        notes=tuple(dict.fromkeys([*report.all_notes(strict=strict), *over])),  # evidence says of --strict itself
        again=host.facts is not None,
        digests=dict(host.sha256),
    )

"""Evidence: a verdict with what it was judged from, each part bound by its SHA-256, so that it can be judged again elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from provision import __version__
from provision.errors import FactsInvalidError
from provision.verify import facts as facts_of
from provision.verify.facts import Facts
from provision.verify.finding import Report
from provision.verify.fleet import Verified

__all__ = [
    "MADE_BY",
    "SCHEMA",
    "Approved",
    "Evidence",
    "How",
    "Proven",
    "Reviewed",
    "check",
    "digest",
    "evidence",
    "findings_digest",
    "read",
]

SCHEMA: Final = "gpuprov-evidence/1"
MADE_BY: Final = f"gpuprov {__version__}"
_PARTS: Final = ("report", "facts", "profile", "lock")
_AROUND: Final = ("made_by", "how", "review")
_MAX_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = "ask for the evidence again, from whoever ran `gpuprov verify --evidence`"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Approved(_Frozen):
    """One approval of the review, as it was judged when the evidence was made; see `review.sign.Signature`."""

    principal: str
    outcome: str
    key: str
    signed_at: str
    expires: str
    why: str


class Reviewed(_Frozen):
    """Which review the evidence belongs to: the digests of its statement, profile and lock, and who approved it until when."""

    statement: Sha256
    profile: Sha256
    lock: Sha256
    required: int
    counted: int
    approvals: Annotated[tuple[Approved, ...], Field(strict=False)]


class How(_Frozen):
    """Which checks were made, and on which day (ISO 8601): what is needed to judge the facts again."""

    only: Annotated[tuple[str, ...], Field(strict=False)] = ()
    skip: Annotated[tuple[str, ...], Field(strict=False)] = ()
    tier: Literal["quick", "standard", "perf"] | None = None
    without_gpu: bool = False
    strict: bool = False
    on: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]

    @property
    def choice(self) -> dict[str, Any]:
        """What decides about the findings, apart from the day."""
        return self.model_dump(mode="json", exclude={"on", "strict"})


def _with_findings(report: dict[str, Any]) -> dict[str, Any]:
    findings = report.get("findings")
    if not isinstance(findings, list) or not all(isinstance(finding, dict) for finding in findings):
        msg = "a report has a list of findings"
        raise ValueError(msg)
    return report


class _Host(_Frozen):
    host: str
    report: Annotated[dict[str, Any], AfterValidator(_with_findings)]
    facts: dict[str, Any] | None
    profile: dict[str, Any]
    lock: dict[str, Any] | None
    sha256: dict[str, Sha256]
    findings_sha256: Sha256


class _File(_Frozen):
    schema_version: Annotated[Literal["gpuprov-evidence/1"], Field(alias="schema")]
    made_by: Annotated[str, StringConstraints(max_length=100)]
    how: How
    review: Reviewed | None
    hosts: Annotated[tuple[_Host, ...], Field(strict=False)]
    sha256: Sha256


@dataclass(frozen=True, slots=True)
class Proven:
    """One host of evidence.

    Attributes:
        facts: None where the host could not be observed.
        profile, lock: as data.
        sha256: of report, facts, profile and lock.
    """

    host: str
    report: Report
    facts: Facts | None
    profile: dict[str, Any]
    lock: dict[str, Any] | None
    sha256: dict[str, str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence whose every part has its digest.

    Attributes:
        made_by: the program and its version.
        review: None where it was verified without a bundle.
        sha256: over everything.
    """

    hosts: tuple[Proven, ...]
    made_by: str
    how: How
    review: Reviewed | None
    sha256: str


def digest(part: Any) -> str:
    """SHA-256 over the canonical JSON form (keys sorted, no spaces, ASCII), hexadecimal."""
    return hashlib.sha256(json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def findings_digest(report: dict[str, Any]) -> str:
    """The digest of a report's findings alone: the same facts judged anywhere give the same one, whatever the host is called there.

    It leaves out `excuse`, which earlier versions did not write, so that theirs are equal; the digest of the report covers it.
    """
    return digest([{key: value for key, value in finding.items() if key != "excuse"} for finding in report["findings"]])


def evidence(verified: Sequence[Verified], how: How, review: Reviewed | None = None) -> dict[str, Any]:
    """The evidence of a run: for each host its report, facts, profile and lock with their digests, and one digest over all.

    Args:
        verified: the hosts.
        how: which checks were made.
        review: what the profile and its lock were signed as; None without a bundle.
    """
    hosts = []
    for one in verified:
        parts: dict[str, Any] = {
            "report": one.report.as_dict(strict=how.strict),
            "facts": one.facts.as_dict() if one.facts is not None else None,
            "profile": one.asked.profile.dump(),
            "lock": one.asked.lock.as_dict() if one.asked.lock else None,
        }
        digests = {name: digest(parts[name]) for name in _PARTS}
        hosts.append({"host": one.report.host, **parts, "sha256": digests, "findings_sha256": findings_digest(parts["report"])})
    around = {
        "made_by": MADE_BY,
        "how": how.model_dump(mode="json"),
        "review": review.model_dump(mode="json") if review is not None else None,
    }
    whole = {"schema": SCHEMA, **around, "hosts": hosts}
    return {**whole, "sha256": _whole(whole)}


def _whole(data: dict[str, Any]) -> str:
    return digest([[host["sha256"] for host in data["hosts"]], *(data[name] for name in _AROUND)])


def check(data: Any) -> None:
    """Refuse evidence of which a part does not have its digest.

    Raises:
        FactsInvalidError: naming the host and the part.
    """
    try:
        _File.model_validate(data)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "its top"
        msg = f"this is no evidence of version {SCHEMA}: see {where[:100]!a}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    for host in data["hosts"]:
        for name in _PARTS:
            if digest(host[name]) != host["sha256"].get(name):
                msg = f"the {name} of {host['host']!a} was changed after the verdict"
                raise FactsInvalidError(msg, hint=_HINT)
        if findings_digest(host["report"]) != host["findings_sha256"]:
            msg = f"the findings of {host['host']!a} do not have their digest"
            raise FactsInvalidError(msg, hint=_HINT)
    if _whole(data) != data["sha256"]:
        msg = "a host was added to this evidence or taken from it, or the review, the choice of checks or the version was changed"
        raise FactsInvalidError(msg, hint=_HINT)


def _with_excuses(report: Report, how: How) -> Report:
    """Add what earlier versions did not write: why each waived finding is waived.

    It follows from the choice of checks: --without-gpu excuses every check that needs a GPU before the profile's waivers are applied.
    """
    without_gpu = [finding.needs_gpu and how.without_gpu for finding in report.findings]
    return replace(
        report,
        findings=tuple(
            replace(finding, excuse="without-gpu" if gpu else "waiver")
            if finding.outcome == "waived" and finding.excuse is None
            else finding
            for finding, gpu in zip(report.findings, without_gpu, strict=True)
        ),
    )


def read(path: Path) -> Evidence:
    """Read evidence from strangers.

    Raises:
        FactsInvalidError: it cannot be read, is none, or a part of it does not have its digest.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        data = json.loads(raw) if len(raw) <= _MAX_BYTES else None
        check(data)
        found = _File.model_validate(data)
        hosts = tuple(
            Proven(
                host=one.host,
                report=_with_excuses(TypeAdapter(Report).validate_python(one.report), found.how),
                facts=None if one.facts is None else facts_of.parse(one.facts, f"the evidence of {one.host!a}"),
                profile=one.profile,
                lock=one.lock,
                sha256=one.sha256,
            )
            for one in found.hosts
        )
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint="name the file that `gpuprov verify --evidence` wrote") from error
    except (ValueError, RecursionError) as error:  # pydantic's is one
        msg = f"{path} holds no evidence: {type(error).__name__}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    return Evidence(hosts, found.made_by, found.how, found.review, found.sha256)

"""Evidence: a verdict with the facts, profile and lock it was judged from, each bound by its SHA-256, to be judged again elsewhere."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError

from provision import __version__
from provision.canonical import digest
from provision.errors import FactsInvalidError
from provision.paths import read_bounded
from provision.structs import Struct, replace
from provision.verify.facts import Facts, parse
from provision.verify.finding import Finding, Report
from provision.verify.fleet import HostVerification
from provision.verify.reviewed import EvidenceModel, Reviewed, Sha256

SCHEMA: Final = "gpuprov-evidence/1"
MADE_BY: Final = f"gpuprov {__version__}"
_PARTS: Final = ("report", "facts", "profile", "lock")
_CONTEXT: Final = ("made_by", "how", "review")
MAX_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = "ask the person who ran `gpuprov verify --evidence` for the file again"


class Conditions(EvidenceModel):
    """Under which conditions the facts were judged, so that they can be judged again: which checks, and on which day (ISO 8601)."""

    only: Annotated[tuple[str, ...], Field(strict=False)] = ()
    skip: Annotated[tuple[str, ...], Field(strict=False)] = ()
    tier: Literal["quick", "standard", "perf"] | None = None
    without_gpu: bool = False
    strict: bool = False
    on: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]

    @property
    def choice(self) -> dict[str, Any]:
        """The choice of checks: everything that decides about the findings, apart from the day."""
        return self.model_dump(mode="json", exclude={"on", "strict"})


def _with_findings(report: dict[str, Any]) -> dict[str, Any]:
    findings = report.get("findings")
    if not isinstance(findings, list) or not all(isinstance(finding, dict) for finding in findings):
        msg = "a report has a list of findings"
        raise ValueError(msg)
    return report


class _HostRecord(EvidenceModel):
    host: str
    report: Annotated[dict[str, Any], AfterValidator(_with_findings)]
    facts: dict[str, Any] | None
    profile: dict[str, Any]
    lock: dict[str, Any] | None
    sha256: dict[str, Sha256]
    findings_sha256: Sha256


class _EvidenceFile(EvidenceModel):
    schema_version: Annotated[Literal["gpuprov-evidence/1"], Field(alias="schema")]
    made_by: Annotated[str, StringConstraints(max_length=100)]
    how: Conditions
    review: Reviewed | None
    hosts: Annotated[tuple[_HostRecord, ...], Field(strict=False)]
    sha256: Sha256


class HostEvidence(Struct):
    """One host of evidence."""

    host: str
    report: Report
    facts: Facts | None  # None where the host could not be observed
    profile: dict[str, Any]
    lock: dict[str, Any] | None
    sha256: dict[str, str]  # of report, facts, profile and lock


class Evidence(Struct):
    """Evidence whose every part has its digest."""

    hosts: tuple[HostEvidence, ...]
    made_by: str  # the program and its version
    conditions: Conditions
    review: Reviewed | None  # None where it was verified without a bundle
    sha256: str  # over everything


def findings_digest(report: dict[str, Any]) -> str:
    """The digest of a report's findings alone: the same facts give the same digest on any machine, under any host name.

    It leaves out `excuse`, which earlier versions did not write; the digest of the whole report covers it.
    """
    return digest([{key: value for key, value in finding.items() if key != "excuse"} for finding in report["findings"]])


def evidence(verifications: Sequence[HostVerification], conditions: Conditions, review: Reviewed | None = None) -> dict[str, Any]:
    """The evidence of a run: for each host its report, facts, profile and lock with their digests, and one digest over everything.

    `review` is the one in which profile and lock were signed; None without a bundle.
    """
    hosts = []
    for one in verifications:
        parts: dict[str, Any] = {
            "report": one.report.as_dict(strict=conditions.strict),
            "facts": one.facts.as_dict() if one.facts is not None else None,
            "profile": one.expectation.profile.dump(),
            "lock": one.expectation.lock.as_dict() if one.expectation.lock else None,
        }
        digests = {name: digest(parts[name]) for name in _PARTS}
        hosts.append({"host": one.report.host, **parts, "sha256": digests, "findings_sha256": findings_digest(parts["report"])})
    data = {
        "schema": SCHEMA,
        "made_by": MADE_BY,
        "how": conditions.model_dump(mode="json"),
        "review": review.model_dump(mode="json") if review is not None else None,
        "hosts": hosts,
    }
    return {**data, "sha256": _digest_of_all(data)}


def _digest_of_all(data: dict[str, Any]) -> str:
    return digest([[host["sha256"] for host in data["hosts"]], *(data[name] for name in _CONTEXT)])


def check(data: Any) -> None:
    """Refuse evidence in which something does not match its digest: FactsInvalidError names the host and the part."""
    try:
        _EvidenceFile.model_validate(data)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "its top"
        msg = f"this is not evidence of version {SCHEMA}: see {where[:100]!a}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    for host in data["hosts"]:
        for name in _PARTS:
            if digest(host[name]) != host["sha256"].get(name):
                msg = f"the {name} of {host['host']!a} was changed after the verdict"
                raise FactsInvalidError(msg, hint=_HINT)
        if findings_digest(host["report"]) != host["findings_sha256"]:
            msg = f"the findings of {host['host']!a} do not match their digest"
            raise FactsInvalidError(msg, hint=_HINT)
    if _digest_of_all(data) != data["sha256"]:
        msg = "a host was added to this evidence or taken from it, or the review, the choice of checks or the version was changed"
        raise FactsInvalidError(msg, hint=_HINT)


def read(path: Path) -> Evidence:
    """Read an evidence file; nothing in it is trusted. FactsInvalidError where it is none, or does not match its digests."""
    try:
        return from_data(json.loads(read_bounded(path, MAX_BYTES)))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint="name the file that `gpuprov verify --evidence` wrote") from error
    except (ValueError, RecursionError) as error:  # pydantic's is one
        msg = f"{path} holds no evidence: {type(error).__name__}"
        raise FactsInvalidError(msg, hint=_HINT) from error


def from_data(data: Any) -> Evidence:
    """The evidence in the data of a file.

    Raises:
        FactsInvalidError: it is none, or does not match its digests.
        ValueError: a report in it is none.
    """
    check(data)
    content = _EvidenceFile.model_validate(data)
    hosts = tuple(
        HostEvidence(
            host=one.host,
            report=_with_excuses(TypeAdapter(Report).validate_python(one.report), content.how),
            facts=None if one.facts is None else parse(one.facts, f"the evidence of {one.host!a}"),
            profile=one.profile,
            lock=one.lock,
            sha256=one.sha256,
        )
        for one in content.hosts
    )
    return Evidence(hosts, content.made_by, content.how, content.review, content.sha256)


def _with_excuses(report: Report, conditions: Conditions) -> Report:
    """Add what earlier versions did not write: why each waived finding is waived.

    It follows from the choice of checks: --without-gpu excuses every check that needs a GPU before the profile's waivers are applied.
    """

    def excused(finding: Finding) -> Finding:
        if finding.outcome != "waived" or finding.excuse is not None:
            return finding
        return finding._replace(excuse="without-gpu" if conditions.without_gpu and finding.needs_gpu else "waiver")

    return replace(report, findings=tuple(map(excused, report.findings)))

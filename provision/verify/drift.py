"""What changed since evidence was made: each finding now against the finding then."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from provision.errors import UsageError
from provision.structs import Struct, asdict
from provision.verify.evidence import Conditions, Evidence, HostEvidence
from provision.verify.finding import Finding
from provision.verify.fleet import REACHABLE, HostVerification

_HOLDS: Final = frozenset({"pass", "warn", "waived", "not-applicable"})
# These checks measure anew at each run: a difference in figures alone is not a change.
MEASURING: Final = frozenset(
    {"root-room", "throttling", "gpu-health", "pcie", "gemm", "memory-bandwidth", "host-copies", "all-reduce", "bench"}
)
_FIGURE: Final = re.compile(r"\d+(\.\d+)?")
# `broke`: it held and no longer does; `mended`: the other way round; `moved`: another outcome on the same side; `observed`: the same
# outcome with another observation; `new` and `gone`: a check that was not made then, or is not made now.
DriftKind = Literal["broke", "moved", "gone", "new", "observed", "mended"]
_ORDER: Final[tuple[DriftKind, ...]] = ("broke", "moved", "gone", "new", "observed", "mended")


class Drift(Struct):
    """A finding that differs from the one in the evidence; `before` and `after` are outcome and observation, empty where there is none."""

    host: str
    check: str
    kind: DriftKind
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.host}: {self.check} {self.kind}: {self.before or 'not checked'} → {self.after or 'not checked'}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def require_comparable(evidence: Evidence, conditions: Conditions, statement: str | None) -> None:
    """See that a run now can be compared with earlier evidence, before anything is observed; UsageError where it cannot.

    It must have the same choice of checks and belong to the same review: `statement` is the digest of it in the bundle now, if any.
    """
    before, now = evidence.conditions.choice, conditions.choice
    if before != now:
        differences = ", ".join(f"{key} was {value!a}" for key, value in before.items() if value != now[key])
        msg = f"the evidence was made with another choice of checks: {differences}"
        raise UsageError(msg, hint="give --only, --skip, --tier and --without-gpu as they were given then")
    if statement is not None and evidence.review is not None and evidence.review.statement != statement:
        msg = f"the evidence belongs to another review: its statement is sha256:{evidence.review.statement}"
        raise UsageError(msg, hint="give the bundle that the evidence was made with, or verify without --against and keep new evidence")


def drifts(evidence: Evidence, verifications: Sequence[HostVerification]) -> list[Drift]:
    """All differences, those that broke first; UsageError where a host is not in the evidence.

    A single host is compared with the single host of the evidence, whatever their names; several hosts are compared by name.
    """
    by_name = {one.host: one for one in evidence.hosts}
    if len(by_name) < len(evidence.hosts):
        msg = "two hosts of this evidence have one name, so that one would hide the other"
        raise UsageError(msg, hint="verify without --against, and keep new evidence")
    single = len(evidence.hosts) == len(verifications) == 1
    result: list[Drift] = []
    for now in verifications:
        before = evidence.hosts[0] if single else by_name.get(now.report.host)
        if before is None:
            msg = f"there is no {now.report.host!a} in the evidence"
            raise UsageError(msg, hint=f"it has {', '.join(map(ascii, by_name)) or 'no host'}")
        result += _drifts_of_host(before, now)
    return sorted(result, key=lambda drift: _ORDER.index(drift.kind))


def any_broke(differences: Sequence[Drift]) -> bool:
    """Whether something that held no longer holds."""
    return any(drift.kind == "broke" for drift in differences)


def _drifts_of_host(evidence: HostEvidence, verification: HostVerification) -> Iterator[Drift]:
    before = {finding.check: finding for finding in evidence.report.findings}
    after = {finding.check: finding for finding in verification.report.findings}
    host = verification.report.host
    if REACHABLE in after and REACHABLE not in before:
        # Nothing is known about the other checks: they did not break one by one.
        yield Drift(host, REACHABLE, "broke", "pass: the host was observed", _text(after[REACHABLE]))
        return
    for check in dict.fromkeys([*before, *after]):
        old, new = before.get(check), after.get(check)
        kind = _kind(old, new)
        if kind is not None:
            yield Drift(host, check, kind, _text(old), _text(new))


def _kind(old: Finding | None, new: Finding | None) -> DriftKind | None:
    if old is None:
        return "mended" if new is not None and new.check != REACHABLE and new.outcome in _HOLDS else "new"
    if new is None:
        return "mended" if old.check == REACHABLE else "gone"
    if (old.outcome in _HOLDS) != (new.outcome in _HOLDS):
        return "broke" if old.outcome in _HOLDS else "mended"
    if old.outcome != new.outcome:
        return "moved"
    return "observed" if _comparable_value(old) != _comparable_value(new) else None


def _comparable_value(finding: Finding) -> str:
    """The observation; of a measuring check without its figures."""
    return _FIGURE.sub("#", finding.observed) if finding.check in MEASURING else finding.observed


def _text(finding: Finding | None) -> str:
    return f"{finding.outcome}: {finding.observed}" if finding is not None else ""

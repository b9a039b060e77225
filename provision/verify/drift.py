"""What moved since evidence was made: each finding now against what it was then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from provision.errors import UsageError
from provision.verify.evidence import Evidence, How, Proven
from provision.verify.finding import Finding
from provision.verify.fleet import REACHABLE, Verified

__all__ = ["MEASURED", "Moved", "broke", "comparable", "moved"]

_HELD: Final = frozenset({"pass", "warn", "waived", "not-applicable"})
# What these observe is measured anew at each look: figures alone are no change of theirs.
MEASURED: Final = frozenset({"root-room", "throttling", "gpu-health", "pcie", "gemm", "memory-bandwidth", "host-copies", "all-reduce"})
_FIGURE: Final = re.compile(r"\d+(\.\d+)?")
Kind = Literal["broke", "mended", "moved", "observed", "new", "gone"]


@dataclass(frozen=True, slots=True)
class Moved:
    """A finding that is not what it was.

    Attributes:
        kind: `broke`, it held and does not; `mended`, the other way; `moved`, another outcome of the same side; `observed`, the same
            outcome by another observation; `new` and `gone`, a check that was not made then, or is not made now.
        before, after: outcome and observation; empty where there is none.
    """

    host: str
    check: str
    kind: Kind
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.host}: {self.check} {self.kind}: {self.before or 'not checked'} → {self.after or 'not checked'}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def comparable(old: Evidence, how: How, statement: str | None) -> None:
    """See that a run now can be compared with evidence of then.

    Args:
        old: the evidence.
        how: which checks are about to be made.
        statement: the digest of the bundle's statement now; None without one.

    Raises:
        UsageError: other checks were made then, or another review was meant.
    """
    if old.how.choice != how.choice:
        differing = ", ".join(f"{key} was {value!a}" for key, value in old.how.choice.items() if value != how.choice[key])
        msg = f"the evidence was made with another choice of checks: {differing}"
        raise UsageError(msg, hint="give --only, --skip, --tier and --without-gpu as then")
    if statement is not None and old.review is not None and old.review.statement != statement:
        msg = f"the evidence belongs to another review: its statement is sha256:{old.review.statement}"
        raise UsageError(msg, hint="give the bundle that the evidence was made with, or verify without --against and keep new evidence")


def moved(old: Evidence, verified: Sequence[Verified]) -> list[Moved]:
    """What moved, what broke first. One host is compared with the one of the evidence, whatever it is called; several by their names.

    Raises:
        UsageError: a host is not in the evidence.
    """
    by_name = {one.host: one for one in old.hosts}
    alone = len(old.hosts) == len(verified) == 1
    found: list[Moved] = []
    for one in verified:
        was = old.hosts[0] if alone else by_name.get(one.report.host)
        if was is None:
            msg = f"there is no {one.report.host!a} in the evidence"
            raise UsageError(msg, hint=f"it has {', '.join(map(ascii, by_name)) or 'no host'}")
        found += _of_host(was, one)
    order: Sequence[Kind] = ("broke", "moved", "gone", "new", "observed", "mended")
    return sorted(found, key=lambda each: order.index(each.kind))


def broke(found: Sequence[Moved]) -> bool:
    """Whether something that held no longer holds."""
    return any(each.kind == "broke" for each in found)


def _of_host(was: Proven, now: Verified) -> Iterator[Moved]:
    before = {finding.check: finding for finding in was.report.findings}
    after = {finding.check: finding for finding in now.report.findings}
    host = now.report.host
    if REACHABLE in after and REACHABLE not in before:
        # Nothing is known of the rest: it did not break one by one.
        yield Moved(host, REACHABLE, "broke", "pass: the host was observed", _said(after[REACHABLE]))
        return
    for check in dict.fromkeys([*before, *after]):
        old, new = before.get(check), after.get(check)
        kind = _kind(old, new)
        if kind is not None:
            yield Moved(host, check, kind, _said(old), _said(new))


def _kind(old: Finding | None, new: Finding | None) -> Kind | None:
    if old is None:
        return "mended" if new is not None and new.check != REACHABLE and new.outcome in _HELD else "new"
    if new is None:
        return "mended" if old.check == REACHABLE else "gone"
    if (old.outcome in _HELD) != (new.outcome in _HELD):
        return "broke" if old.outcome in _HELD else "mended"
    if old.outcome != new.outcome:
        return "moved"
    return "observed" if _semantic(old) != _semantic(new) else None


def _semantic(finding: Finding) -> str:
    """What was observed, without figures that nobody set."""
    return _FIGURE.sub("#", finding.observed) if finding.check in MEASURED else finding.observed


def _said(finding: Finding | None) -> str:
    return f"{finding.outcome}: {finding.observed}" if finding is not None else ""

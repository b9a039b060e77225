"""Evidence: a verdict with what it was judged from, each part bound by its SHA-256, so that it can be judged again elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from provision.errors import FactsInvalidError
from provision.verify.fleet import Verified

__all__ = ["SCHEMA", "check", "digest", "evidence", "findings_digest"]

SCHEMA: Final = "gpuprov-evidence/1"
_PARTS: Final = ("report", "facts", "profile", "lock")


def digest(part: Any) -> str:
    """SHA-256 over the canonical JSON form (keys sorted, no spaces, ASCII), hexadecimal."""
    return hashlib.sha256(json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def findings_digest(report: dict[str, Any]) -> str:
    """The digest of a report's findings alone: the same facts judged anywhere give the same one, whatever the host is called there."""
    return digest(report["findings"])


def evidence(verified: Sequence[Verified], *, strict: bool = False) -> dict[str, Any]:
    """The evidence of a run: for each host its report, facts, profile and lock with their digests, and one digest over those."""
    hosts = []
    for one in verified:
        parts: dict[str, Any] = {
            "report": one.report.as_dict(strict=strict),
            "facts": one.facts.as_dict() if one.facts is not None else None,
            "profile": one.asked.profile.dump(),
            "lock": one.asked.lock.as_dict() if one.asked.lock else None,
        }
        digests = {name: digest(parts[name]) for name in _PARTS}
        hosts.append({"host": one.report.host, **parts, "sha256": digests, "findings_sha256": findings_digest(parts["report"])})
    return {"schema": SCHEMA, "hosts": hosts, "sha256": digest([host["sha256"] for host in hosts])}


def check(data: Any) -> None:
    """Refuse evidence of which a part does not have its digest.

    Raises:
        FactsInvalidError: naming the host and the part.
    """
    hint = "ask for the evidence again, from whoever ran `gpuprov verify --evidence`"
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("hosts"), list):
        msg = f"this is no evidence of version {SCHEMA}"
        raise FactsInvalidError(msg, hint=hint)
    for host in data["hosts"]:
        for name in _PARTS:
            if digest(host.get(name)) != host["sha256"].get(name):
                msg = f"the {name} of {host.get('host')!a} was changed after the verdict"
                raise FactsInvalidError(msg, hint=hint)
        if findings_digest(host["report"]) != host.get("findings_sha256"):
            msg = f"the findings of {host.get('host')!a} do not have their digest"
            raise FactsInvalidError(msg, hint=hint)
    if digest([host["sha256"] for host in data["hosts"]]) != data.get("sha256"):
        msg = "a host was added to this evidence, or taken from it"
        raise FactsInvalidError(msg, hint=hint)

"""`policy check`: a profile against the organisation's rules."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from provision.review import approval
from provision.review.policy import PolicyFile
from provision.review.rules import Violation
from provision.review.where import Organisation
from provision.workflow.session import ProfileSource


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """The organisation's rules, and where a profile breaks them."""

    rules: PolicyFile
    violations: list[Violation]


def check_policy(subject: ProfileSource, organisation: Organisation) -> PolicyCheck | None:
    """Judge a profile by the organisation's rules; None where there are no rules."""
    rules = approval.rules_for(organisation)
    if rules is None:
        return None
    now = dt.datetime.now(dt.UTC)
    return PolicyCheck(rules, approval.violations(rules, subject.profile, subject.lock, subject.source, now))

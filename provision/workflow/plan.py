"""`plan`: what `up` would do, by the catalogue or by the clouds, beside the organisation's rules."""

from __future__ import annotations

from dataclasses import dataclass

from provision.launch.journal import check_name
from provision.launch.ours import Ours
from provision.launch.plan import Plan, plan
from provision.profile.load import digest
from provision.review.where import Organisation
from provision.workflow.policy import PolicyCheck, check_policy
from provision.workflow.session import ProfileSource, Say, Session


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan, and what the organisation's rules say of its profile; None without rules."""

    plan: Plan
    policy: PolicyCheck | None


def plan_profile(name: str, machine: str | None, organisation: Organisation, *, ask: bool, rehearsal: bool, say: Say) -> CheckedPlan:
    """Plan the launch of a profile. Nothing is made for it.

    Args:
        name: the profile's name or file.
        machine: what the machine would be called; None for the profile's name.
        organisation: where its rules are.
        ask: whether the clouds are asked about each place.
        rehearsal: ask the embedded cloud, which is started for it.
        say: told about progress.

    Raises:
        ProfileInvalidError, LockStaleError, StackConflictError: the profile or its lock does not hold.
        PolicyInvalidError: the rules cannot be read.
        NameInvalidError: the machine cannot be called so.
    """
    subject = ProfileSource.read(name)
    policy = check_policy(subject, organisation)
    ours = Ours(Session.open().connect(rehearsal=rehearsal, start=True, say=say), say) if ask else None
    profile = subject.profile
    return CheckedPlan(plan(profile, digest(profile), check_name(machine or profile.name), subject.lock, ask=ours), policy)

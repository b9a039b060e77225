"""`plan`: what `up` would do, by the catalog or by the clouds, beside the organisation's rules."""

from __future__ import annotations

from dataclasses import dataclass

from provision.clouds.base import Answer
from provision.launch.ask import ask_clouds
from provision.launch.journal import check_name
from provision.launch.ours import Ours
from provision.launch.plan import Plan, PlannedPlace, plan
from provision.review.where import Organisation
from provision.workflow.policy import PolicyCheck, check_policy
from provision.workflow.session import ProfileSource, Say, Session


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan, what the clouds answered about its places, and what the organisation's rules say about it; None without rules."""

    plan: Plan
    answers: dict[PlannedPlace, tuple[Answer, ...]]
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
    """
    subject = ProfileSource.read(name)
    policy = check_policy(subject, organisation)
    planned = plan(subject.profile, subject.lock, check_name(machine or subject.profile.name))
    answers = ask_clouds(planned, Ours(Session.open().connect(rehearsal=rehearsal, start=True, say=say), say)) if ask else {}
    return CheckedPlan(planned, answers, policy)

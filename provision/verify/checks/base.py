"""What a check is, and the words in which it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from provision.profile.model import Profile
from provision.verify.facts import Facts
from provision.verify.finding import Outcome

__all__ = ["TIERS", "Check", "Tier", "Verdict", "failed", "not_asked", "passed", "unknown", "warned"]

Tier = Literal["quick", "standard", "perf"]
TIERS: Final[tuple[Tier, ...]] = ("quick", "standard", "perf")  # each looks at all that those before it look at


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a check ended; see `Finding` for the words."""

    outcome: Outcome
    expected: str
    observed: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that can be proven.

    Attributes:
        id: kebab-case, never reused.
        title: what is proven, as a sentence for a person.
        judge: a pure function of facts and profile; a fact that is not there raises NotObservedError, which makes the finding unknown.
        role: the Ansible role that makes it so, or None where none can.
        needs_gpu: whether it is excused together with the GPU.
        unknown_hint: what to do when it could not be observed.
        tier: the first at which it is judged; see FIRST_TIER in the probe for the facts.
    """

    id: str
    title: str
    judge: Callable[[Facts, Profile], Verdict]
    role: str | None = None
    needs_gpu: bool = False
    unknown_hint: str = "see the reason; `gpuprov probe HOST` shows all facts"
    tier: Tier = "quick"


def passed(expected: str, observed: str) -> Verdict:
    """Observed to hold."""
    return Verdict("pass", expected, observed)


def failed(expected: str, observed: str, hint: str) -> Verdict:
    """Observed not to hold."""
    return Verdict("fail", expected, observed, hint)


def warned(expected: str, observed: str, hint: str) -> Verdict:
    """Holds now, and may not later or not quite."""
    return Verdict("warn", expected, observed, hint)


def unknown(expected: str, observed: str, hint: str) -> Verdict:
    """Not observed."""
    return Verdict("unknown", expected, observed, hint)


def not_asked(why: str) -> Verdict:
    """The profile does not ask for it, or the hardware cannot have it."""
    return Verdict("not-applicable", "nothing", why)

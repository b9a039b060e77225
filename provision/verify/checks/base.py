"""What a check is, and the words in which it answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from provision.catalog.records.base import version
from provision.profile.model import Profile
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.base import Reading
from provision.verify.facts.gpu import DeviceFacts, GpuFacts, NvmlFacts
from provision.verify.finding import Outcome

__all__ = [
    "TIERS",
    "Check",
    "Tier",
    "Verdict",
    "devices",
    "dotted",
    "failed",
    "not_asked",
    "number",
    "passed",
    "require_gpu",
    "unknown",
    "unsupported",
    "value",
    "warned",
]

Tier = Literal["quick", "standard", "perf"]
TIERS: Final[tuple[Tier, ...]] = ("quick", "standard", "perf")  # each looks at all that those before it look at
_NO_GPU = "no NVIDIA GPU on this host"


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


def require_gpu(facts: Facts) -> GpuFacts:
    """What speaks for a GPU, on a host that has one.

    Raises:
        NotObservedError: there is none, in the words that a report counts.
    """
    found = facts.read(GpuFacts)
    if not found.exists:
        raise NotObservedError(_NO_GPU, kind="no-gpu")
    return found


def devices(facts: Facts) -> tuple[DeviceFacts, ...]:
    """The GPUs as NVML sees them, at least one.

    Raises:
        NotObservedError: there is none, or NVML did not answer.
    """
    require_gpu(facts)
    found = facts.read(NvmlFacts).devices
    if not found:
        msg = "NVML lists no device"
        raise NotObservedError(msg)
    return found


def value(reading: Reading) -> int | float | str:
    """What was read.

    Raises:
        NotObservedError: nothing was, with NVML's reason.
    """
    if reading.value is None:
        raise NotObservedError(reading.unknown or "no value")
    return reading.value


def number(reading: Reading) -> int:
    """What was read, as a count.

    Raises:
        NotObservedError: nothing was, or what can be no count.
    """
    found = value(reading)
    if not isinstance(found, int) or found < 0:
        msg = f"NVML read {found!r}, which can be no count"
        raise NotObservedError(msg)
    return found


def unsupported(reading: Reading) -> bool:
    """Whether NVML says that this GPU or this driver has no such thing, as opposed to not having said it."""
    return reading.value is None and any(words in (reading.unknown or "") for words in ("Not Supported", "Function Not Found"))


def dotted(text: str) -> tuple[int, ...]:
    """A version that was observed, as a tuple that compares.

    Raises:
        NotObservedError: it is none.
    """
    # Digits of the decimal system alone, and no more of them than a version has: int() takes others, and refuses very long ones.
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*(\+.*)?", text):
        msg = f"the version is malformed: {text[:50]!r}"
        raise NotObservedError(msg)
    return version(text)

"""What a check is, and the words in which it answers."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, Literal, NamedTuple, Self, TypeVar

from provision.catalog import read
from provision.catalog.records.base import version
from provision.profile.model import Profile
from provision.structs import MutableStruct, Struct, field
from provision.verify.codes import cuda_hint
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.base import Reading, UnitFacts
from provision.verify.facts.gpu import DeviceFacts, devices, not_started, require_gpu
from provision.verify.facts.perf import PerfFacts
from provision.verify.facts.stack import NvccTrial
from provision.verify.finding import Outcome

Tier = Literal["quick", "standard", "perf"]
# Hints that several checks give.
COMPARE = "compare with a healthy host of the same kind"
BROKEN = "the GPU or its memory is broken: hand the machine back"
_SEE_GPU = "see the reason, and the check gpu; `gpuprov probe HOST` shows all facts"
MEASURE = "see the reason, and measure again with --tier perf"
AGAIN = "stop what else uses the GPU, and measure again with --tier perf"

TIERS: Final[tuple[Tier, ...]] = ("quick", "standard", "perf")  # each has all checks of those before it

OF_THE_IMAGE: Final = "the driver is the image's own: name an image that has what `image: {has: …}` says, or correct it"


class Verdict(NamedTuple):
    """How a check ended; see `Finding` for the words."""

    outcome: Outcome
    expected: str
    observed: str
    hint: str = ""


_NOT_STARTED: Final = (126, 127)  # a shell's exit codes, and setpriv's, for a program that cannot be executed
WORST: Final[tuple[Outcome, ...]] = ("fail", "unknown", "warn", "pass")  # of the verdicts on several GPUs, the first that occurs counts

# A pure function; a missing fact raises NotObservedError, which makes the finding unknown.
Judge = Callable[[Facts, Profile], Verdict]
# Why a profile leaves a check nothing to prove; empty where it does not. The review says the same of it as `verify`.
Unasked = Callable[[Profile], str]


def always(_profile: Profile) -> str:
    """For a check that every profile asks for."""
    return ""


def unless(asked: Callable[[Profile], object], why: str) -> Unasked:
    """For a check that has nothing to prove unless the profile asks for it."""
    return lambda profile: "" if asked(profile) else why


class Check(Struct):
    """One thing that can be proven."""

    id: str  # kebab-case, never reused
    title: str  # what is proven, as a sentence for a person
    judge: Judge
    role: str | None = None  # the Ansible role that makes it so, or None where none can
    needs_gpu: bool = False  # whether it is excused together with the GPU
    unknown_hint: str = "see the reason; `gpuprov probe HOST` shows all facts"
    whole_gpus: bool = False  # whether it is about whole GPUs, and says nothing of GPUs that are split with MIG
    tier: Tier = "quick"  # the first at which it is judged; see FIRST_TIER in the probe for the facts
    unasked: Unasked = always
    unit: Callable[[Facts], UnitFacts | None] = lambda _: None  # whose work is proven; where it still starts, nothing has failed yet
    finds_unasked: bool = False  # whether the facts are judged even then, for what is there and not asked for


def named(name: str) -> Callable[[Facts], UnitFacts]:
    """For a check of what a unit does."""
    return lambda facts: facts.read(UnitFacts, name)


NO_FFMPEG: Final = unless(lambda p: p.stack.ffmpeg, "the profile does not ask for ffmpeg")


def no_extra(name: str) -> Unasked:
    """For a check of an optional component."""
    return lambda profile: "" if name in profile.stack.extras else f"the profile does not ask for {read.extras()[name].title}"


passes = partial(Verdict, "pass")
fails = partial(Verdict, "fail")
warns = partial(Verdict, "warn")  # holds now, and may not later or not quite
unknown = partial(Verdict, "unknown")
# The profile does not ask for it, or the hardware cannot have it.
not_applicable = partial(Verdict, "not-applicable", "nothing")


SPLIT: Final = "the GPUs are split with MIG (gpu.mig), and this is about whole ones and what connects them"


def visible_gpus(facts: Facts, profile: Profile) -> int:
    """How many GPUs a process should see: all of the host's but cards for a display, or one MIG device where they are split."""
    return 1 if profile.gpu.mig else max(1, require_gpu(facts).computing)


def together(expected: str, results: Sequence[Verdict]) -> Verdict:
    """The verdict of the worst GPU, with the words of each."""
    worst = min(results, key=lambda one: WORST.index(one.outcome))
    return Verdict(worst.outcome, expected, "; ".join(one.observed for one in results), "" if worst.outcome == "pass" else worst.hint)


def apply(role: str, does: str) -> str:
    """The hint for what a role does."""
    return f"`gpuprov apply HOST --role {role}` {does}"


def not_compiled(expected: str, trial: NvccTrial, own: str) -> Verdict | None:
    """The verdict on a program that was not compiled for every target, or could not be run; None where it ran.

    Its targets are the architectures of the host's GPUs; without one `own`, the profile's.
    """
    targets = trial.gpus or (own,)
    missing = [name for name in targets if name not in trial.lists]
    if trial.step == "find":
        return fails(expected, "no nvcc on PATH or in /usr/local/cuda/bin", apply("cuda_toolkit", "installs it"))
    if trial.step == "list" and (trial.code or not trial.lists):
        return unknown(expected, trial.ended, "see `nvcc --list-gpu-code` on the host")
    if missing:
        observed = f"nvcc has no {' and '.join(missing)}, only {', '.join(trial.lists)}"
        return fails(expected, observed, "choose a release in stack.cuda that has it: `gpuprov catalog cuda`")
    if trial.step == "host-compiler":
        observed = f"nvcc cannot use the host's compiler: {trial.ended}"
        return fails(expected, observed, "install a gcc that this toolkit supports, with its C++ part")
    if trial.step == "compile" and not trial.built:
        return fails(expected, trial.ended, apply("cuda_toolkit", "links the toolkit; its packages may be incomplete"))
    if not trial.gpus:
        built = "" if own in trial.built else f" (it has {own} as well)"
        return unknown(expected, f"compiled for {', '.join(trial.built)}{built}, not run: no NVIDIA GPU", "verify on a host with the GPU")
    if trial.code in _NOT_STARTED:
        return unknown(expected, f"compiled, not run: {trial.ended}", "TMPDIR must name a folder whose programs may be executed")
    if trial.code:
        return fails(expected, trial.ended, "compile and run a sample by hand; see the driver's messages in `dmesg`")
    if trial.error:
        hint = cuda_hint(trial.error, "see the checks driver, gpu-health and skew")
        return fails(expected, f"the program ran and got {trial.error}", hint)
    return None


def computed(expected: str, trial: NvccTrial, wrong: Sequence[str], right: int, gpus: int) -> Verdict:
    """The verdict on a program that ran: what is wrong, GPU by GPU, and on how many of the GPUs it ran."""
    if wrong:
        said = "; ".join(wrong)
        return fails(expected, said, cuda_hint(said, "see the checks driver, skew and gpu-health"))
    if right < gpus:
        return fails(expected, f"right on {right} of {gpus} GPUs", "see the checks gpu and device-nodes")
    who = " as root" if trial.as_root else ""
    return passes(expected, f"compiled for {' and '.join(trial.built)}, right on every GPU ({right}){who}")


class Signs(MutableStruct):
    """What one GPU, or all of them, show: signs that fail, signs that warn, and what is as it should be."""

    bad: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    sound: list[str] = field(default_factory=list)

    def add(self, other: Self, prefix: str = "") -> None:
        """Add those of another, each with a prefix."""
        self.bad.extend(prefix + sign for sign in other.bad)
        self.doubtful.extend(prefix + sign for sign in other.doubtful)
        self.sound.extend(prefix + sign for sign in other.sound)


T = TypeVar("T")


class Heard(NamedTuple, Generic[T]):
    """What was read of each GPU, by its index; and the GPUs that do not answer, each with the reason."""

    answers: dict[int, T]
    silent: list[str]

    def beside(self, verdict: Verdict) -> Verdict:
        """The verdict on the GPUs that answer, where some do not: these make it unknown, and hide no failure of the others."""
        if not self.silent or verdict.outcome == "not-applicable":
            return verdict
        observed = f"{'; '.join(self.silent)}; the others: {verdict.observed}"
        failed = verdict.outcome == "fail"
        return fails(verdict.expected, observed, verdict.hint) if failed else unknown(verdict.expected, observed, _SEE_GPU)


def ask(facts: Facts, profile: Profile, look: Callable[[DeviceFacts], T]) -> Heard[T]:
    """Look at each GPU; where none answers NotObservedError, with all reasons."""
    heard, gpus = Heard[T]({}, []), devices(facts)
    for index, device in gpus.items():
        try:
            heard.answers[index] = look(device)
        except NotObservedError as reason:
            heard.silent.append(f"GPU {index}: {device.lost or reason}")
    if len(gpus) < profile.gpu.count:
        heard.silent.extend(f"{address}: on the bus, and not started by the driver" for address in not_started(facts))
    if not heard.answers:
        raise NotObservedError("; ".join(heard.silent))
    return heard


def lacks(facts: Facts, reading: Callable[[DeviceFacts], Reading]) -> bool:
    """Whether no GPU has such a thing, by those that answer."""
    readings = [reading(device) for device in devices(facts).values()]
    return any(one.unsupported for one in readings) and all(one.value is None for one in readings)


def each_gpu(
    facts: Facts, profile: Profile, expected: str, look: Callable[[DeviceFacts], Signs], *, fail: str, warn: str, note: str = ""
) -> Verdict:
    """The verdict on all GPUs; see `Heard` for those that do not answer.

    `fail` and `warn` are the hints where a GPU fails or is doubtful; `note` follows every observation.
    """
    heard, signs = ask(facts, profile, look), Signs()
    for index, one in heard.answers.items():
        signs.add(one, f"GPU {index}: ")
    if signs.bad:
        verdict = fails(expected, "; ".join(signs.bad + signs.doubtful) + note, fail)
    elif signs.doubtful:
        verdict = warns(expected, "; ".join(signs.doubtful) + note, warn)
    else:
        verdict = passes(expected, ("; ".join(signs.sound) or "nothing") + note)
    return heard.beside(verdict)


def dotted(text: str) -> tuple[int, ...]:
    """An observed version, as a tuple that compares; what is not a version was not observed (NotObservedError)."""
    # Only digits of the decimal system, and no more than a version has: int() takes others, and refuses very long ones.
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*(\+.*)?", text):
        msg = f"the version is malformed: {text[:50]!r}"
        raise NotObservedError(msg)
    return version(text)


def gpu_count(facts: Facts, perf: PerfFacts, profile: Profile) -> int:
    """How many GPUs there should be: as many as were measured, as the host has, or as the profile asks for, whichever is most."""
    return max(len(perf.devices), require_gpu(facts).computing, profile.gpu.count)


def over_all(facts: Facts, perf: PerfFacts, profile: Profile, expected: str, results: Sequence[Verdict]) -> Verdict:
    """The verdict of the worst GPU; one that is not among those that were measured is unknown."""
    absent = range(len(perf.devices), gpu_count(facts, perf, profile))
    return together(expected, [*results, *(unknown("", f"GPU {number} not measured, it was not found", MEASURE) for number in absent)])

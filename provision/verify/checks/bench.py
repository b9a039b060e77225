"""The measurement that a profile demands: `gpuprov bench` made it, on these GPUs, lately, and every figure of it is judged here again."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from provision.errors import ProbeFailedError
from provision.profile.model import Profile
from provision.verify.bench.heard import BenchRun, replayed
from provision.verify.bench.plan import FULL, recipes_of
from provision.verify.bench.verdict import BenchVerdict, Past, judge
from provision.verify.checks.base import SPLIT, Check, Verdict, fails, passes, unknown, unless, warns
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.bench import BenchFacts
from provision.verify.facts.gpu import devices

_MEASURE: Final = "`gpuprov bench HOST`, and verify again from the same machine"
_LOW: Final = "see what held it back; if an idle host stays slow, hand the machine back and launch another"
_SHOWN: Final = 4
_DAY_S: Final = 86_400
_AHEAD_S: Final = 3600  # a measurement cannot be later than the look at the host, but for clocks that differ
_EVERYWHERE: Final = {step.recipe for step in FULL if step.ranks in {"all", "each"}}


def _bench(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.verify
    recipes = recipes_of(asked.bench)
    expected = f"measured within {asked.bench_days} days, and no figure below its gate: {', '.join(recipes)}"
    if profile.gpu.mig:
        return unknown(expected, SPLIT, "a profile that splits its GPUs demands no measurement: leave verify.bench out")
    gpus = sorted(str(device.uuid.answer()) for device in devices(facts).values())
    if BenchFacts.name not in facts.raw:
        return unknown(expected, "no measurement of these GPUs is kept on this machine", _MEASURE)
    kept = facts.read(BenchFacts)
    run = _run(kept)
    if sorted(gpu.uuid for gpu in run.gpus) != gpus:
        return unknown(expected, "the measurement is one of other GPUs", _MEASURE)
    age_s = _age_s(facts, kept)
    when = dt.datetime.fromtimestamp(kept.began, dt.UTC).strftime("%Y-%m-%d %H:%M")
    if age_s > asked.bench_days * _DAY_S:
        return unknown(expected, f"the last measurement is {age_s / _DAY_S:.1f} days old, of {when} UTC", _MEASURE)
    if age_s < -_AHEAD_S:
        return unknown(expected, f"the last measurement is of {when} UTC, later than these facts", "gather the facts again")
    past = Past(kept.own, kept.fleet)
    verdicts = [each for each in judge(run.start, run.measured, run.done, past) if each.figure.recipe in recipes]
    gaps = ["the full plan was not asked for"] if "full" in asked.bench and kept.plan != "full" else []
    gaps += _gaps(run, recipes, verdicts)
    gaps += [each.words for each in verdicts if each.outcome == "not-applicable" and each.figure.recipe in asked.bench]
    return _verdict(expected, verdicts, gaps)


def _run(kept: BenchFacts) -> BenchRun:
    """The run, from lines that are believed no more than when they came."""
    try:
        return replayed("the measurement", [line.encode() for line in kept.lines])
    except ProbeFailedError as error:
        raise NotObservedError(error.message) from error


def _age_s(facts: Facts, kept: BenchFacts) -> float:
    """Seconds from the measurement to the look at the host, by the client's clock; NotObservedError where the host told no time."""
    try:
        seen = dt.datetime.fromisoformat(facts.gathered_at)
    except ValueError as error:
        msg = "the host told no time, so the age of the measurement is not known"
        raise NotObservedError(msg) from error
    seen = seen if seen.tzinfo else seen.replace(tzinfo=dt.UTC)
    return seen.timestamp() - (facts.clock_ahead_s or 0.0) - kept.began


def _gaps(run: BenchRun, recipes: Sequence[str], verdicts: Sequence[BenchVerdict]) -> list[str]:
    """What was not measured: on every GPU where a recipe is for all of them."""
    gpus = set(range(len(run.gpus)))
    gaps = [] if run.ended else ["the measurement did not end"]
    for recipe in recipes:
        steps = [step for step in run.done if step.recipe == recipe]
        whys = [f"{recipe} on GPU {gpu}: {why}" for step in steps for gpu, why in step.whys.items()]
        done = {gpu for step in steps for gpu in step.ranks}
        found = {each.figure.gpu for each in verdicts if each.figure.recipe == recipe}
        if whys:
            gaps += whys[:1]
        elif not steps or (recipe in _EVERYWHERE and not gpus <= done):
            gaps.append(f"{recipe} was not measured" + (" on every GPU" if steps else ""))
        elif not (found >= gpus if recipe in _EVERYWHERE else found) and not (recipe == "peers" and len(gpus) == 1):
            gaps.append(f"{recipe} gave no figure" + (" of every GPU" if found else ""))
    return gaps


def _verdict(expected: str, verdicts: Sequence[BenchVerdict], gaps: Sequence[str]) -> Verdict:
    """The worst of the figures; what was not measured is unknown."""
    bad, doubtful, low = ([each for each in verdicts if each.outcome == outcome] for outcome in ("fail", "unknown", "warn"))
    good = sum(each.outcome == "pass" for each in verdicts)
    judged = sum(each.outcome not in {"reported", "not-applicable"} for each in verdicts)
    words = [*map(_figure, bad), *gaps, *map(_figure, doubtful), *map(_figure, low)]
    more = f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    observed = "; ".join([f"{good} of {judged} judged figures pass", *words[:_SHOWN]]) + more
    if bad:
        return fails(expected, observed, _LOW)
    if gaps or doubtful or not good:
        return unknown(expected, observed, _MEASURE)
    return warns(expected, observed, _LOW) if low else passes(expected, observed)


def _figure(verdict: BenchVerdict) -> str:
    figure = verdict.figure
    value = f"{figure.value:.5g} {figure.unit}" if figure.value is not None else ""
    return f"{figure.key} on GPU {figure.gpu}: {', '.join(text for text in (value, verdict.words) if text)}"


CHECKS = (
    Check(
        "bench",
        "what the profile demands to be measured was measured lately, and is as fast as it should be",
        _bench,
        needs_gpu=True,
        unknown_hint=_MEASURE,
        unasked=unless(lambda p: p.verify.bench, "the profile demands no measurement"),
    ),
)

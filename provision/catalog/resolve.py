"""Demands → one exact stack, each choice with its reason; or the smallest set of demands that cannot hold together, and what would.

Pure and offline: nothing here asks a cloud, an index or a clock. 5 ms a resolution once the problem is built (40 ms, once a process).
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from provision.catalog import read
from provision.catalog.optional import OPENCV, optional_rules
from provision.catalog.records.base import version
from provision.catalog.rules import TITLES, ClockRequest, rules
from provision.catalog.solve import Demand, Problem, Rule, choice
from provision.errors import StackConflictError

AUTO: Final = "auto"
NONE: Final = "none"
_WITHOUT: Final = "without "

# What a person calls each variable, and where a profile asks for it.
_TITLES: Final = {
    "gpu": ("GPU", "gpu.model"),
    "os": ("system", "os"),
    "pytorch": ("PyTorch", "stack.frameworks.pytorch"),
    "tensorflow": ("TensorFlow", "stack.frameworks.tensorflow"),
    "jax": ("JAX", "stack.frameworks.jax"),
    "driver": ("driver", "stack.driver"),
    "flavour": ("kernel modules", "stack.driver"),
    "cuda": ("CUDA", "stack.cuda"),
    "cudnn": ("cuDNN", "stack.cudnn"),
    "ncu": ("ncu", "stack.profilers"),
    "clock_mode": ("clocks", "gpu.application_clocks"),
    "counters": ("counters", "gpu.counters"),
    "clocks": ("clocks", "gpu.application_clocks"),
    "packages": ("packages", "sources.packages"),
    OPENCV: ("OpenCV with CUDA", "stack.opencv"),
}


@dataclass(frozen=True, slots=True)
class StackRequest:
    """What is asked of a stack; `auto` leaves a version open, None leaves a framework out.

    Attributes:
        gpu: model, as `v100`.
        os: system, as `ubuntu 22.04`.
        driver, cuda, cudnn, pytorch, tensorflow, jax: `auto`, or a version, which may leave its last parts open.
        ncu, nvprof: whether Nsight Compute, or its predecessor, must work.
        opencv: whether OpenCV is built with CUDA.
        extras: names of optional components.
        counters: `all-users`, `group` or `admin-only`.
        clocks: what the profile wants of the clocks.
    """

    gpu: str
    os: str
    driver: str = AUTO
    cuda: str = AUTO
    cudnn: str = AUTO
    pytorch: str | None = None
    tensorflow: str | None = None
    jax: str | None = None
    ncu: bool = False
    nvprof: bool = False
    opencv: bool = False
    extras: tuple[str, ...] = ()
    counters: str = "admin-only"
    packages: str = "nvidia"
    clocks: ClockRequest = field(default_factory=lambda: ClockRequest("default"))


@dataclass(frozen=True, slots=True)
class Choice:
    """One resolved value.

    Attributes:
        asked: the profile's word for it, or None where the profile cannot ask.
        because: why this and nothing better; empty where there is nothing better.
        passed_over: better values, each with the reason against it.
    """

    variable: str
    title: str
    value: str
    asked: str | None
    because: str
    passed_over: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Resolution:
    """A stack that holds together.

    Attributes:
        values: variable → value.
        warnings: what was asked for against advice.
        choices: in the order in which they were made.
    """

    asked: StackRequest
    values: dict[str, str]
    warnings: tuple[str, ...]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of one demand that would make the whole hold."""

    key: str
    to: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Demands that cannot hold together: no smaller set of them is at fault."""

    core: tuple[Demand, ...]
    reasons: tuple[str, ...]
    changes: tuple[Remedy, ...]


def resolve(asked: StackRequest, today: dt.date, *, explain: bool = True) -> Resolution:
    """The newest supported stack that satisfies what is asked.

    Args:
        asked: the demands.
        today: the day whose supported branches count.
        explain: whether each choice says why nothing better was taken.

    Raises:
        StackConflictError: there is none; `conflict` on it says which demands are at fault.
    """
    problem = _problem(today, asked.clocks, _optional(asked))
    demands = _demands(asked, problem)
    hard = [rule for rule in problem.rules if not rule.soft]
    soft = [rule for rule in problem.rules if rule.soft]
    if not problem.satisfiable(demands, hard):
        raise _refusal(_conflict(problem, demands, hard, soft))
    # Advice is given up rule by rule, the least of it that the demands force.
    heeded = list(soft)
    while not problem.satisfiable(demands, [*hard, *heeded]):
        at_fault = problem.at_fault(demands, [*heeded, *hard])
        heeded.remove(next(rule for rule in reversed(at_fault) if rule.soft))
    active = [*hard, *heeded]
    values = problem.best(demands, active)
    exact = [choice(name, key) for name, key in values.items()]
    warnings = tuple(problem.say(rule, exact) for rule in soft if not problem.satisfiable(exact, [rule]))
    choices = tuple(_choices(problem, demands, values, active)) if explain else ()
    return Resolution(asked, values, warnings, choices)


@functools.lru_cache(maxsize=8)
def _problem(today: dt.date, clocks: ClockRequest, optional: tuple[str, ...] = ()) -> Problem:
    def newest_first(versions: Iterable[str]) -> list[str]:
        # Of one version the index that was measured comes first.
        return sorted(versions, key=lambda v: (version(v), "+" not in v), reverse=True)

    frameworks = {name: {r.version: r for r in releases} for name, releases in read.frameworks().items()}
    toolkits = {t.version: t for t in read.toolkits().toolkits}
    cudnns = {c.version: c for c in read.cudnn().releases}
    branches = {b.branch: b for b in read.driver().branches}
    return Problem(
        {
            "gpu": {g.model: g for g in read.gpus().gpus},
            "os": {s.key: s for s in read.systems().systems},
            **{name: {**{v: known[v] for v in newest_first(known)}, NONE: None} for name, known in frameworks.items()},
            "driver": {v: branches[v] for v in newest_first(branches)},
            "flavour": {"open": "open", "proprietary": "proprietary"},
            "cuda": {v: toolkits[v] for v in newest_first(toolkits)},
            "cudnn": {v: cudnns[v] for v in newest_first(cudnns)},
            "packages": {word: word for word in ("nvidia", "distribution")},
            "ncu": {"no": "no", "yes": "yes"},
            "counters": {word: word for word in ("admin-only", "group", "all-users")},
            "clocks": {str(clocks): clocks} | {kind: ClockRequest(kind) for kind in ("default", "max")},
            "clock_mode": {mode: mode for mode in ("none", "locked", "application", "locked-graphics")},
            **{name: {name: read.extras().get(name, name), f"{_WITHOUT}{name}": None} for name in optional},
        },
        (*rules(today), *optional_rules(optional)),
    )


def _optional(asked: StackRequest) -> tuple[str, ...]:
    """Parts that are variables only where they are asked for; unlike the rest, leaving them out has no say in anything."""
    return (*(("nvprof",) if asked.nvprof else ()), *((OPENCV,) if asked.opencv else ()), *sorted(asked.extras))


def _demands(asked: StackRequest, problem: Problem) -> list[Demand]:
    """What is asked, as demands; a version that the catalogue does not know is refused here, with the nearest."""
    demands = []
    for name in ("gpu", "os", "driver", "cuda", "cudnn"):
        wanted = getattr(asked, name)
        if wanted != AUTO:
            demands.append(_versioned(problem, name, wanted))
    for name in TITLES:
        wanted = getattr(asked, name)
        title, key = _TITLES[name]
        if wanted is None:
            demands.append(Demand(key, name, frozenset({NONE}), f"no {title}"))
        elif wanted == AUTO:
            demands.append(Demand(key, name, frozenset(problem.variables[name]) - {NONE}, f"{title} of any version"))
        else:
            demands.append(_versioned(problem, name, wanted))
    demands.append(Demand("sources.packages", "packages", frozenset({asked.packages}), f"packages of {_WHOSE[asked.packages]}"))
    demands.append(Demand("gpu.counters", "counters", frozenset({asked.counters}), f"counters: {asked.counters}"))
    demands.append(Demand("gpu.application_clocks", "clocks", frozenset({str(asked.clocks)}), f"clocks at {asked.clocks}"))
    demands.append(Demand("stack.profilers", "ncu", frozenset({"yes" if asked.ncu else "no"}), "ncu" if asked.ncu else "no ncu"))
    optional = [(name, *_title(name)) for name in _optional(asked)]
    return [*demands, *(Demand(key, name, frozenset({name}), title) for name, title, key in optional)]


def _versioned(problem: Problem, name: str, wanted: str) -> Demand:
    title, key = _TITLES[name]
    known = [k for k in problem.variables[name] if k != NONE]
    # 580.95.05 asks for the branch 580; 12.9.1 for the toolkit 12.9; 9.10 for any 9.10.x. Only a version may leave parts open.
    fits = {k for k in known if f"{k}.".startswith(f"{wanted}.") or (name in {"driver", "cuda"} and wanted.startswith(f"{k}."))}
    if "+" not in wanted:
        fits = {k for k in fits if "+" not in k} or fits
    if not fits:
        if name in {"gpu", "os"}:
            msg = f"{key}: {title} {wanted!r} is not in the catalogue"
            raise StackConflictError(msg, hint=f"write one of: {', '.join(known)}")
        near = sorted(known, key=lambda k: _distance(k, wanted))[:3]
        msg = f"{key}: {title} {wanted} is not in the catalogue"
        raise StackConflictError(msg, hint=f"the nearest are {', '.join(near)}; `gpuprov catalog stacks` shows all")
    return Demand(key, name, frozenset(fits), wanted if name in {"gpu", "os"} else f"{title} {wanted}")


def _distance(known: str, wanted: str) -> tuple[int, ...]:
    pairs = zip((*version(known), 0, 0, 0), (*version(wanted), 0, 0, 0), strict=False)
    return tuple(abs(a - b) for a, b in pairs)


def _choices(problem: Problem, demands: Sequence[Demand], values: dict[str, str], active: Sequence[Rule]) -> Iterable[Choice]:
    made: list[Demand] = []
    asked = {d.variable: d for d in demands}
    for name, value in values.items():
        title, key = _title(name)
        demand = asked.get(name)
        if demand is None or len(demand.keys) > 1:
            better = [k for k in problem.variables[name] if demand is None or k in demand.keys]
            better = better[: better.index(value)]
            reasons = [(k, _why_not(problem, [*demands, *made, choice(name, k)], active)) for k in better]
            telling = [why for k, why in reasons if "+" not in k] or [why for _, why in reasons]
            because = telling[-1] if telling else "the newest there is" if name in _VERSIONED else ""
            yield Choice(name, title, value, None if demand is None else demand.text, because, tuple(reasons))
        else:
            yield Choice(name, title, value, demand.text, f"asked for in {key}")
        made.append(choice(name, value))


_WHOSE: Final = {"nvidia": "NVIDIA", "distribution": "the distribution itself"}
_VERSIONED: Final = frozenset({*TITLES, "driver", "cuda", "cudnn"})


def _why_not(problem: Problem, demands: Sequence[Demand], active: Sequence[Rule]) -> str:
    return "; ".join(dict.fromkeys(problem.say(rule, demands) for rule in problem.at_fault(demands, active)))


def _conflict(problem: Problem, demands: Sequence[Demand], hard: Sequence[Rule], soft: Sequence[Rule]) -> Conflict:
    core = problem.core(demands, hard)
    reasons = tuple(dict.fromkeys(problem.say(rule, core) for rule in problem.at_fault(core, hard)))
    # Another GPU is another machine: it is proposed where nothing smaller helps.
    smaller = [demand for demand in core if demand.variable != "gpu"]
    changes = _changes(problem, demands, smaller, hard, soft) or _changes(problem, demands, core, hard, soft)
    return Conflict(tuple(core), reasons, tuple(changes))


def _changes(
    problem: Problem, demands: Sequence[Demand], core: Sequence[Demand], hard: Sequence[Rule], soft: Sequence[Rule]
) -> list[Remedy]:
    """For each demand at fault the nearest value that would do: one that is advised, and one that merely works where that is nearer."""
    found = []
    for demand in core:
        others = [d for d in demands if d is not demand]
        for active in ([*hard, *soft], hard):
            if not problem.satisfiable(others, active):
                continue
            near = _by_nearness(problem, demand)
            to = next((key for key in near if problem.satisfiable([*others, choice(demand.variable, key)], active)), None)
            if to is not None and Remedy(demand.key, to) not in found:
                found.append(Remedy(demand.key, to))
    return found


def _by_nearness(problem: Problem, demand: Demand) -> list[str]:
    """The other values, nearest to what was demanded first in the order of preference; doing without comes last."""
    order = list(problem.variables[demand.variable])
    at = min(order.index(key) for key in demand.keys)
    others = [key for key in order if key not in demand.keys]
    return sorted(others, key=lambda k: (k == NONE, abs(order.index(k) - at), order.index(k)))


def _title(name: str) -> tuple[str, str]:
    """What a person calls a variable, and the key of a profile that asks for it."""
    if name in _TITLES:
        return _TITLES[name]
    extra = read.extras().get(name)
    return (extra.title, "stack.extras") if extra else (name, "stack.profilers")


def _way(change: Remedy) -> str:
    left_out = change.to.removeprefix(_WITHOUT)
    if left_out == OPENCV:
        return f"{change.key} to wheel"
    return f"{change.key} to {change.to}" if left_out == change.to else f"{change.key} so that it has no {left_out}"


def _refusal(conflict: Conflict) -> StackConflictError:
    what = " + ".join(d.text for d in conflict.core)
    why = "; ".join(conflict.reasons)
    ways = ", or ".join(_way(change) for change in conflict.changes)
    error = StackConflictError(f"{what}: {why}", hint=f"change {ways}" if ways else "no single change helps: ask for less")
    error.conflict = conflict
    return error

"""From a request to one exact stack with the reason for each choice, or to the smallest set of demands that conflict and its remedies.

Pure and offline: nothing here asks a cloud, a package index or a clock. A resolution takes 5 ms once the problem is built (40 ms, once a
process).
"""

import datetime as dt
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from provision.catalog import read
from provision.catalog.ages import day_of
from provision.catalog.conflict import NONE, WITHOUT, Accepts, refusal
from provision.catalog.optional import OPENCV, optional_rules
from provision.catalog.records.base import version
from provision.catalog.refused import refused_name, refused_system
from provision.catalog.rules import TITLES, ClockRequest, machine_rule, rules
from provision.catalog.signed import SIGNED
from provision.catalog.solve import Demand, Problem, Rule, choice
from provision.errors import StackConflictError
from provision.structs import Struct, field

AUTO: Final = "auto"

# What a person calls each variable, and the key of the profile that sets it.
_TITLES: Final = {
    "gpu": ("GPU", "gpu.model"),
    "os": ("system", "os"),
    "pytorch": ("PyTorch", "stack.frameworks.pytorch"),
    "tensorflow": ("TensorFlow", "stack.frameworks.tensorflow"),
    "jax": ("JAX", "stack.frameworks.jax"),
    "driver": ("driver", "stack.driver"),
    "flavour": ("kernel modules", "stack.driver_flavour"),
    "cuda": ("CUDA", "stack.cuda"),
    "cudnn": ("cuDNN", "stack.cudnn"),
    "ncu": ("ncu", "stack.profilers"),
    "clock_mode": ("clock mode", "gpu.application_clocks"),
    "counters": ("counters", "gpu.counters"),
    "clocks": ("clocks", "gpu.application_clocks"),
    "packages": ("packages", "sources.packages"),
    OPENCV: ("OpenCV with CUDA", "stack.opencv"),
    SIGNED: ("signed kernel modules", "stack.driver_build"),
}


class StackRequest(Struct):
    """What a stack should be; `auto` leaves a version open, None leaves cuDNN or a framework out.

    Attributes:
        gpu: model, such as `v100`.
        os: system, such as `ubuntu 22.04`.
        driver, cuda, cudnn, pytorch, tensorflow, jax: `auto`, or a version, which may omit its last parts.
        ncu, nvprof: whether Nsight Compute, or its predecessor, must work.
        opencv: whether OpenCV is built with CUDA.
        signed: whether the kernel modules carry a signature that Secure Boot accepts.
        extras: names of optional components.
        counters: `all-users`, `group` or `admin-only`.
        packages: `nvidia` or `distribution`.
        clocks: the clocks of the profile.
        flavour: `auto`, `open` or `proprietary` kernel modules.
        advised: the kernel modules that a machine is better off with, and why; None where nobody advises.
        defaults: the keys that the profile leaves at their defaults.
    """

    gpu: str
    os: str
    driver: str = AUTO
    cuda: str = AUTO
    cudnn: str | None = AUTO
    pytorch: str | None = None
    tensorflow: str | None = None
    jax: str | None = None
    ncu: bool = False
    nvprof: bool = False
    opencv: bool = False
    signed: bool = False
    extras: tuple[str, ...] = ()
    counters: str = "admin-only"
    packages: str = "nvidia"
    clocks: ClockRequest = field(default_factory=lambda: ClockRequest("default"))
    flavour: str = AUTO
    advised: tuple[str, str] | None = None
    defaults: frozenset[str] = frozenset()


class Choice(Struct):
    """One resolved value.

    Attributes:
        kind: who decided: `asked` the profile, `default` the default of a key that it leaves out, `chosen` the resolver.
        asked: the demand that left no or little choice, or None where there was none.
        because: why this value and no better one; empty where there is none better.
        passed_over: the better values, each with the reason against it.
    """

    variable: str
    title: str
    value: str
    kind: Literal["asked", "default", "chosen"]
    asked: str | None
    because: str
    passed_over: tuple[tuple[str, str], ...] = ()


class Advice(Struct):
    """One advice of the catalog that a stack goes against.

    Attributes:
        part: the variable that it is about, such as `driver` or `pytorch`.
        text: the advice, as the lock records it among its warnings.
    """

    part: str
    text: str


class Resolution(Struct):
    """A stack whose parts work together.

    Attributes:
        values: variable → value.
        advice: the advice that the request goes against.
        choices: in the order in which they were made.
    """

    request: StackRequest
    values: dict[str, str]
    advice: tuple[Advice, ...]
    choices: tuple[Choice, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The advice as texts."""
        return tuple(advice.text for advice in self.advice)


def resolve(request: StackRequest, today: dt.date, *, explain: bool = True, accepts: Accepts = lambda _: True) -> Resolution:
    """The newest supported stack that satisfies the request.

    Args:
        request: the demands.
        today: the day on which a driver branch must be supported.
        explain: whether each choice has its reason.
        accepts: whether changes that resolve a conflict also hold in the profile; others are not proposed.

    Raises:
        StackConflictError: there is no such stack; its `conflict` names the demands that conflict.
    """
    problem = _problem(today, request.clocks, _optional(request), request.advised)
    demands = _demands(request, problem)
    hard = [rule for rule in problem.rules if not rule.soft]
    soft = [rule for rule in problem.rules if rule.soft]
    if not problem.satisfiable(demands, hard):
        raise refusal(problem, demands, accepts)
    # Advice is dropped rule by rule, only as far as the demands force it.
    active = [*hard, *soft]
    while not problem.satisfiable(demands, active):
        at_fault = problem.at_fault(demands, [*(rule for rule in active if rule.soft), *hard])
        active.remove(next(rule for rule in reversed(at_fault) if rule.soft))
    values = problem.best(demands, active)
    choices = tuple(_choices(problem, demands, values, active, request.defaults)) if explain else ()
    return Resolution(request, values, tuple(_advice(problem.variables, soft, values)), choices)


def advice(values: Mapping[str, str], today: dt.date) -> tuple[Advice, ...]:
    """The advice that a stack goes against, such as the stack of a lock; rules about variables that are not in `values` are left out.

    Args:
        values: variable → value, such as `{"driver": "535", "cuda": "12.2"}`; an optional component is its own value (`nvprof`).
        today: the day on which a driver branch must be supported.
    """
    optional = tuple(name for name in ("nvprof", OPENCV, *read.extras()) if name in values)
    soft = [rule for rule in (*rules(today), *optional_rules(optional)) if rule.soft]
    return tuple(_advice(_variables(ClockRequest("default"), optional), soft, values))


def _advice(variables: Mapping[str, Mapping[str, Any]], soft: Iterable[Rule], values: Mapping[str, str]) -> Iterator[Advice]:
    for rule in soft:
        if all(values.get(name) in variables[name] for name in rule.over):
            records = [variables[name][values[name]] for name in rule.over]
            if not rule.holds(*records):
                yield Advice(rule.over[-1], rule.says(*records))


@functools.lru_cache(maxsize=8)
def _problem(today: dt.date, clocks: ClockRequest, optional: tuple[str, ...] = (), advised: tuple[str, str] | None = None) -> Problem:
    advice_of_machine = (machine_rule(*advised),) if advised else ()
    return Problem(_variables(clocks, optional), (*rules(today), *optional_rules(optional), *advice_of_machine))


def _variables(clocks: ClockRequest, optional: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Variable → value → its record, the best value first."""

    def newest_first(records: Iterable[Any], key: str = "version") -> dict[str, Any]:
        # The same version may come from two indexes; the one that was measured comes first.
        by_version = {getattr(record, key): record for record in records}
        return {v: by_version[v] for v in sorted(by_version, key=lambda v: (version(v), "+" not in v), reverse=True)}

    def words(*values: str) -> dict[str, Any]:
        return {value: value for value in values}

    return {
        "gpu": {g.model: g for g in read.gpus().gpus},
        "os": {s.key: s for s in read.systems().systems},
        **{name: newest_first(releases) | {NONE: None} for name, releases in read.frameworks().items()},
        "driver": newest_first(read.driver().branches, "branch"),
        "flavour": words("open", "proprietary"),
        "cuda": newest_first(read.toolkits().toolkits),
        "cudnn": newest_first(read.cudnn().releases) | {NONE: None},
        "packages": words("nvidia", "distribution"),
        "ncu": words("no", "yes"),
        "counters": words("admin-only", "group", "all-users"),
        "clocks": {str(clocks): clocks} | {kind: ClockRequest(kind) for kind in ("default", "max")},
        "clock_mode": words("none", "locked", "application", "locked-graphics"),
        **{name: {name: read.extras().get(name, name), f"{WITHOUT}{name}": None} for name in optional},
    }


def _optional(request: StackRequest) -> tuple[str, ...]:
    """Parts that are variables only where they are requested: no rule is about a stack without them."""
    own = {"nvprof": request.nvprof, OPENCV: request.opencv, SIGNED: request.signed}
    return (*(name for name, asked in own.items() if asked), *sorted(request.extras))


def _demands(request: StackRequest, problem: Problem) -> list[Demand]:
    """The request as demands; a version that is not in the catalog is refused here, with the nearest ones."""
    demands = []
    for name in ("gpu", "os", "driver", "cuda"):
        release = getattr(request, name)
        if release != AUTO:
            demands.append(_versioned(problem, name, release))
    for name in ("cudnn", *TITLES):
        release = getattr(request, name)
        title, key = _TITLES[name]
        if release is None:
            demands.append(Demand(key, name, frozenset({NONE}), f"no {title}"))
        elif release == AUTO:
            demands.append(Demand(key, name, frozenset(problem.variables[name]) - {NONE}, f"{title} of any version"))
        else:
            demands.append(_versioned(problem, name, release))
    if request.flavour != AUTO:
        demands.append(Demand(_TITLES["flavour"][1], "flavour", frozenset({request.flavour}), f"{request.flavour} kernel modules"))
    demands.append(Demand("sources.packages", "packages", frozenset({request.packages}), f"packages of {_WHOSE[request.packages]}"))
    demands.append(Demand("gpu.counters", "counters", frozenset({request.counters}), f"counters: {request.counters}"))
    demands.append(Demand("gpu.application_clocks", "clocks", frozenset({str(request.clocks)}), f"clocks at {request.clocks}"))
    demands.append(Demand("stack.profilers", "ncu", frozenset({"yes" if request.ncu else "no"}), "ncu" if request.ncu else "no ncu"))
    optional = [(name, *_title(name)) for name in _optional(request)]
    return [*demands, *(Demand(key, name, frozenset({name}), title) for name, title, key in optional)]


def _versioned(problem: Problem, name: str, release: str) -> Demand:
    title, key = _TITLES[name]
    versions = [k for k in problem.variables[name] if k != NONE]
    # 580.95.05 means the branch 580; 12.9.1 the toolkit 12.9; 9.10 any 9.10.x. Only a version may omit parts.
    fits = {k for k in versions if f"{k}.".startswith(f"{release}.") or (name in {"driver", "cuda"} and release.startswith(f"{k}."))}
    if "+" not in release:
        fits = {k for k in fits if "+" not in k} or fits
    if not fits:
        by_name = {"gpu": refused_name(release), "os": refused_system(*release.partition(" ")[::2])}.get(name)
        if by_name:
            raise StackConflictError(f"{release} {by_name.why}" if name == "gpu" else by_name.why, hint=by_name.instead, of=key)
        if name in {"gpu", "os"}:
            msg = f"{title} {release!r} is not in the catalog"
            raise StackConflictError(msg, hint=f"write one of: {', '.join(versions)}", of=key)
        near = sorted(versions, key=lambda k: _distance(k, release))[:3]
        msg = f"{title} {release} is not in the catalog"
        raise StackConflictError(msg, hint=f"the nearest are {', '.join(near)}; `gpuprov catalog stacks` shows all", of=key)
    return Demand(key, name, frozenset(fits), release if name in {"gpu", "os"} else f"{title} {release}")


def _distance(one: str, other: str) -> tuple[int, ...]:
    pairs = zip((*version(one), 0, 0, 0), (*version(other), 0, 0, 0), strict=False)
    return tuple(abs(a - b) for a, b in pairs)


def _choices(
    problem: Problem, demands: Sequence[Demand], values: dict[str, str], active: Sequence[Rule], defaults: frozenset[str]
) -> Iterable[Choice]:
    earlier: list[Demand] = []
    by_variable = {d.variable: d for d in demands}
    for name, value in values.items():
        title, key = _title(name)
        demand = by_variable.get(name)
        if demand is None or len(demand.keys) > 1:
            better = [k for k in problem.variables[name] if demand is None or k in demand.keys]
            better = better[: better.index(value)]
            reasons = [(k, _why_not(problem, [*demands, *earlier, choice(name, k)], active)) for k in better]
            main = [why for k, why in reasons if "+" not in k] or [why for _, why in reasons]
            because = main[-1] if main else f"the newest in the catalog of {day_of(name)}" if name in _VERSIONED else ""
            yield Choice(name, title, value, "chosen", None if demand is None else demand.text, because, tuple(reasons))
        elif key in defaults:
            yield Choice(name, title, value, "default", demand.text, f"the default of {key}")
        else:
            yield Choice(name, title, value, "asked", demand.text, f"asked for in {key}")
        earlier.append(choice(name, value))


_WHOSE: Final = {"nvidia": "NVIDIA", "distribution": "the distribution itself"}
_VERSIONED: Final = frozenset({*TITLES, "driver", "cuda", "cudnn"})


def _why_not(problem: Problem, demands: Sequence[Demand], active: Sequence[Rule]) -> str:
    return "; ".join(dict.fromkeys(problem.say(rule, demands) for rule in problem.at_fault(demands, active)))


def key_of(part: str) -> str:
    """The key of the profile that sets a part of the stack."""
    return _title(part)[1]


def _title(name: str) -> tuple[str, str]:
    """What a person calls a variable, and the key of the profile that sets it."""
    if name in _TITLES:
        return _TITLES[name]
    extra = read.extras().get(name)
    return (extra.title, "stack.extras") if extra else (name, "stack.profilers")

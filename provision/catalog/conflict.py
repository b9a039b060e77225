"""Demands that conflict: the smallest set of them, why, and the changes that would help."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from provision.catalog.optional import OPENCV
from provision.catalog.signed import SIGNED
from provision.catalog.solve import Demand, Problem, Rule, choice
from provision.errors import StackConflictError
from provision.structs import Struct

NONE: Final = "none"
WITHOUT: Final = "without "
_MACHINE: Final = frozenset({"gpu", "os"})
_MOST_TOGETHER: Final = 4
_TRIED: Final = 12  # values that are tried in the profile, which takes 10 ms each, before a change is given up
# Parts that have another value in place of being left out.
INSTEAD: Final = {OPENCV: "wheel", SIGNED: "dkms"}
_LISTS: Final = frozenset({"stack.extras", "stack.profilers"})


class Remedy(Struct):
    """A change of one demand.

    Attributes:
        key: the key of the profile.
        to: the new value; `none`, `no` or `without …` where a part is left out.
        variable: what it changes, since several components share one key.
    """

    key: str
    to: str
    variable: str

    @property
    def removes(self) -> bool:
        """Whether a part is left out, and no other value takes its place."""
        return self.variable not in INSTEAD and (self.to in {NONE, "no"} or self.to.startswith(WITHOUT))

    def __str__(self) -> str:
        if self.removes:
            return f"remove {self.variable} from {self.key}" if self.key in _LISTS else f"remove {self.key}"
        if self.variable in INSTEAD:
            return f"change {self.key} to {INSTEAD[self.variable]}"
        places = " and the places to ones that have it" if self.variable == "gpu" else ""
        return f"change {self.key} to {self.to}{places}"


Accepts = Callable[[tuple[Remedy, ...]], bool]
"""Whether changes that resolve a conflict also hold where the demands come from."""


class Conflict(Struct):
    """Demands that conflict; no smaller set of them does.

    Attributes:
        core: the demands.
        reasons: one sentence for each rule that is violated.
        remedies: changes of one demand, each of which is enough.
        together: where no change of one demand is enough, the fewest changes that are.
    """

    core: tuple[Demand, ...]
    reasons: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    together: tuple[Remedy, ...] = ()


def refusal(problem: Problem, demands: Sequence[Demand], accepts: Accepts) -> StackConflictError:
    """The error for demands that cannot be satisfied under the hard rules of a problem."""
    conflict = _conflict(problem, demands, accepts)
    message = f"{' + '.join(d.text for d in conflict.core)}: {'; '.join(conflict.reasons)}"
    if conflict.together:
        hint = f"{' and '.join(map(str, conflict.together))}: one of these changes alone is not enough"
    else:
        hint = ", or ".join(map(str, conflict.remedies)) or f"no change of up to {_MOST_TOGETHER} keys helps: ask for less"
    keys = tuple(demand.key for demand in sorted(conflict.core, key=lambda demand: demand.variable in _MACHINE))
    error = StackConflictError(message, hint=hint, keys=keys)
    error.conflict = conflict
    return error


def _conflict(problem: Problem, demands: Sequence[Demand], accepts: Accepts) -> Conflict:
    hard = [rule for rule in problem.rules if not rule.soft]
    core = problem.core(demands, hard)
    machine = [demand for demand in demands if demand.variable in _MACHINE]
    at_fault = problem.at_fault(core, hard)
    # A rule may be at fault for another system alone, where the core does not name one.
    here = [rule for rule in at_fault if problem.forbidden(rule, (*core, *machine))]
    reasons = tuple(dict.fromkeys(problem.say(rule, core, machine) for rule in here or at_fault))
    # Another GPU means another machine, so it is proposed only where nothing smaller helps.
    smaller, machines = ([d for d in core if (d.variable == "gpu") is gpu] for gpu in (False, True))
    for some in (smaller, machines):
        remedies = tuple(dict.fromkeys(remedy for demand in some for remedy in _changes(problem, demands, (demand,), accepts)))
        if remedies:
            return Conflict(tuple(core), reasons, tuple(remedy for (remedy,) in remedies))
    return Conflict(tuple(core), reasons, (), _fewest(problem, demands, accepts))


def _fewest(problem: Problem, demands: Sequence[Demand], accepts: Accepts) -> tuple[Remedy, ...]:
    """The fewest changes that are enough together; a part that is not asked for is not added, and another GPU is the last resort."""
    wishes = [demand for demand in demands if demand.keys != {NONE}]
    for some in (([d for d in wishes if d.variable != "gpu"]), wishes):
        for size in range(2, _MOST_TOGETHER + 1):
            for together in itertools.combinations(some, size):
                for remedies in _changes(problem, demands, together, accepts):
                    return remedies
    return ()


def _changes(problem: Problem, demands: Sequence[Demand], some: Sequence[Demand], accepts: Accepts) -> Iterator[tuple[Remedy, ...]]:
    """For demands at fault the nearest values that are advised, and the nearest that work at all where those are nearer."""
    others = [demand for demand in demands if demand not in some]
    for rules in (list(problem.rules), [rule for rule in problem.rules if not rule.soft]):
        if problem.satisfiable(others, rules):
            yield from itertools.islice(filter(accepts, itertools.islice(_nearest(problem, others, some, rules), _TRIED)), 1)


def _nearest(problem: Problem, others: Sequence[Demand], some: Sequence[Demand], rules: Sequence[Rule]) -> Iterator[tuple[Remedy, ...]]:
    """Other values for some demands that work with the others, the nearest first."""
    if not some:
        yield ()
        return
    first, *rest = some
    for key in _by_nearness(problem, first):
        exact = choice(first.variable, key)
        if problem.satisfiable([*others, exact], rules):
            for remedies in _nearest(problem, [*others, exact], rest, rules):
                yield (Remedy(first.key, key, first.variable), *remedies)


def _by_nearness(problem: Problem, demand: Demand) -> list[str]:
    """The other values in the order of their distance from the demand; doing without comes last."""
    order = list(problem.variables[demand.variable])
    at = min(order.index(key) for key in demand.keys)
    others = [key for key in order if key not in demand.keys]
    return sorted(others, key=lambda k: (k == NONE, abs(order.index(k) - at), order.index(k)))

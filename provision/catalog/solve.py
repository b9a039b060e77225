"""Finite choices under rules, with proofs: which values are best, why a better one is not, and which demands cannot hold together.

The search is clingo's, the solver that Spack resolves packages with; only its SAT core is used, through assumptions. Each value of each
variable is an atom, each rule guards the combinations that it forbids with an atom of its own, and each question is one call with the
demands and rules assumed that it is about: 0.05 ms for this catalogue. What is found unsatisfiable names the demands and rules at fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import clingo

_T = TypeVar("_T")

_SMALL: Final = 4  # smaller cores are looked for up to this size; beyond it one is minimal, and perhaps not the smallest


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold between variables.

    Attributes:
        id: kebab-case.
        over: the variables, in the order of the arguments of `holds` and `says`.
        holds: whether the rule admits this combination of values.
        says: why it does not, as one sentence about this combination; called for combinations that do not hold.
        soft: given up where a demand asks for what it forbids, and reported then.
    """

    id: str
    over: tuple[str, ...]
    holds: Callable[..., bool]
    says: Callable[..., str]
    soft: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of one variable.

    Attributes:
        key: where it is asked, as `stack.cuda`.
        variable: which variable it narrows.
        keys: the values that satisfy it.
        text: what is asked, as a person would say it.
    """

    key: str
    variable: str
    keys: frozenset[str]
    text: str


class Problem:
    """Variables with ordered values (best first) and rules over them.

    Args:
        variables: name → key → value; the order of the keys is the preference, the order of the names decides which is chosen first.
        rules: what must hold.
    """

    def __init__(self, variables: Mapping[str, Mapping[str, Any]], rules: Sequence[Rule]) -> None:
        self.variables = variables
        self.rules = tuple(rules)
        self._control = clingo.Control(["--warn=none"])
        self._atom: dict[tuple[str, str], int] = {}
        self._rule_atom: dict[str, int] = {}
        self._subset_atom: dict[tuple[str, frozenset[str]], int] = {}
        self._answers: dict[frozenset[int], bool] = {}
        with self._control.backend() as backend:
            for name, values in variables.items():
                atoms = [self._new(backend, (name, key)) for key in values]
                backend.add_rule([], [-a for a in atoms])  # at least one
                for pair in itertools.combinations(atoms, 2):
                    backend.add_rule([], list(pair))  # at most one
            for rule in self.rules:
                guard = self._rule_atom[rule.id] = backend.add_atom()
                backend.add_rule([guard], [], choice=True)
                for keys in itertools.product(*(variables[name] for name in rule.over)):
                    if not rule.holds(*(variables[name][key] for name, key in zip(rule.over, keys, strict=True))):
                        backend.add_rule([], [guard, *(self._atom[pair] for pair in zip(rule.over, keys, strict=True))])

    def _new(self, backend: clingo.Backend, pair: tuple[str, str]) -> int:
        atom = self._atom[pair] = backend.add_atom()
        backend.add_rule([atom], [], choice=True)
        return atom

    def satisfiable(self, demands: Iterable[Demand], rules: Iterable[Rule]) -> bool:
        """Whether values exist that satisfy these demands under these rules; other rules are off."""
        literals = frozenset([*map(self._literal, demands), *(self._rule_atom[rule.id] for rule in rules)])
        if literals not in self._answers:
            self._answers[literals] = bool(self._control.solve(assumptions=list(literals)).satisfiable)
        return self._answers[literals]

    def _literal(self, demand: Demand) -> int:
        """The atom that holds the variable to the demanded values."""
        subset = (demand.variable, demand.keys)
        if subset not in self._subset_atom:
            with self._control.backend() as backend:
                guard = backend.add_atom()
                backend.add_rule([guard], [], choice=True)
                for key in self.variables[demand.variable]:
                    if key not in demand.keys:
                        backend.add_rule([], [guard, self._atom[demand.variable, key]])
            self._subset_atom[subset] = guard
        return self._subset_atom[subset]

    def best(self, demands: Sequence[Demand], rules: Sequence[Rule]) -> dict[str, str]:
        """The best value of each variable, variable by variable in their order; the demands must be satisfiable under the rules."""
        chosen: list[Demand] = []
        allowed = {demand.variable: demand.keys for demand in demands}
        for name, values in self.variables.items():
            candidates = [key for key in values if key in allowed.get(name, values)]
            for key in candidates:
                exact = choice(name, key)
                # What is demanded exactly needs no question: the demands hold together.
                if len(candidates) == 1 or self.satisfiable([*demands, *chosen, exact], rules):
                    chosen.append(exact)
                    break
        return {demand.variable: next(iter(demand.keys)) for demand in chosen}

    def core(self, demands: Sequence[Demand], rules: Sequence[Rule]) -> list[Demand]:
        """The smallest set of demands that cannot hold together under the rules; they must be unsatisfiable as a whole.

        One is found by dropping demands until none can be; then all sets of up to four that are smaller are tried.
        """
        found = minimal(demands, lambda some: not self.satisfiable(some, rules))
        for size in range(min(_SMALL + 1, len(found))):  # a smaller one may be hidden beside it
            for some in itertools.combinations(demands, size):
                if not self.satisfiable(some, rules):
                    return list(some)
        return found

    def at_fault(self, demands: Sequence[Demand], rules: Sequence[Rule]) -> list[Rule]:
        """A minimal set of rules that makes unsatisfiable demands unsatisfiable; of rules that would do, the earlier ones."""
        return minimal(rules, lambda some: not self.satisfiable(demands, some))

    def say(self, rule: Rule, demands: Iterable[Demand]) -> str:
        """Why a rule forbids what is demanded: about the demanded values where the demands fix them, else about the nearest it forbids."""
        narrowed = {name: list(self.variables[name]) for name in rule.over}
        for demand in demands:
            if demand.variable in narrowed:
                narrowed[demand.variable] = [key for key in narrowed[demand.variable] if key in demand.keys]
        for keys in itertools.product(*narrowed.values()):
            values = [self.variables[name][key] for name, key in zip(rule.over, keys, strict=True)]
            if not rule.holds(*values):
                return rule.says(*values)
        return rule.id


def choice(variable: str, key: str) -> Demand:
    """The demand for exactly one value."""
    return Demand(variable, variable, frozenset({key}), key)


def minimal(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> list[_T]:
    """Items of which none can be left out while `fails` holds, the earlier ones preferred; it must hold for all of them.

    QuickXplain (U. Junker, AAAI 2004): halves instead of single items, so few questions where few items are at fault.
    """

    def search(kept: Sequence[_T], added: bool, rest: Sequence[_T]) -> list[_T]:  # noqa: FBT001 - Junker's own three arguments
        if added and fails(kept):
            return []
        if len(rest) <= 1:
            return list(rest)
        left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        later = search([*kept, *left], bool(left), right)
        earlier = search([*kept, *later], bool(later), left)
        return [*earlier, *later]

    return [] if fails([]) else search([], False, items)  # noqa: FBT003 - as above

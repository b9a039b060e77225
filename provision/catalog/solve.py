"""Finite choices under rules, with proofs: the best values, why a better value is impossible, and which demands conflict.

clingo does the search, the solver that Spack resolves packages with; only its SAT core is used, through assumptions. Each value of each
variable is an atom. Each rule guards the combinations that it forbids with an atom of its own. Each question is one call that assumes the
demands and rules it is about, which takes 0.05 ms with this catalog.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from provision.structs import Struct

_T = TypeVar("_T")

_SMALL: Final = 4  # a smaller core is searched for up to this size; a larger core is minimal, but perhaps not the smallest


class Rule(Struct):
    """What must hold between variables.

    Attributes:
        id: kebab-case.
        over: the variables, in the order of the arguments of `holds` and `says`.
        holds: whether the rule admits this combination of values.
        says: why it does not, as one sentence about this combination; called only for combinations that do not hold.
        soft: advice, which is dropped and reported where a demand needs what it forbids.
    """

    id: str
    over: tuple[str, ...]
    holds: Callable[..., bool]
    says: Callable[..., str]
    soft: bool = False


class Demand(Struct):
    """A demand on one variable.

    Attributes:
        key: the key of the profile behind it, such as `stack.cuda`.
        variable: the variable that it narrows.
        keys: the values that satisfy it.
        text: the demand, as a person would say it.
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
        import clingo  # noqa: PLC0415 - most commands read the rules, and few ask a question

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

    def _new(self, backend: Any, pair: tuple[str, str]) -> int:
        self._atom[pair] = backend.add_atom()
        backend.add_rule([self._atom[pair]], [], choice=True)
        return self._atom[pair]

    def satisfiable(self, demands: Iterable[Demand], rules: Iterable[Rule]) -> bool:
        """Whether any values satisfy these demands under these rules; other rules do not count."""
        literals = frozenset([*map(self._literal, demands), *(self._rule_atom[rule.id] for rule in rules)])
        if literals not in self._answers:
            self._answers[literals] = bool(self._control.solve(assumptions=list(literals)).satisfiable)
        return self._answers[literals]

    def _literal(self, demand: Demand) -> int:
        """The atom that restricts the variable to the demanded values."""
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
        choices: list[Demand] = []
        allowed = {demand.variable: demand.keys for demand in demands}
        for name, values in self.variables.items():
            candidates = [key for key in values if key in allowed.get(name, values)]
            for key in candidates:
                exact = choice(name, key)
                # An exact demand needs no question, since all demands together are satisfiable.
                if len(candidates) == 1 or self.satisfiable([*demands, *choices, exact], rules):
                    choices.append(exact)
                    break
        return {demand.variable: next(iter(demand.keys)) for demand in choices}

    def core(self, demands: Sequence[Demand], rules: Sequence[Rule]) -> list[Demand]:
        """The smallest set of demands that conflict under the rules; all demands together must be unsatisfiable.

        First, demands are dropped until none can be dropped any more; then every smaller set of up to four is tried.
        """
        core = minimal(demands, lambda some: not self.satisfiable(some, rules))
        for size in range(min(_SMALL + 1, len(core))):  # a smaller one may be hidden beside it
            for some in itertools.combinations(demands, size):
                if not self.satisfiable(some, rules):
                    return list(some)
        return core

    def at_fault(self, demands: Sequence[Demand], rules: Sequence[Rule]) -> list[Rule]:
        """A minimal set of rules under which the demands are unsatisfiable, preferring earlier rules; under all rules they must be."""
        return minimal(rules, lambda some: not self.satisfiable(demands, some))

    def say(self, rule: Rule, demands: Sequence[Demand], context: Sequence[Demand] = ()) -> str:
        """Why a rule forbids the demands: about their values where they are exact, else about the best value that the rule forbids.

        The sentence is about the values of the context as well, as far as the rule forbids these.
        """
        return self.forbidden(rule, (*demands, *context)) or self.forbidden(rule, demands) or rule.id

    def forbidden(self, rule: Rule, demands: Iterable[Demand]) -> str | None:
        """The sentence about the best combination of demanded values that a rule forbids; None where it forbids none."""
        narrowed = {name: list(self.variables[name]) for name in rule.over}
        for demand in demands:
            if demand.variable in narrowed:
                narrowed[demand.variable] = [key for key in narrowed[demand.variable] if key in demand.keys]
        for keys in itertools.product(*narrowed.values()):
            values = [self.variables[name][key] for name, key in zip(rule.over, keys, strict=True)]
            if not rule.holds(*values):
                return rule.says(*values)
        return None


def choice(variable: str, key: str) -> Demand:
    """The demand for exactly one value."""
    return Demand(variable, variable, frozenset({key}), key)


def minimal(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> list[_T]:
    """A set of items for which `fails` holds, and for no smaller part of it, preferring earlier items; it must hold for all of them.

    QuickXplain (U. Junker, AAAI 2004): it tries halves instead of single items, so it asks little where few items are at fault.
    """

    def search(background: Sequence[_T], changed: bool, rest: Sequence[_T]) -> list[_T]:  # noqa: FBT001 - Junker's own three arguments
        if changed and fails(background):
            return []
        if len(rest) <= 1:
            return list(rest)
        first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        later = search([*background, *first], bool(first), second)
        earlier = search([*background, *later], bool(later), first)
        return [*earlier, *later]

    return [] if fails([]) else search([], False, items)  # noqa: FBT003 - as above

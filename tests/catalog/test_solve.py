"""The search against brute force: on small random problems every answer must be what trying all combinations gives."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from provision.catalog.solve import Demand, Problem, Rule, choice

NAMES = ["a", "b", "c", "d"]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Problem, list[Demand]]:
    variables = {name: {str(n): n for n in range(draw(st.integers(1, 4)))} for name in NAMES}

    def rule(number: int) -> Rule:
        over = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)))
        everything = list(itertools.product(*(variables[name].values() for name in over)))
        forbidden = set(draw(st.lists(st.sampled_from(everything), max_size=6)))
        return Rule(f"r{number}", over, lambda *values: values not in forbidden, lambda *values: f"r{number} forbids {values}")

    rules = [rule(n) for n in range(draw(st.integers(0, 6)))]
    demands = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        keys = draw(st.lists(st.sampled_from(list(variables[name])), min_size=1, unique=True))
        demands.append(Demand(name, name, frozenset(keys), f"{name} in {keys}"))
    return Problem(variables, rules), demands


def solutions(problem: Problem, demands: Any, rules: Any) -> list[dict[str, str]]:
    """All of them, in the order of preference."""
    answers = []
    for keys in itertools.product(*problem.variables.values()):
        values = dict(zip(problem.variables, keys, strict=True))
        meets = all(values[d.variable] in d.keys for d in demands)
        if meets and all(rule.holds(*(problem.variables[name][values[name]] for name in rule.over)) for rule in rules):
            answers.append(values)
    return answers


@given(problems())
def test_answers_are_those_of_brute_force(case: tuple[Problem, list[Demand]]) -> None:
    problem, demands = case
    by_hand = solutions(problem, demands, problem.rules)
    assert problem.satisfiable(demands, problem.rules) == bool(by_hand)
    if by_hand:
        assert problem.best(demands, problem.rules) == by_hand[0]
        return
    core = problem.core(demands, problem.rules)
    assert not solutions(problem, core, problem.rules)
    smaller = itertools.combinations(demands, max(0, len(core) - 1))
    assert not core or all(solutions(problem, some, problem.rules) for some in smaller), "a smaller set fails as well"
    at_fault = problem.at_fault(core, problem.rules)
    assert not solutions(problem, core, at_fault)
    for rule in at_fault:
        assert solutions(problem, core, [other for other in at_fault if other is not rule])
        assert problem.say(rule, core).startswith(rule.id)


def test_a_question_leaves_no_trace() -> None:
    """The solver is asked thousands of times; what one question assumed must not hold for the next."""
    problem = Problem({"a": {"1": 1, "2": 2}}, [])
    assert not problem.satisfiable([choice("a", "1"), choice("a", "2")], [])
    assert problem.satisfiable([choice("a", "1")], [])
    assert problem.satisfiable([choice("a", "2")], [])

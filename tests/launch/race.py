"""The race for a name: several people, each with a home of their own, start `up` at the same instant, and some are killed on the way.

One launch gets the name. Everybody else is told whose it is, until everything of the name is removed.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.sample import chosen, part
from tests.waiting import until

from .conftest import BASE

TRIES = {
    "aws": {2: 30, 5: 10},
    "digitalocean": {2: 10, 5: 4},
    "gcp": {2: 5, 5: 2},
}  # cloud → people → how often; without the claim every fourth of AWS's fails
PAUSES_S = (0.0, 0.001, 0.003, 0.01, 0.03)


def moments(number: random.Random, people: int, messages: int) -> list[tuple[int, float] | None]:
    """When each client dies, or None for one that lives."""
    return [None if number.random() < 0.4 else (number.randint(1, messages), number.choice(PAUSES_S)) for _ in range(people)]


def told(result: dict[str, Any], name: str, machines: list[str]) -> bool:
    """Whether a client that has none of the machines was told whose name it is, and what to do."""
    words = str(result.get("message"))
    named = all(machine in words for machine in machines) and BASE.owner.email in words
    return result.get("error") == "NameTakenError" and named and f"gpuprov down {name}" in result["hint"]


def one_race(clients: Any, name: str, dies: dict[str, tuple[int, float] | None]) -> int:
    """One try; returns how many of its clients were killed."""
    clients.forget_calls()
    results = clients.race(name, dies)
    # What was on its way when its client died is still carried out.
    until(lambda: all("seconds" in call for call in clients.calls()), every_s=0.01)
    machines = clients.alive()
    assert len(machines) <= 1, (results, machines)
    for result in results.values():
        assert result.get("ids") == machines or told(result, name, []), (result, machines)
    has = 0
    for home in dies:  # everybody tries again, one after the other
        machines, result = clients.alive(), clients.run("up", name, home=home)
        has += "ids" in result
        assert result.get("ids") == clients.alive() or told(result, name, machines), (home, result, machines)
    assert (has, len(clients.alive())) == (1, 1), name
    clients.run("down", name, home="of-a-third-person")
    assert clients.alive() == [], name
    return len(dies) - len(results)


@pytest.mark.matrix
@pytest.mark.parametrize("people", [2, 5])
def test_of_several_people_with_one_name_one_launches_and_the_others_are_told(
    clients: Any, people: int, capsys: pytest.CaptureFixture[str]
) -> None:
    clients.settings()
    tries, killed = part(range(TRIES[clients.kind.name][people])), 0
    for number in tries:
        name = f"r{people}-{number}"
        dies = moments(random.Random(name), people, messages=14)  # noqa: S311 - the same moments on every run
        killed += one_race(clients, name, {f"{name}-{person}": moment for person, moment in enumerate(dies)})
    assert clients.left() == []
    with capsys.disabled():
        died = f"{killed} of {people * len(tries)} clients killed"
        print(f"\n  {clients.kind.name:4} {people} people  {len(tries)} tries, {died}, no name launched twice")
    if chosen() is None:
        assert 0 < killed < people * len(tries)  # some were killed, and some lived: how many depends on the machine

"""The crash matrix: a real client process is killed with SIGKILL before and after every call that it makes.

Before: the call never reaches the cloud. After: the cloud has executed it and nobody hears the answer. Then the same command is run
again; exactly what was asked for exists; it is removed; and the cloud's own SDK finds nothing of ours, of any kind, anywhere.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests import sample

numbers = itertools.count(1)


def undisturbed(clients: Any, do: str, **job: Any) -> int:
    """How many calls an undisturbed run makes."""
    name = f"calm-{next(numbers)}"
    if do == "down":
        clients.run("up", name, **job)
    clients.forget_calls()
    result = clients.run(do, name, **({} if do == "down" else job))
    assert "error" not in result, result
    calls = len(clients.calls())
    clients.run("down", name)
    assert clients.left(name) == []
    return calls


def sooner(call: int, *, died: bool) -> list[int]:
    """The earlier call at which to kill another client, if this one ended before it made that many: an operation is asked after until it is
    done, so that the number of calls differs from run to run."""
    assert died or call > 1, "the client was to be killed at its first call, and was not"
    return [] if died else [call // 2]


@pytest.mark.matrix
@pytest.mark.parametrize("count", [1, 3])
def test_kill_9_while_the_cloud_does_not_show_what_it_made(clients: Any, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Then only the token that was journalled knows of the machines: the second run asks with it, and is given the same ones."""
    clients.settings()
    total = undisturbed(clients, "up", count=count)
    tried = sample.part(range(1, total + 1))
    waiting = list(tried)
    while waiting:
        call, name = waiting.pop(0), f"u{next(numbers)}"
        clients.settings(**clients.kind.unseen)
        died = clients.killed_at(call, executed=True, do="up", name=name, count=count)
        waiting += sooner(call, died=died)
        result = clients.run("up", name, count=count)
        assert "error" not in result, (call, result)
        clients.settings()
        assert result["ids"] == clients.machines(name), (call, result)
        assert len(result["ids"]) == count, (call, result)
        clients.run("down", name)
        assert clients.left() == [], (call, clients.left())
    with capsys.disabled():
        print(f"\n  {clients.kind.name:4} up    count {count}, unseen    killed after : {len(tried):3} calls, all survived")


@pytest.mark.matrix
@pytest.mark.parametrize("executed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("do", "count", "minimum", "scarce"),
    [("up", 1, 1, False), ("down", 1, 1, False), ("up", 3, 3, False), ("up", 3, 2, True)],
    ids=["up", "down", "up-count-3", "up-best-effort-of-scarce-zones"],
)
def test_kill_9_at_every_call(
    clients: Any, do: str, count: int, minimum: int, *, scarce: bool, executed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"count": count, "minimum": minimum}

    def fresh() -> None:
        clients.settings(**(clients.kind.scarce if scarce else {}))

    fresh()
    total = undisturbed(clients, do, **job)
    tried = sample.part(range(1, total + 1))
    waiting = list(tried)
    while waiting:
        call, name = waiting.pop(0), f"k{next(numbers)}"
        fresh()
        if do == "down":
            clients.run("up", name, **job)
        died = clients.killed_at(call, executed=executed, do=do, name=name, **({} if do == "down" else job))
        waiting += sooner(call, died=died)
        if do == "up":
            fresh()  # what the killed client got of a scarce zone is not missed by the next
            result = clients.run("up", name, **job)
            assert "error" not in result, (call, result)
            assert len(result["ids"]) >= minimum, (call, result)
            assert result["ids"] == clients.machines(name), (call, result)
            assert len(result["ids"]) <= count, (call, result)
        clients.run("down", name)
        clients.run("sweep", name)
        assert clients.left() == [], (call, clients.left())
    with capsys.disabled():
        when = f"killed {'after' if executed else 'before':6}"
        print(f"\n  {clients.kind.name:4} {do:5} count {count} min {minimum}  {when}: {len(tried):3} calls, all survived")

"""A cloud in memory: it says what a test put into it, and writes down what it was asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from provision.clouds import base
from provision.errors import CloudError, GpuprovError
from provision.launch.journal import Journal
from provision.launch.launcher import Launcher
from provision.launch.ours import Ours
from provision.launch.patience import Patience

ONCE = Patience(throttled_s=0.0, unanswered=1, pause_s=0.0, round_s=0.0, shown_s=0.0)


def machine(name: str = "train", **changes: Any) -> base.Instance:
    plain: dict[str, Any] = {
        "group": name,
        "id": f"i-{name}",
        "cloud": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "type": "g4dn.xlarge",
        "market": "on-demand",
        "state": "running",
        "address": "203.0.113.7",
        "login": "ubuntu",
        "launch_id": f"launch-{name}",
        "profile": "t4-train",
        "profile_digest": "0" * 64,
        "owner": "isa@example.org",
        "launched_at": "2026-11-21T00:00:00+00:00",
        "deadline": "2026-11-21T12:00:00+00:00",
    }
    return base.Instance(name=name, **plain | changes)


def thing(kind: str = "volume", name: str = "train", **changes: Any) -> base.Thing:
    plain = {"id": f"{kind}-{name}", "launch_id": f"launch-{name}", "owner": "isa@example.org", "where": "us-east-1"}
    return base.Thing(kind=kind, group=name, **{**plain, **changes})


class MemoryCloud:
    """One region.

    Attributes:
        machines, left: what `find` and `things` return; with a name, those of that group.
        launches: what each `launch` returns or raises, in order; the last stays.
        fails: method → the error that it raises.
        asked: (method, argument) of each call.
        late: whether tags are not shown yet; then only ids find something, and a token finds the thing of that id.
    """

    def __init__(self, region: str = "us-east-1", spans: Literal["region", "project"] = "region") -> None:
        self.region, self.spans = region, spans
        self.machines: list[base.Instance] = []
        self.left: list[base.Thing] = []
        self.launches: list[list[base.Instance] | CloudError] = []
        self.announced: dict[str, tuple[str, ...]] = {}
        self.zone_names: list[str] = []
        self.fails: dict[str, GpuprovError] = {}
        self.answers: list[base.Answer] = []
        self.asked: list[tuple[str, Any]] = []
        self.late = False

    def _note(self, method: str, argument: Any) -> None:
        self.asked.append((method, argument))
        if method in self.fails:
            raise self.fails[method]

    def find(self, name: str | None = None) -> list[base.Instance]:
        self._note("find", name)
        return [i for i in self.machines if name in {None, i.group}]

    def things(self, name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        self._note("things", name)
        ids = {machine for machine, _ in known.machines} | {token for token, _, _ in known.attempts} if known else set()
        return [t for t in self.left if name in {None, t.group} and (t.id in ids or not self.late)]

    def zones(self, order: base.Order) -> list[str]:
        self._note("zones", order)
        return self.zone_names

    def examine(self, order: base.Order) -> list[base.Answer]:
        self._note("examine", order)
        return self.answers

    def launch(self, order: base.Order) -> list[base.Instance]:
        self._note("launch", order)
        answer = self.launches.pop(0) if len(self.launches) > 1 else self.launches[0]
        if isinstance(answer, CloudError):
            raise answer
        return answer

    def notices(self, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
        self._note("notices", list(instances))
        return self.announced

    def stop(self, instances: Sequence[base.Instance], *, timeout_s: float) -> None:
        self._note("stop", ([i.id for i in instances], timeout_s))

    def start(self, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
        self._note("start", ([i.id for i in instances], timeout_s))
        return list(instances)

    def extend(self, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
        self._note("extend", ([i.id for i in instances], deadline))

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        self._note("allow", (name, list(networks)))
        return sorted(networks)

    def remove(self, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
        self._note("remove", [t.id for t in things])
        on_step(f"removing in {self.region}")
        return [str(t) for t in things]

    def methods(self) -> list[str]:
        """The methods that were called, in order."""
        return [method for method, _ in self.asked]


class Memory(dict[tuple[str, str], MemoryCloud]):
    """Clouds by (cloud, region); gcp's span the project. One that was not put in is made at its first use."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def __missing__(self, pair: tuple[str, str]) -> MemoryCloud:
        self[pair] = MemoryCloud(pair[1], "project" if pair[0] == "gcp" else "region")
        return self[pair]

    def ours(self, patience: Patience = ONCE) -> Ours:
        """The clouds as the launch sees them."""
        return Ours(lambda cloud, region: self[cloud, region], self.said.append, patience)  # type: ignore[arg-type, return-value]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def launcher(memory: Memory, tmp_path: Path) -> Launcher:
    return Launcher(
        lambda c, r: memory[c, r],  # type: ignore[arg-type, return-value]
        Journal(tmp_path / "journal"),
        rehearsal=False,
        on_step=memory.said.append,
        patience=ONCE,
    )

"""Launches by chance: late tags and lists, lost answers, refusals, kills, machines that end, and a second client, by a seed.

    python -m tests.launch.random_run --cloud aws --launches 200 --seed 7

After each launch nothing is at the cloud that no journal knows, nothing is there that `down` called gone, and no name was launched twice.
Each launch has a generator of its own, so `--only N` repeats the Nth alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision import clouds
from provision.clouds import base
from provision.launch.journal import Journal, Record
from provision.rehearsal import control
from tests.embedded import Embedded
from tests.launch.client import ACCESS
from tests.launch.conftest import KINDS, Clients
from tests.waiting import until

LAGS_S = (0.0, 0.0, 0.1, 0.2)  # within the `shown_s` of the clients
# The settings by which each cloud shows late what exists.
LATE = {"aws": ("tags_s", "unseen_s", "lag_s"), "gcp": ("gce_unseen_s",), "digitalocean": ("do_tags_s", "do_unseen_s")}
# The setting by whose seed each cloud is late, and refuses now and then.
SEEDS = {"gcp": "gce_seed"}
REFUSED = {
    "aws": {"kind": "error", "code": "UnauthorizedOperation", "http": 403},
    "gcp": {"kind": "error", "code": "forbidden", "http": 403},
    "digitalocean": {"kind": "error", "message": "You are not authorized to perform this operation", "http": 403},
}
HOMES = ("home", "second")
MOST_DOWNS = 4


class BrokenPromiseError(AssertionError):
    """What the run found."""


@dataclass
class Walk:
    """One launch by chance.

    Args:
        clients: of the cloud.
        folder: of the clients' homes.
        name: of the launch.
        chance: decides everything.
    """

    clients: Clients
    folder: Path
    name: str
    chance: random.Random
    count: int = 1
    steps: list[str] = field(default_factory=list)

    def run(self) -> None:
        self.clients.forget_calls()
        chance = self.chance
        self.count = chance.choice((1, 1, 1, 2, 3))
        cloud = self.clients.kind.name
        seed = {SEEDS[cloud]: chance.randrange(10**6)} if cloud in SEEDS else {}
        self._lag({setting: chance.choice(LAGS_S) for setting in LATE[cloud]} | seed)
        self._up("home")
        for _ in range(chance.randint(0, 3)):
            step = chance.choice((self._up, self._up, self._down, self._end_a_machine, self._killed_down))
            step(chance.choice(("home", "home", "second")))
            self._check()
        self._finish()

    def _lag(self, late: dict[str, float]) -> None:
        self.late = late
        self.clients.settings(**late)
        self.steps.append(" ".join(f"{key}={value}" for key, value in late.items()))

    def record(self, home: str) -> Record | None:
        return Journal(self.folder / home).get(self.name)

    def there(self) -> list[str]:
        """What the cloud's own SDK finds when nothing is late."""
        self.clients.settings()
        found = self.clients.left()
        self.clients.settings(**self.late)
        return found

    def _said(self, step: str, home: str, result: dict[str, Any] | None) -> None:
        ending = "killed" if result is None else result.get("code") or result.get("ids", result.get("removed"))
        self.steps.append(f"{step} by {home}: {ending}")

    def _up(self, home: str) -> None:
        launch, kind = self.clients.kind.launch, self.chance.choice(("calm", "calm", "kill", "kill", "lost", "gone", "refused", "capacity"))
        if kind == "kill":
            executed, call = self.chance.choice((True, False)), self.chance.randint(1, 9)
            killed = self.clients.killed_at(call, executed=executed, do="up", name=self.name, count=self.count, home=home)
            self._said(f"up killed {'after' if executed else 'before'} call {call}", home, None if killed else {"code": "unharmed"})
            return
        rules: dict[str, dict[str, Any]] = {
            "lost": {"kind": "lost", "count": 1},
            "gone": {"kind": "lost", "count": 3},
            "refused": REFUSED[self.clients.kind.name],
            "capacity": {**self.clients.kind.refusal, "count": 1},
        }
        self.clients.faults([{**rules[kind], "action": launch.replace(".", r"\.")}] if kind in rules else [])
        result = self.clients.run("up", self.name, count=self.count, home=home)
        self.clients.faults([])
        self._said(f"up {kind}", home, result)
        other = self.record("second" if home == "home" else "home")
        self._expect(other is not None or result.get("error") != "NameTakenError", "one's own failed try has the name", result)
        if kind == "calm" and "ids" in result:
            self._settle()
            self._expect(set(result["ids"]) <= set(self.there()), "`up` named a machine that is not there", result)

    def _down(self, home: str) -> dict[str, Any]:
        before = self.record(home)
        result = self.clients.run("down", self.name, home=home)
        self._said("down", home, result)
        if "error" in result:
            kept = before is None or self.record(home) is not None
            self._expect(kept, "`down` failed and forgot the launch", result)
            return result
        there = set(self.there())
        removed = {phrase.split()[1] for phrase in result["removed"]}
        self._expect(not removed & there, "`down` named as removed what is there", result)
        if before is not None and self.record("second" if home == "home" else "home") is None:
            self._expect(not there, "`down` forgot the launch, and something is there", result, *there)
        return result

    def _killed_down(self, home: str) -> None:
        executed, call = self.chance.choice((True, False)), self.chance.randint(1, 8)
        killed = self.clients.killed_at(call, executed=executed, do="down", name=self.name, home=home)
        self._said(f"down killed {'after' if executed else 'before'} call {call}", home, None if killed else {"code": "unharmed"})

    def _end_a_machine(self, home: str) -> None:
        """As a deadline or a spot interruption does."""
        self.clients.settings()
        kind = self.clients.kind
        for region in kind.regions:
            handle = clouds.connect(kind.name, region, ACCESS[kind.name](**kind.access(self.clients.rehearsal)))
            machines: list[base.Thing] = [thing for thing in handle.things() if thing.kind == "instance" and thing.alive]
            if machines:
                handle.remove(machines[:1], on_step=lambda _: None)
                break
        self.clients.settings(**self.late)
        self._said("a machine ended", home, {"code": "-"})

    def _settle(self) -> None:
        """Wait until what was on its way when its client died is carried out."""
        until(lambda: all("seconds" in call for call in self.clients.calls()), every_s=0.01)

    def _check(self) -> None:
        self._settle()
        there = self.there()
        self._expect(not there or any(map(self.record, HOMES)), "something is there that no journal knows", *there)
        machines = [thing for thing in there if thing.startswith(self.clients.kind.machine)]
        self._expect(len(machines) <= self.count, "more machines than were asked for", *machines)

    def _finish(self) -> None:
        for home in HOMES:
            for _ in range(MOST_DOWNS):
                if self.record(home) is None:
                    break
                self._down(home)
            self._expect(self.record(home) is None, "`down` does not come to an end", home)
        there = self.there()
        self._expect(not there, "something is left at the end", *there)

    def _expect(self, holds: bool, what: str, *more: object) -> None:  # noqa: FBT001
        if not holds:
            raise BrokenPromiseError(f"{what}: {' '.join(map(str, more))}\n    " + "\n    ".join(self.steps))


def tidy(clients: Clients) -> None:
    """After a failure, so that the next launch begins with an empty cloud."""
    clients.faults([])
    clients.settings()
    kind = clients.kind
    for region in kind.regions:
        handle = clouds.connect(kind.name, region, ACCESS[kind.name](**kind.access(clients.rehearsal)))
        handle.remove(handle.things(), on_step=lambda _: None)


def run(clients: Clients, folder: Path, seed: str, numbers: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Some launches; returns how often each step came to what, and what was found, with the command that repeats it."""
    endings: Counter[str] = Counter()
    broken: list[str] = []
    for number in numbers:
        walk = Walk(clients, folder, f"x{number}", random.Random(f"{seed}/{clients.kind.name}/{number}"))  # noqa: S311
        try:
            walk.run()
        except BrokenPromiseError as error:
            again = f"python -m tests.launch.random_run --cloud {clients.kind.name} --seed {seed} --only {number}"
            broken.append(f"launch {number}: {error}\n    again: {again}")
            tidy(clients)
        for step in walk.steps[1:]:
            what, _, ending = step.partition(": ")
            words = what.split(" by ")[0].split(" call ")[0]
            listed = ending.startswith("[")
            endings[f"{words:22} {('done' if ending != '[]' else 'nothing') if listed else ending}"] += 1
    return endings, broken


def table(cloud: str, seed: str, launches: int, endings: Counter[str], broken: list[str]) -> str:
    rows = "\n".join(f"    {times:5}  {ending}" for ending, times in sorted(endings.items(), key=lambda pair: pair[0]))
    return f"\n  {cloud}, seed {seed}: {launches} launches, {sum(endings.values())} steps, {len(broken)} broken promises\n{rows}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cloud", choices=sorted(KINDS), required=True)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--seed", default=str(random.randrange(10**6)))  # noqa: S311
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    numbers = range(given.launches) if given.only is None else range(given.only, given.only + 1)
    with tempfile.TemporaryDirectory() as name:
        folder, embedded = Path(name), Embedded()
        clients = Clients(embedded.start(folder / "rehearsal"), KINDS[given.cloud], folder)
        try:
            endings, broken = run(clients, folder, given.seed, numbers)
        finally:
            clients.close()
            control.stop(folder / "rehearsal")
            embedded.close()
    print(table(given.cloud, given.seed, len(numbers), endings, broken), *broken, sep="\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())

"""DigitalOcean accepts a create before it knows whether it can: what fails afterwards leads to the next place, and leaves nothing there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provision import clouds
from provision.clouds.digitalocean import power
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.errors import CapacityError
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Journal
from provision.launch.launcher import Launcher
from provision.launch.lifecycle import destroy
from provision.launch.ours import Ours
from provision.launch.plan import plan
from provision.launch.regions import Connect
from provision.profile.lock import build
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.launch.client import KEY, QUICK
from tests.launch.conftest import DIGITALOCEAN, TODAY, digitalocean_everything

FIRST, SECOND = DIGITALOCEAN.regions
DISKS = {"root": {"size_gb": 200}, "data": {"source": "volume", "mount": "/data", "size_gb": 100}}


class Bench:
    """One client of the embedded DigitalOcean."""

    def __init__(self, rehearsal: Rehearsal, folder: Path) -> None:
        self.rehearsal = rehearsal
        access = DigitalOceanAccess(**DIGITALOCEAN.access(rehearsal))
        connect: Connect = lambda cloud, region: clouds.connect(cloud, region, access)  # noqa: E731
        self.launcher = Launcher(connect, Journal(folder), rehearsal=True, on_step=lambda _: None, patience=QUICK)

    def settings(self, **changed: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body={**DIGITALOCEAN.plain, **changed})

    def up(self, name: str, *, count: int = 1, minimum: int = 1, **changes: Any) -> list[str]:
        profile = DIGITALOCEAN.profile(**changes)
        request = LaunchRequest(plan(profile, build(profile, TODAY), name), KEY, count=count, minimum=minimum)
        return [made.region for made in self.launcher.ensure(request)]

    def rows(self) -> list[tuple[str, str]]:
        return [(row.region, row.outcome) for row in self.launcher.attempts]

    def left(self, name: str | None = None) -> list[str]:
        return digitalocean_everything(self.rehearsal, DIGITALOCEAN.regions, name)

    def down(self, name: str) -> None:
        where = {("digitalocean", region) for region in DIGITALOCEAN.regions}
        destroy(Ours(self.launcher.connect, lambda _: None, QUICK), self.launcher.journal, name, where)


@pytest.fixture
def bench(ec2: Rehearsal, tmp_path: Path) -> Any:
    made = Bench(ec2, tmp_path)
    made.settings()
    yield made
    made.settings()


@pytest.mark.parametrize("ends", ["errored", "gone", "new"])
def test_a_create_that_fails_leads_to_the_next_place(bench: Bench, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_STARTS_S", 0.5)
    monkeypatch.setattr(power, "_UNSEEN_S", 0.1)
    bench.settings(do_create_ends={FIRST: ends}, do_new_can_be_deleted=True)
    name = f"a{ends}"
    assert bench.up(name) == [SECOND]
    assert bench.rows() == [(FIRST, "no-capacity"), (SECOND, "launched")]
    assert len([thing for thing in bench.left(name) if thing.startswith(DIGITALOCEAN.machine)]) == 1
    bench.down(name)
    assert bench.left(name) == []


def test_where_no_place_makes_one_it_ends_as_a_refusal_and_nothing_is_left(bench: Bench) -> None:
    bench.settings(do_create_ends=dict.fromkeys(DIGITALOCEAN.regions, "errored"))
    with pytest.raises(CapacityError) as caught:
        bench.up("anone", disks=DISKS)
    assert f"{FIRST} gpu-h100x1-80gb: no-capacity" in caught.value.message
    assert bench.left("anone") == []
    assert bench.launcher.journal.get("anone") is None


def test_of_several_those_that_were_made_stay_where_they_are_enough(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_UNSEEN_S", 0.1)
    bench.settings(do_create_ends={"asome-2": "gone"})
    assert bench.up("asome", count=3, minimum=2) == [FIRST, FIRST, SECOND]
    assert bench.left("asome-2") == []
    bench.down("asome")


@pytest.mark.parametrize("setting", [{"do_create_ends": {FIRST: "errored"}}, {"do_capacity": {FIRST: 0}}])
def test_the_volume_of_a_machine_that_is_made_elsewhere_is_not_left(bench: Bench, setting: dict[str, Any]) -> None:
    name = f"av{len(str(setting))}"
    bench.settings(**setting)
    assert bench.up(name, disks=DISKS) == [SECOND]
    assert len([thing for thing in bench.left() if thing.startswith("Volume")]) == 1
    bench.down(name)
    assert bench.left() == []

"""Two who bake one profile at the same time: one image, no machine left, and whoever came second is told what to do.

Each has a home of their own, as on two workstations, and both speak to the same embedded cloud without hosts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.cloud import GcpCloud
from provision.rehearsal.control import Rehearsal
from tests import sample
from tests.cli.conftest import Call, call
from tests.workflow import test_bake_gcp as gcp
from tests.workflow.killed import Ended, Killable
from tests.workflow.test_bake import NOTHING, REGION, cloud, left, make, written

__all__ = ["call", "cloud"]

NEVER = 10_000
AT_ONCE = 6


class Bakers:
    """Two processes that bake, and what is left of it."""

    def __init__(self, rehearsal: Rehearsal, where: str, first: Killable, second: Killable, folder: Path) -> None:
        self.rehearsal, self.where, self.first, self.second = rehearsal, where, first, second
        profile = written(folder / "bk.yml", "if-current") if where == "aws" else gcp.on_gcp(folder / "bk.yml")
        self.words = make(profile) if where == "aws" else gcp.make(profile)
        other = folder / "second-home"
        other.mkdir()
        (other / "rehearsal").symlink_to(rehearsal.folder)
        self.other = {"GPUPROV_HOME": str(other), "GPUPROV_SSH_CONFIG": str(folder / "second-ssh-config")}

    def begin(self, number: int = NEVER) -> None:
        """The first one bakes, and holds still before its N-th call."""
        self.first.begin(number, "held", *self.words, stand_ins="bake_stand_ins")

    def begin_second(self, **environment: str) -> None:
        self.second.begin(NEVER, "held", *self.words, stand_ins="bake_stand_ins", **(environment or self.other))

    def things(self) -> Any:
        """What is left beside images."""
        if self.where == "gcp":
            return [str(thing) for thing in GcpCloud("asia-east2", GcpAccess(**self.rehearsal.settings("gcp"))).things()]
        found = left(client("ec2", REGION, AwsAccess(**self.rehearsal.settings("aws"))))
        return [] if found == NOTHING else found

    def check(self, call: Call, ended: dict[str, Ended], number: object) -> None:
        """One image of today's digest, in use, and nothing else; each of the two has it or was told that the other one makes it."""
        codes = {who: each.returncode for who, each in ended.items()}
        assert 0 in codes.values(), (number, ended)
        for each in ended.values():
            told = "error[name-taken]" in each.stderr and "run the same command again" in each.stderr
            assert each.returncode == 0 or (each.returncode == 4 and told and "--name" not in each.stderr), (number, each.stderr)
        images = json.loads(call("bake", "list", "--rehearse", "--json")[1])["images"]
        assert [(image["state"], image["deprecated"]) for image in images] == [("available", False)], (number, codes)
        assert self.things() == [], (number, codes)
        self.begin_second()  # whoever was refused runs it again, and finds the image
        again = self.second.end()
        assert again.returncode == 0, (number, again.stderr)
        assert "asking for" not in again.stderr, number  # a machine
        assert self.things() == [], number
        code, _, err = call("bake", "remove", "bk", "--rehearse", "--yes")
        assert code == 0, err


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Another process that runs command lines."""
    process = Killable(tmp_path_factory.mktemp("second"))
    yield process
    process.close()


@pytest.fixture(params=["aws", "gcp"])
def bakers(cloud: Rehearsal, tmp_path: Path, killable: Killable, second: Killable, request: pytest.FixtureRequest) -> Bakers:
    return Bakers(cloud, request.param, killable, second, tmp_path)


@pytest.mark.matrix
def test_one_bakes_while_the_other_holds_still_before_each_of_its_calls(bakers: Bakers, call: Call) -> None:
    number, holds, outcomes = 0, True, set[tuple[int, int]]()
    while holds:
        number = sample.after(number)
        bakers.begin(number)
        holds = bakers.first.holds()
        if not holds:  # it has no more calls
            assert bakers.first.end().returncode == 0
            break
        bakers.begin_second()
        second = bakers.second.end()
        bakers.first.go_on()
        ended = {"first": bakers.first.end(), "second": second}
        outcomes.add((ended["first"].returncode, second.returncode))
        bakers.check(call, ended, number)
    assert outcomes <= {(0, 0), (0, 4)}
    assert sample.chosen() is not None or len(outcomes) == 2  # the second one makes it or finds it, or the first one has the name
    assert number > (10 if bakers.where == "aws" else 5)


@pytest.mark.matrix(of=2)
def test_both_begin_at_the_same_moment(bakers: Bakers, call: Call) -> None:
    for number in range(AT_ONCE):
        bakers.begin()
        bakers.begin_second()
        bakers.check(call, {"first": bakers.first.end(), "second": bakers.second.end()}, number)


@pytest.mark.matrix(of=2)
@pytest.mark.parametrize("bakers", ["aws"], indirect=True)
def test_the_second_one_of_one_home_is_told_too(bakers: Bakers, call: Call, own_home: Path) -> None:
    bakers.begin(5)
    assert bakers.first.holds()
    bakers.begin_second(GPUPROV_HOME=str(own_home))
    second = bakers.second.end()
    assert second.returncode == 4
    bakers.first.go_on()
    bakers.check(call, {"first": bakers.first.end(), "second": second}, "one home")

"""Rolls of fleets of twenty on the embedded GCP, whose members are played: a broken card, a bad program, two rolls at once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.fleet import BREAKER
from provision.clouds.gcp import store
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.client import client
from provision.launch.fleets import Fleets
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, call, gpuprov
from tests.waiting import LONG_S, until
from tests.workflow.test_fleet import GcpGroups, cloud, profile

pytestmark = pytest.mark.matrix

__all__ = ["call", "cloud", "profile"]

SIZE = 20
Ended = subprocess.CompletedProcess[str]


class Fleet:
    """A fleet `ff` whose members serve where a test says so, by name."""

    def __init__(self, rehearsal: Rehearsal, call: Call, profile: str, folder: Path) -> None:
        self.groups, self.rehearsal, self.call, self.profile, self.folder = GcpGroups(rehearsal), rehearsal, call, profile, folder
        self.clients = ThreadPoolExecutor(2)

    def answer(self, **by_name: int) -> None:
        """How members answer the health check; `others` counts for those that are not named."""
        others = by_name.pop("others", 200)
        control.ask(self.rehearsal, "settings", method="PUT", body={"gce_answers": {**by_name, "*": others}})

    def program(self, number: int) -> Path:
        path = self.folder / f"program-{number}"
        path.write_text(f"#!/bin/sh\n# {number}\n")
        return path

    def up(self, size: int = SIZE) -> set[str]:
        self.answer()
        words = ("--count", str(size), "--store", "gs://a-store/x", "--rehearse", "gcp", "--without-gpu", "--program", str(self.program(6)))
        code, _, err = self.call("fleet", "up", self.profile, *words)
        assert code == 0, err
        return self.serving(size)

    def serving(self, size: int = SIZE) -> set[str]:
        def found() -> set[str]:
            rows = self.groups.members()
            return {str(row.id) for row in rows} if len(rows) == size and all(row.current_action == "NONE" for row in rows) else set()

        return until(found)

    def roll(self, number: int, *more: str) -> Future[Ended]:
        """The command, beside the caller: on GCP it waits for its waves."""
        words = ("fleet", "roll", "ff", "--program", str(self.program(number)), "--pause", "0s", *more)
        return self.clients.submit(gpuprov, *words)

    def new_member(self, old: set[str]) -> Any:
        """The first member that is of another version and has a machine."""

        def found() -> Any:
            rows = [row for row in self.groups.members() if row.version.instance_template not in old and row.instance_status == "RUNNING"]
            return rows[0] if rows else None

        return until(found)

    def templates(self) -> set[str]:
        return {row.version.instance_template for row in self.groups.members()}

    def fail(self, number: int, count: int) -> None:
        """Say for the members, which have no hosts here, that so many of them failed with a program."""
        digest = hashlib.sha256(self.program(number).read_bytes()).hexdigest()
        for slot in range(1, count + 1):
            store.put_once(GcpProjectApi(self.groups.access), "a-store", f"x/failures/ff/{digest}/{slot}", b"x")

    def power_off(self, row: Any) -> None:
        """What a member that failed does to itself."""
        zone = row.instance.partition("/zones/")[2].partition("/")[0]
        named = {"project": self.groups.access.project, "zone": zone, "instance": row.name}
        client("InstancesClient", self.groups.access).stop(request={**named, "discard_local_ssd": True})

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.call("fleet", "status", "ff", "--json")[1]))


@pytest.fixture
def fleet(cloud: Rehearsal, call: Call, profile: str, tmp_path: Path) -> Fleet:
    return Fleet(cloud, call, profile, tmp_path)


def test_one_new_member_with_broken_hardware_is_made_anew_and_the_roll_ends_well(fleet: Fleet) -> None:
    before, old = fleet.up(), fleet.templates()
    fleet.answer(others=503, **{row.name: 200 for row in fleet.groups.members()})
    rolls = fleet.roll(7)
    sick = fleet.new_member(old)
    fleet.fail(7, 1)
    fleet.power_off(sick)
    until(lambda: str(sick.id) not in {str(row.id) for row in fleet.groups.members()})
    fleet.answer()
    ended = rolls.result(timeout=LONG_S)
    assert ended.returncode == 0, ended.stderr
    after = fleet.serving()
    assert not after & (before | {str(sick.id)})
    assert len(fleet.templates()) == 1
    assert not fleet.templates() & old
    shown = fleet.status()
    assert (shown["serving"], shown["halted"], shown["roll"]) == (SIZE, False, "")


def test_a_bad_program_touches_five_per_cent_and_goes_back_to_the_template_before_it(fleet: Fleet) -> None:
    before, old = fleet.up(), fleet.templates()
    fleet.answer(others=503, **{row.name: 200 for row in fleet.groups.members()})
    rolls = fleet.roll(8)
    fleet.new_member(old)
    fleet.fail(8, BREAKER)
    ended = rolls.result(timeout=LONG_S)
    assert ended.returncode == 4, ended.stderr
    assert "goes back to version" in ended.stderr
    assert "too many members failed" in ended.stderr
    fleet.answer()
    after = fleet.serving()
    assert len(after & before) == SIZE - 1  # one of twenty
    assert fleet.templates() == old
    assert not fleet.status()["halted"]


def test_a_roll_that_was_cut_off_is_ended_by_another_where_that_is_asked_for(fleet: Fleet, own_home: Path) -> None:
    """The client of the first one is killed at its first wave; while it lives, another one of this user is refused."""
    fleet.up(4)
    old = fleet.templates()
    fleet.answer(others=503, **{row.name: 200 for row in fleet.groups.members()})
    words = ("fleet", "roll", "ff", "--program", str(fleet.program(7)), "--pause", "0s")
    first = subprocess.Popen([sys.executable, "-m", "provision", *words], env=os.environ, stderr=subprocess.PIPE, text=True)
    fleet.new_member(old)
    ended = fleet.roll(8, "--instead").result(timeout=LONG_S)
    assert (ended.returncode, "error[name-taken]" in ended.stderr, str(first.pid) in ended.stderr) == (4, True, True), ended.stderr
    first.kill()
    first.communicate()
    before = Fleets(own_home / "fleets").get("ff")
    ended = fleet.roll(8).result(timeout=LONG_S)
    assert (ended.returncode, "error[roll-under-way]: fleet ff is rolling to version" in ended.stderr) == (4, True), ended.stderr
    assert "--instead" in ended.stderr
    assert Fleets(own_home / "fleets").get("ff") == before
    fleet.answer()
    ended = fleet.roll(8, "--instead").result(timeout=LONG_S)
    assert ended.returncode == 0, ended.stderr
    fleet.serving(4)
    (template,) = fleet.templates()
    digest = hashlib.sha256(fleet.program(8).read_bytes()).hexdigest()
    made = client("InstanceTemplatesClient", fleet.groups.access).get(
        project=fleet.groups.access.project, instance_template=template.rpartition("/")[2]
    )
    assert digest in next(item.value for item in made.properties.metadata.items if item.key == "user-data")
    record = Fleets(own_home / "fleets").get("ff")
    assert record is not None
    assert record.program == digest

"""Rolls on the embedded AWS, whose members are played: a broken card, a bad program, protected members, two rolls at once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.aws.fleet_requests import HEARTBEAT_S
from provision.clouds.fleet import BREAKER
from provision.converge.failed_member import FailedTask, failed_task, told_failure
from provision.launch.fleets import FleetRecord, Fleets
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, call
from tests.waiting import until
from tests.workflow.members import BROKEN, Members
from tests.workflow.test_fleet import STORE, AwsGroups, cloud, profile

__all__ = ["call", "cloud", "profile"]

pytestmark = pytest.mark.matrix(of=2)
SIZE = 20
TASK, WHY = "Install the packages", "No space left on device"
ECC = "fail: gpu-ecc: 12 uncorrected errors of the memory"


class Programs:
    """Programs of members, by a number; each looks at its machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, number: int, *, bad: bool = False) -> str:
        path = self.folder / f"program-{number}"
        path.write_text(
            f'#!/bin/sh\n# {number}\n[ -e "$(dirname "$0")/../{BROKEN}" ] && {{ echo \'{ECC}\' >&2; exit 1; }}\n'
            + ("echo 'no such driver' >&2\nexit 3\n" if bad else "uptime\n")
        )
        return str(path)

    def digest(self, number: int) -> str:
        return hashlib.sha256((self.folder / f"program-{number}").read_bytes()).hexdigest()


class Fleet:
    """A fleet `ff`, through the command line, and its members."""

    def __init__(self, rehearsal: Rehearsal, call: Call, profile: str, members: Members, programs: Programs) -> None:
        self.call, self.members, self.programs, self.profile, self.rehearsal = call, members, programs, profile, rehearsal

    def up(self, size: int = SIZE) -> set[str]:
        words = ("--count", str(size), "--store", STORE, "--rehearse", "aws", "--without-gpu", "--program", self.programs.path(6))
        code, _, err = self.call("fleet", "up", self.profile, *words)
        assert code == 0, err
        return self.members.serving(size)

    def roll(self, number: int, *more: str, bad: bool = False) -> tuple[int, str]:
        code, _, err = self.call("fleet", "roll", "ff", "--program", self.programs.path(number, bad=bad), *more)
        return code, err

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.call("fleet", "status", "ff", "--json")[1]))

    def record(self, home: Path) -> FleetRecord:
        found = Fleets(home / "fleets").get("ff")
        assert found is not None
        return found

    def digests(self) -> set[str]:
        """Of the members that are there: what each said of itself. None said two things."""
        there = self.members.rows()
        said = [(row["instance"], row["digest"]) for row in self.members.evidence() if row["instance"] in there]
        assert len(said) == len(there)
        return {digest for _, digest in said}


@pytest.fixture
def fleet(cloud: Rehearsal, call: Call, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(cloud, call, profile, Members(AwsGroups(cloud).access, tmp_path, monkeypatch), Programs(tmp_path))


@pytest.mark.parametrize("which", [1, 4])
def test_one_new_member_with_broken_hardware_is_replaced_and_the_roll_ends_well(fleet: Fleet, which: int) -> None:
    """5 % of twenty: in the first wave, and in a later one."""
    before = fleet.up()
    fleet.members.broken = lambda _: len(fleet.members.booted) == SIZE + which
    code, err = fleet.roll(7, "--pause", "0s")
    assert code == 0, err
    roll = fleet.members.ended()
    assert (roll["Status"], roll["PercentageComplete"]) == ("Successful", 100)
    after = fleet.members.serving(SIZE)
    (sick,) = [row for row in fleet.members.evidence() if row["exit_code"]]
    assert (sick["instance"] in after, ECC in sick["errors"]) == (False, True)
    assert not after & before
    assert len(fleet.members.booted) == 2 * SIZE + 1  # one more than there are, and no other was replaced twice
    assert fleet.digests() == {fleet.programs.digest(7)}
    shown = fleet.status()
    assert (shown["serving"], shown["halted"], shown["version"]) == (SIZE, False, "2")
    (failed,) = shown["failed"]
    assert (failed["members"], failed["last"], failed["why"]) == (1, sick["instance"], ECC)
    assert {row["doubt"] for row in shown["members"]} == {""}


def test_a_bad_program_touches_five_per_cent_and_goes_back_to_the_numbered_version_before_it(fleet: Fleet) -> None:
    before = fleet.up()
    assert fleet.roll(7, "--pause", "0s")[0] == 0
    fleet.members.ended()
    before = fleet.members.serving(SIZE)
    code, err = fleet.roll(8, "--pause", "0s", bad=True)
    assert code == 0, err
    roll = fleet.members.ended()
    assert roll["Status"] == "RollbackSuccessful"
    after = fleet.members.serving(SIZE)
    assert len(after & before) == SIZE - 1  # one of twenty
    assert {fleet.members.version_of(each) for each in after} == {"2"}
    (group,) = fleet.members.groups.describe_auto_scaling_groups(AutoScalingGroupNames=["gpuprov-ff"])["AutoScalingGroups"]
    assert group["LaunchTemplate"]["Version"] == "2"  # by its number, and not by $Latest or $Default
    bad = [row for row in fleet.members.evidence() if row["digest"] == fleet.programs.digest(8)]
    assert ([row["exit_code"] for row in bad], fleet.digests()) == ([3] * BREAKER, {fleet.programs.digest(7)})
    shown = fleet.status()
    assert (shown["serving"], shown["halted"], shown["version"], shown["roll"]) == (SIZE, False, "2", "RollbackSuccessful")
    assert [(row["members"], row["why"]) for row in shown["failed"]] == [(BREAKER, "no such driver")]


def test_members_that_are_protected_from_scale_in_are_rolled_like_the_others(fleet: Fleet) -> None:
    """The clock stands: AWS's default would wait an hour of it for somebody to take the protection away."""
    before = fleet.up(4)
    fleet.members.protect(*before)
    assert fleet.roll(7, "--pause", "0s")[0] == 0
    assert fleet.members.ended()["Status"] == "Successful"
    assert not fleet.members.serving(4) & before
    assert fleet.digests() == {fleet.programs.digest(7)}


def test_a_roll_is_refused_while_another_is_under_way_and_changes_nothing(fleet: Fleet, own_home: Path) -> None:
    fleet.up(4)
    assert fleet.roll(7)[0] == 0
    fleet.members.live(lambda: "checkpoint" in fleet.members.rolls()[0].get("StatusReason", ""))
    before = fleet.record(own_home)
    for _ in range(6):  # none of them may push out what members are judged by
        code, err = fleet.roll(8)
        assert (code, "error[roll-under-way]: fleet ff is rolling to version 2 (25 %)" in err) == (4, True), err
        assert "gpuprov fleet status ff" in err
        assert "--instead" in err
    assert fleet.record(own_home) == before
    assert AwsGroups(fleet.rehearsal).versions() == 2
    assert (len(fleet.members.rolls()), fleet.members.rolls()[0]["Status"]) == (1, "InProgress")
    assert {row["doubt"] for row in fleet.status()["members"]} == {""}


def test_instead_ends_the_other_roll_and_each_member_ends_at_one_digest(fleet: Fleet) -> None:
    fleet.up(4)
    assert fleet.roll(7)[0] == 0
    fleet.members.live(lambda: "checkpoint" in fleet.members.rolls()[0].get("StatusReason", ""))
    assert {fleet.members.version_of(each) for each in fleet.members.rows()} == {"1", "2"}
    code, err = fleet.roll(8, "--instead", "--pause", "0s")
    assert (code, "ff is rolling to version 2 (25 %): ending that" in err) == (0, True), err
    assert fleet.members.ended()["Status"] == "Successful"
    fleet.members.serving(4)
    assert [row["Status"] for row in fleet.members.rolls()] == ["Successful", "Cancelled"]
    assert fleet.digests() == {fleet.programs.digest(8)}
    assert {fleet.members.version_of(each) for each in fleet.members.rows()} == {"3"}
    assert (fleet.status()["halted"], len(fleet.status()["failed"])) == (False, 0)


def test_instead_goes_back_to_what_served_everywhere(fleet: Fleet) -> None:
    before = fleet.up(4)
    assert fleet.roll(7)[0] == 0
    fleet.members.live(lambda: "checkpoint" in fleet.members.rolls()[0].get("StatusReason", ""))
    assert fleet.roll(8, "--instead", bad=True)[0] == 0
    assert fleet.members.ended()["Status"] == "RollbackSuccessful"
    assert len(fleet.members.serving(4) & before) >= 2  # each of the two rolls touched one at most
    assert fleet.digests() == {fleet.programs.digest(6)}


def test_instead_does_not_wait_for_members_that_are_still_at_work(fleet: Fleet) -> None:
    fleet.up(4)
    assert fleet.roll(7)[0] == 0
    (silent,) = until(lambda: fleet.members.rows("Pending:Wait"))
    assert fleet.roll(8, "--instead", "--pause", "0s")[0] == 0
    fleet.members.booted.append(silent)
    control.ask(fleet.rehearsal, "settings", method="PUT", body={"clock_ahead_s": HEARTBEAT_S + 1})
    assert fleet.members.ended()["Status"] == "Successful"
    assert silent not in fleet.members.serving(4)
    assert fleet.digests() == {fleet.programs.digest(8)}


def test_the_fifth_failure_of_the_roll_before_does_not_end_the_roll_in_its_place(fleet: Fleet) -> None:
    """The call that takes a group back does not say from which roll."""
    fleet.up(4)
    assert fleet.roll(7, bad=True)[0] == 0
    fleet.members.live(lambda: len(fleet.members.failures()) == BREAKER - 1)
    (late,) = until(lambda: set(fleet.members.rows("Pending:Wait")) - set(fleet.members.booted))
    released = []

    def release(instance: str) -> bool:
        if instance == late:
            released.append(fleet.roll(8, "--instead", "--pause", "0s"))
        return False

    fleet.members.broken = release
    fleet.members.boot(late)
    assert [code for code, _ in released] == [0]
    assert len([row for row in fleet.members.evidence() if row["digest"] == fleet.programs.digest(7)]) == BREAKER
    assert "the group rolls to another program by now" in fleet.members.console
    assert fleet.members.ended()["Status"] == "Successful"
    fleet.members.serving(4)
    assert fleet.digests() == {fleet.programs.digest(8)}
    assert not fleet.status()["halted"]


def test_a_program_that_was_superseded_and_is_rolled_to_again_has_its_breaker_again(fleet: Fleet) -> None:
    fleet.up(4)
    assert fleet.roll(7, bad=True)[0] == 0
    until(lambda: fleet.members.rows("Pending:Wait"))
    assert fleet.roll(8, "--instead", "--pause", "0s")[0] == 0
    fleet.members.live(lambda: fleet.members.rolls()[0]["Status"] == "Successful")
    fleet.members.serving(4)
    assert fleet.roll(7, bad=True)[0] == 0
    assert fleet.members.ended()["Status"] == "RollbackSuccessful"
    fleet.members.serving(4)
    assert fleet.digests() == {fleet.programs.digest(8)}


def test_the_same_roll_is_no_success_while_the_fleet_goes_back_from_it(fleet: Fleet) -> None:
    fleet.up(4)
    assert fleet.roll(7)[0] == 0
    fleet.members.live(lambda: "checkpoint" in fleet.members.rolls()[0].get("StatusReason", ""))
    fleet.members.groups.rollback_instance_refresh(AutoScalingGroupName="gpuprov-ff")
    code, err = fleet.roll(7)
    assert (code, "fleet ff is ending its roll to version 2 (RollbackInProgress)" in err) == (4, True), err
    assert fleet.roll(7, "--instead", "--pause", "0s")[0] == 0
    assert fleet.members.ended()["Status"] == "Successful"
    fleet.members.serving(4)
    assert fleet.digests() == {fleet.programs.digest(7)}


def test_a_member_that_fails_at_a_task_says_at_which_in_its_evidence_and_in_the_status(fleet: Fleet, tmp_path: Path) -> None:
    """What `prove` says of it: tests/converge/onhost/test_prove.py."""
    fleet.up(2)
    said = told_failure("packages", TASK, WHY)
    path = tmp_path / "program-7"
    path.write_text(f"#!/bin/sh\necho 'fail: tools: no tmux' >&2\necho '{said}' >&2\necho 'role packages failed' >&2\nexit 2\n")
    assert fleet.call("fleet", "roll", "ff", "--program", str(path))[0] == 0
    fleet.members.live(fleet.members.failures)
    (failure, *_) = fleet.members.failures()
    assert failure == "2 role packages failed\n"
    posted = next(row for row in fleet.members.evidence() if row["exit_code"])
    assert failed_task(posted["errors"]) == FailedTask("packages", TASK, WHY)
    fleet.members.live(lambda: fleet.members.rolls()[0]["Status"] == "RollbackSuccessful")
    shown = fleet.status()  # all that failed have left the group by now
    (row,) = shown["failed"]
    assert (row["role"], row["task"], row["why"], row["members"]) == (
        "packages",
        TASK,
        WHY,
        BREAKER,
    )
    assert row["program"] == fleet.programs.digest(7)
    assert {row["failed_role"] for row in shown["members"]} == {""}
    out = fleet.call("fleet", "status", "ff")[1]
    assert f"5 members with program {row['program'][:12]} failed at role packages task “{TASK}”: {WHY}" in out

"""`gpuprov idle` for fleets: exactly the members that are idle leave the group, for good, and nothing is done where that is not known.

The fleets are on the embedded clouds without hosts. Their members are played behind the real `monitor`, and their host keys are stand-ins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision import paths
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.gcp.cloud import GcpCloud
from provision.errors import HostKeyUnknownError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.watch import stream
from tests import sample
from tests.cli.conftest import Call, call
from tests.waiting import until
from tests.watch.simulator import Simulator, path_with, simulated
from tests.workflow.killed import Killable
from tests.workflow.member_stand_ins import stand_ins
from tests.workflow.test_fleet import AwsGroups, GcpGroups, cloud, groups, profile, where, words

pytestmark = pytest.mark.matrix

__all__ = ["call", "cloud", "groups", "profile", "where", "words"]

IDLE = ("idle", "ff", "--idle-for", "2s", "--warn", "1s", "--interval", "0.5")
CHANGES = {"aws": "TerminateInstanceInAutoScalingGroup", "gcp": "compute.regionInstanceGroupManagers.deleteInstances"}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Simulator]:
    with stand_ins(), simulated(tmp_path / "bin", every_s=0.1) as simulator, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_BACK_OFF_S", (0.1,))
        patch.setenv("PATH", path_with(tmp_path / "bin"))
        yield simulator


@pytest.fixture
def members(groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...]) -> list[str]:
    return made(groups, call, words)


def made(groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...]) -> list[str]:
    """A fleet of two that serve; by what its machines are called in `find`."""
    code, _, err = call(*words)
    assert code == 0, err
    groups.serve()
    handle = AwsCloud("ap-east-1", groups.access) if isinstance(groups, AwsGroups) else GcpCloud("asia-east2", groups.access)

    def listed() -> list[str]:  # a list is late
        ids = sorted(instance.id for instance in handle.find("ff"))
        return ids if len(ids) == 2 else []

    return until(listed)


def left(groups: AwsGroups | GcpGroups) -> list[str]:
    if isinstance(groups, AwsGroups):
        return [row["InstanceId"] for row in groups.one()["Instances"]]
    return [row.name for row in groups.members()]


def changed(cloud: Rehearsal, where: str) -> list[str]:
    """The calls that changed the group or a machine."""
    reads = ("Describe", "Get", "List", "Assume")
    names = [str(row["action"]) for row in control.ask(cloud, "calls")]
    if where == "aws":
        return [name for name in names if not name.startswith(reads)]
    verbs = (".insert", ".delete", ".deleteInstances", ".resize", ".patch", ".stop", ".setMetadata")
    return [name for name in names if name.endswith(verbs)]


def test_exactly_the_idle_member_leaves_and_none_comes_in_its_place(
    groups: AwsGroups | GcpGroups, call: Call, hosts: Simulator, members: list[str], cloud: Rehearsal
) -> None:
    where = "aws" if isinstance(groups, AwsGroups) else "gcp"
    quiet, busy = members
    hosts.kinds = {quiet: "idle", busy: "kernels"}
    control.ask(cloud, "calls", method="DELETE")
    code, out, err = call(*IDLE, "--then", "shrink", "--json")
    assert code == 0, err
    assert json.loads(out) == {"name": "ff", "idle": True, "done": [f"ended {quiet}, a member of ff"]}
    assert f"{quiet} of ff idle: `shrink` follows in 1 s" in err
    until(lambda: left(groups) == [busy])
    assert groups.sizes() == [1]
    assert changed(cloud, where) == [CHANGES[where]]  # nothing was done on a machine
    assert json.loads((paths.state_dir() / "fleets" / "ff.json").read_text())["size"] == 1
    assert '"fleet shrink"' in call("log", "--json")[1]
    code, out, err = call(*IDLE, "--then", "shrink", "--watch-for", "3s")
    assert (code, "nothing was done" in out) == (3, True), err
    assert left(groups) == [busy]


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_9_at_every_call(
    groups: AwsGroups | GcpGroups, call: Call, hosts: Simulator, words: tuple[str, ...], *, tmp_path: Path, killable: Killable, when: str
) -> None:
    """The same command again ends the idle member where that was not done yet, and never the other one."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    asked = (*IDLE, "--watch-for", "5s", "--then", "shrink")
    number, more = 0, True
    while more:
        number = sample.after(number)
        quiet, busy = made(groups, call, (*words, "--program", str(program)))
        hosts.kinds = {quiet: "idle", busy: "kernels"}
        more = killable.run(number, when, *asked, stand_ins="member_stand_ins").killed
        had_left = groups.sizes() == [1]
        code, out, err = call(*asked)
        assert code == (3 if had_left else 0), (number, out, err)
        until(lambda: len(left(groups)) == 1)
        assert left(groups) == [busy], number
        assert (groups.sizes(), groups.deadlines()) == ([1], 1)
        assert json.loads((paths.state_dir() / "fleets" / "ff.json").read_text())["size"] == 1
        assert call("fleet", "down", "ff", "--yes")[0] == 0
        assert (groups.left(), groups.all()) == ([], []), number
    assert number > 1


@pytest.mark.matrix
@pytest.mark.parametrize(("busy", "action"), [("kernels", "shrink"), ("dead", "shrink"), ("parked", "down")])
@pytest.mark.parametrize("where", ["aws"])
def test_a_member_that_is_busy_or_of_which_something_is_missing_stays(
    groups: AwsGroups, call: Call, hosts: Simulator, members: list[str], *, busy: str, action: str
) -> None:
    hosts.kinds = dict.fromkeys(members, busy)
    hosts.dead = frozenset(members) if busy == "dead" else frozenset()
    code, out, err = call(*IDLE, "--then", action, "--watch-for", "3s")
    assert (code, "nothing was done" in out) == (3, True), err
    assert (sorted(left(groups)), groups.sizes()) == (members, [2])


@pytest.mark.parametrize("where", ["aws"])
def test_one_that_cannot_be_reached_safely_counts_as_busy(
    groups: AwsGroups, call: Call, hosts: Simulator, members: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.kinds = dict.fromkeys(members, "idle")

    def keys(_: Any, instance: Any, **__: Any) -> tuple[str, ...]:
        if instance.id == members[0]:
            msg = "its console shows no host keys"
            raise HostKeyUnknownError(msg, hint="wait")
        return ("ssh-ed25519 AAAA",)

    monkeypatch.setattr(AwsCloud, "host_keys", keys)
    code, _, err = call(*IDLE, "--then", "down")  # of the whole fleet it cannot be known
    assert (code, "error[host-key-unknown]" in err) == (3, True), err
    code, _, err = call(*IDLE, "--then", "shrink")
    assert (code, f"{members[0]} counts as busy: its console shows no host keys" in err) == (0, True), err
    until(lambda: left(groups) == [members[0]])


@pytest.mark.parametrize("where", ["aws"])
def test_so_many_are_kept_and_a_hook_that_is_told_their_names_may_object(
    groups: AwsGroups, call: Call, hosts: Simulator, members: list[str], tmp_path: Path
) -> None:
    hosts.kinds = dict.fromkeys(members, "idle")
    code, _, err = call(*IDLE, "--then", "shrink", "--keep", "2")
    assert (code, "ff has 2 members, and 2 are kept" in err) == (3, True), err
    told, hook = tmp_path / "told", tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\necho "$GPUPROV_IDLE_ACTION $GPUPROV_IDLE_MEMBERS" >> {told}\n[ "$(wc -l < {told})" -gt 1 ]\n')
    hook.chmod(0o755)
    code, out, err = call(*IDLE, "--then", "shrink", "--keep", "1", "--hook", str(hook), "--json")
    assert (code, "the hook ended with 1: nothing is done now" in err, len(json.loads(out)["done"])) == (0, True, 1), err
    assert [set(line.split()[1:]) <= set(members) for line in told.read_text().splitlines()] == [True, True]
    until(lambda: len(left(groups)) == 1)
    assert groups.sizes() == [1]


def test_an_idle_fleet_is_ended_whole(groups: AwsGroups | GcpGroups, call: Call, hosts: Simulator, members: list[str]) -> None:
    hosts.kinds = dict.fromkeys(members, "idle")
    code, _, err = call(*IDLE, "--then", "down")
    assert code == 0, err
    assert (groups.all(), groups.left()) == ([], [])
    assert call("fleet", "status", "ff")[0] == 2


@pytest.mark.usefixtures("hosts", "members")
@pytest.mark.parametrize("where", ["aws"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--then", "stop"), "would replace a member that is stopped"),
        (("--then", "down", "--keep", "1"), "keeps no member"),
        (("--then", "shrink", "--warn", "1h"), "lower --warn, or raise"),
    ],
)
def test_what_does_not_fit_a_fleet_is_refused(groups: AwsGroups, call: Call, more: tuple[str, ...], said: str) -> None:
    code, _, err = call(*IDLE, *more)
    assert (code, said in err, "hint: " in err) == (2, True, True), err
    assert groups.sizes() == [2]


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("where", ["aws"])
def test_a_fleet_of_which_none_serves_is_not_idle(groups: AwsGroups, call: Call, words: tuple[str, ...]) -> None:
    assert call(*words)[0] == 0
    code, _, err = call(*IDLE, "--then", "down")
    assert (code, "no member of ff serves" in err) == (2, True), err
    assert groups.sizes() == [2]

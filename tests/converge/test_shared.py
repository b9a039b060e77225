"""One Ansible for several hosts that cannot set themselves up: what each of them hears of it, and on real ones of which some are hurt."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from provision.converge import shared
from provision.converge.drive import Play
from provision.converge.events import RunEvents
from provision.converge.progress import ConvergeResult, Progress
from provision.converge.shared import SharedRuns, Work
from provision.errors import HostUnreachableError, PlaybookFailedError
from provision.host.ssh import Target
from tests.embedded import Embedded
from tests.waiting import LONG_S, until
from tests.workflow.broken_hosts import ROOT, Machines

WORK = Work(("preflight", "storage"), {"storage_mount": "/data"})
Drive = Callable[[Play, Callable[[dict[str, Any]], bool], threading.Event], tuple[int, str]]


def event(kind: str, host: str, task: str = "Mount", **more: Any) -> dict[str, Any]:
    return {"event": f"runner_on_{kind}", "event_data": {"host": host, "task": task, "role": "storage", **more}}


def end(host: str) -> dict[str, Any]:
    return event("ok", host, shared._END)


def hosts_of(play: Play) -> list[str]:
    return list(json.loads((play.folder / "inventory.json").read_text())["all"]["hosts"])


class Command:
    """Some hosts of one command; Ansible is a function of the test."""

    def __init__(self, folder: Path, hosts: int, monkeypatch: pytest.MonkeyPatch, drive: Drive) -> None:
        monkeypatch.setattr(shared, "drive", drive)
        self.folder, self.stop, self.story = folder, threading.Event(), list[Progress]()
        self.shared = SharedRuns(hosts, self.stop)
        self.pool = ThreadPoolExecutor(hosts)

    def come(self, name: str, work: Work = WORK) -> Future[ConvergeResult]:
        config = self.folder / "config"
        config.write_text("Host *\n HostName 127.0.0.1\n Port 1\n")
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        run = RunEvents(Target(name, name, config), folder, self.story.append, diff=False, stopped=self.stop)
        return self.pool.submit(self.shared.converge, run, work)

    def told(self, name: str) -> list[tuple[str, str]]:
        return [(each.task, each.state) for each in self.story if each.host == name]


def test_a_host_is_through_at_its_own_end_and_a_failure_is_that_of_its_host_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, plays = threading.Event(), list[Play]()

    def drive(play: Play, take: Callable[[dict[str, Any]], bool], _stop: threading.Event) -> tuple[int, str]:
        plays.append(play)
        for name in "abcd":
            take(event("start", name))
        take(event("failed", "b", res={"msg": "no such device"}))
        take(event("unreachable", "c", res={"msg": "gone"}))
        take(event("ok", "d", res={"changed": True}))
        take(end("d"))
        assert go.wait(LONG_S)
        take(event("ok", "a"))
        take(end("a"))
        return 4, "all of it"

    command = Command(tmp_path, 4, monkeypatch, drive)
    runs = {name: command.come(name) for name in "abcd"}
    assert runs["d"].result(LONG_S).changed_tasks == ("storage: Mount",)
    assert isinstance(runs["b"].exception(LONG_S), PlaybookFailedError)
    assert isinstance(runs["c"].exception(LONG_S), HostUnreachableError)
    assert not runs["a"].done()
    go.set()
    assert runs["a"].result(LONG_S).ok == 1
    assert [command.told(name) for name in "abcd"] == [
        [("Mount", "started"), ("Mount", state)] for state in ("ok", "failed", "unreachable", "changed")
    ]
    (play,) = plays
    assert sorted(hosts_of(play)) == list("abcd")
    assert (play.flags, play.more) == (("--forks", "4"), {"ANSIBLE_STRATEGY": "host_pinned"})
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [play.folder.name]  # one folder is about all of them
    assert str(play.folder) in runs["b"].exception(0).hint  # type: ignore[union-attr]


def test_hosts_that_need_something_else_have_an_ansible_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: dict[tuple[str, ...], list[str]] = {}

    def drive(play: Play, take: Callable[[dict[str, Any]], bool], _stop: threading.Event) -> tuple[int, str]:
        ran[tuple(play.tags)] = sorted(hosts_of(play))
        for name in hosts_of(play):
            take(end(name))
        return 0, ""

    monkeypatch.setattr(shared, "_STILL_S", LONG_S)
    monkeypatch.setattr(shared, "_MOST_S", LONG_S)
    command = Command(tmp_path, 3, monkeypatch, drive)
    other = Work(("preflight", "base"), {"storage_mount": "/data"})
    for run in [command.come("a"), command.come("b", other), command.come("c")]:
        run.result(LONG_S)
    assert ran == {WORK.roles: ["a", "c"], other.roles: ["b"]}


def test_nobody_waits_for_a_host_that_does_not_come_and_one_that_comes_later_has_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def drive(play: Play, take: Callable[[dict[str, Any]], bool], _stop: threading.Event) -> tuple[int, str]:
        ran.append(hosts_of(play))
        for name in ran[-1]:
            take(end(name))
        return 0, ""

    monkeypatch.setattr(shared, "_STILL_S", 0.0)
    command = Command(tmp_path, 3, monkeypatch, drive)
    command.come("a").result(LONG_S)
    command.come("b").result(LONG_S)
    assert ran == [["a"], ["b"]]


@pytest.mark.parametrize("code", [0, 250])
def test_an_ansible_that_ends_early_is_an_error_of_the_hosts_that_were_not_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def drive(_play: Play, take: Callable[[dict[str, Any]], bool], _stop: threading.Event) -> tuple[int, str]:
        take(end("a"))
        return code, "ERROR! killed"

    command = Command(tmp_path, 2, monkeypatch, drive)
    runs = [command.come("a"), command.come("b")]
    assert runs[0].result(LONG_S).changed == 0
    with pytest.raises(PlaybookFailedError, match="ERROR! killed"):
        runs[1].result(LONG_S)


def test_what_keeps_ansible_from_a_start_is_told_for_each_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = PlaybookFailedError("no ansible", hint="install it")

    def drive(*_: object) -> tuple[int, str]:
        raise refusal

    command = Command(tmp_path, 2, monkeypatch, drive)
    for run in [command.come("a"), command.come("b")]:
        assert str(run.exception(LONG_S)) == "no ansible"


def test_a_stop_ends_the_wait_of_every_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drive(_play: Play, _take: Callable[[dict[str, Any]], bool], stop: threading.Event) -> tuple[int, str]:
        assert stop.wait(LONG_S)
        raise KeyboardInterrupt

    command = Command(tmp_path, 2, monkeypatch, drive)
    runs = [command.come("a"), command.come("b")]
    command.stop.set()
    for run in runs:
        assert isinstance(run.exception(LONG_S), KeyboardInterrupt)


# Every host is one with an older Python, and an Ansible waits for all hosts of the command.
OLD = """
from provision.cli import main
from provision.converge import bundle, shared
bundle.least_python = lambda: "3.99"
shared._STILL_S = shared._MOST_S = 600.0
main()
"""
LOCKED = (
    'setsid -f python3 -c "import fcntl, time; file = open(\\"/var/lib/dpkg/lock-frontend\\", \\"w\\");'
    ' fcntl.lockf(file, fcntl.LOCK_EX); open(\\"/run/locked\\", \\"w\\"); time.sleep(1e6)" >/dev/null 2>&1 </dev/null;'
    " until test -e /run/locked; do sleep 0.1; done"
)
FREE = "pkill -f [l]ock-frontend"
COUNT = 4
CUT, REFUSES, WELL, WAITS = "m-1", "m-2", "m-3", "m-4"


class OldMachines(Machines):
    """Machines that cannot set themselves up."""

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-u", "-c", OLD, *words]

    def started(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self.argv(*words), env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def shared(self) -> list[list[str]]:
        """The hosts of each Ansible that ran here, the first one first."""
        inventories = sorted((self.folder / "state/runs").glob("*/inventory.json"), key=lambda path: path.stat().st_mtime_ns)
        return [sorted(json.loads(path.read_text())["all"]["hosts"]) for path in inventories]

    def ansibles(self) -> list[str]:
        said = subprocess.run(["ps", "-A", "-ww", "-o", "args="], check=True, capture_output=True, text=True).stdout
        return [line for line in said.splitlines() if f"{self.folder}/state/runs" in line]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[OldMachines]:
    made = OldMachines(tmp_path_factory.mktemp("old"))
    embedded.start(made.folder / "state" / "rehearsal", hosts=True)
    yield made
    made.gpuprov("rehearse", "stop")


def ends(lines: list[str]) -> Mapping[str, str]:
    """How each host ended, by its name, in the order of the ends."""
    said = [line.split(" s  ", 1)[1].strip().split(": ", 1) for line in lines if " s  " in line]
    return {name: step for name, step in (each for each in said if len(each) == 2) if step == "done" or step.startswith("error[")}


@pytest.mark.rehearsal
def test_old_hosts_share_one_ansible_in_which_none_waits_for_another(machines: OldMachines) -> None:
    """One loses its power, one has a file where the disk belongs, and one waits for a lock until all others have ended."""
    words = ("--profile", str(machines.small_profile()), "--rehearse", "--name", "m", "--count", str(COUNT), "--without-gpu", "--json")
    with machines.started("up", *words) as process:
        out, said = process.communicate(timeout=8 * LONG_S)
    assert process.returncode == 0, said[-3000:]
    assert [host["report"]["exit_code"] for host in json.loads(out)["hosts"]] == [0] * COUNT
    assert said.count("too old to set itself up") == COUNT
    before = machines.ids()
    assert machines.shared() == [list(before)]

    for name in before:
        machines.shell(name, "umount /data")  # so that there is something to set up
    machines.shell(REFUSES, "rmdir /data; touch /data")
    machines.shell(WAITS, LOCKED)
    with machines.started("up", *words) as process:
        assert process.stderr is not None
        lines = list[str]()
        for line in process.stderr:
            lines.append(line)
            if f" {CUT}: preflight: " in line and CUT in before:
                machines.cut_power(before.pop(CUT))
            if ends(lines).keys() == {CUT, REFUSES, WELL}:
                break
        machines.shell(WAITS, FREE)
        out, rest = process.communicate(timeout=4 * LONG_S)
    lines += rest.splitlines()
    assert process.returncode == 4, lines
    data = json.loads(out)
    assert {each["name"]: each["code"] for each in data["failed"]} == {CUT: "instance-lost", REFUSES: "playbook-failed"}
    assert [(host["instance"]["name"], host["report"]["exit_code"]) for host in data["hosts"]] == [(WELL, 0), (WAITS, 0)]
    assert list(ends(lines))[-1] == WAITS
    assert machines.shared()[1:] == [[CUT, REFUSES, WELL, WAITS]]
    assert len([line for line in lines if f" {WELL}: storage: Mount the disk now and at each boot" in line]) == 1

    for name in (WELL, WAITS):
        machines.shell(name, "umount /data")
    with machines.started("apply", WELL, WAITS, "--without-gpu", "--check") as process:
        _, said = process.communicate(timeout=4 * LONG_S)
    assert machines.shared()[2:] == [[WELL, WAITS]], said
    for name in (WELL, WAITS):
        machines.shell(name, "! mountpoint -q /data")

    machines.shell(WAITS, LOCKED)
    with machines.started("apply", WELL, WAITS, "--without-gpu") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if f" {WAITS}: preflight: " in line:
                break
        until(lambda: machines.ansibles() != [])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=4 * LONG_S)
    assert process.returncode == 130
    assert machines.ansibles() == []
    assert machines.shared()[3:] == [[WELL, WAITS]]
    assert machines.gpuprov("down", "m", "--yes").returncode == 0

"""Several hosts that cannot set themselves up, some of them hurt: an Ansible on this machine sets up each of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.embedded import Embedded
from tests.waiting import LONG_S, until
from tests.workflow.broken_hosts import ROOT, Machines

# Every host is one with an older Python.
OLD = """
from provision.cli import main
from provision.converge import bundle
bundle.least_python = lambda: "3.99"
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

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.known = set[Path]()

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-u", "-c", OLD, *words]

    def started(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self.argv(*words), env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def ran(self) -> list[str]:
        """The host of each Ansible that ran here since the last question."""
        inventories = set((self.folder / "state/runs").glob("*/inventory.json")) - self.known
        self.known |= inventories
        return sorted(host for path in inventories for host in json.loads(path.read_text())["all"]["hosts"])

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
def test_each_old_host_has_an_ansible_here_and_none_waits_for_another(machines: OldMachines) -> None:
    """One loses its power, one has a file where the disk belongs, and one waits for a lock until all others have ended."""
    words = ("--profile", str(machines.small_profile()), "--rehearse", "--name", "m", "--count", str(COUNT), "--without-gpu", "--json")
    with machines.started("up", *words) as process:
        out, said = process.communicate(timeout=8 * LONG_S)
    assert process.returncode == 0, said[-3000:]
    assert [host["report"]["exit_code"] for host in json.loads(out)["hosts"]] == [0] * COUNT
    assert said.count("too old to set itself up") == COUNT
    before = machines.ids()
    assert machines.ran() == list(before)

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
    assert machines.ran() == [CUT, REFUSES, WELL, WAITS]
    assert len([line for line in lines if f" {WELL}: storage: Mount the disk now and at each boot" in line]) == 1

    for name in (WELL, WAITS):
        machines.shell(name, "umount /data")
    with machines.started("apply", WELL, WAITS, "--without-gpu", "--check") as process:
        _, said = process.communicate(timeout=4 * LONG_S)
    assert machines.ran() == [WELL, WAITS], said
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
    assert machines.ran() == [WELL, WAITS]
    assert machines.gpuprov("down", "m", "--yes").returncode == 0

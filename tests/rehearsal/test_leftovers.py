"""A killed rehearsal takes its hosts along, and what it leaves behind is found and removed."""

import multiprocessing
import os
import signal
import subprocess
from pathlib import Path

import pytest

from provision.concurrent import at_once
from provision.rehearsal import cgroups, leftovers
from provision.rehearsal.hosts import HostPark
from provision.rehearsal.network import HostNetwork
from tests.rehearsal.test_hosts import key, left_of, root, spec
from tests.waiting import until

pytestmark = pytest.mark.rehearsal
__all__ = ["key", "root"]  # fixtures


def _hold(folder: Path, root: Path, key: Path, ready_file: Path) -> None:
    park = HostPark(folder, rootfs=root, network=HostNetwork(folder))
    ready_file.write_text(park.create(spec(key, instance_store_gb=1)))
    signal.pause()


def test_kill_9_takes_the_hosts_along_and_a_sweep_removes_the_rest(root: Path, key: Path, tmp_path: Path) -> None:
    folder, told = tmp_path / "killed", tmp_path / "told"
    child = multiprocessing.get_context("spawn").Process(target=_hold, args=(folder, root, key, told))
    child.start()
    until(lambda: told.exists() and told.read_text())
    assert left_of(folder)
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    until(lambda: not subprocess.run(["pgrep", "-f", f"init.sh {folder}"], capture_output=True, check=False).stdout)
    left = leftovers.present(folder)
    assert [what for what in left if what.startswith("link gprov")]
    assert [what for what in left if what.startswith("loop device")]
    assert left[-1] == "files of i-1"
    assert leftovers.sweep(folder) == left
    assert left_of(folder) == []
    assert leftovers.present(folder) == leftovers.sweep(folder) == []


def test_a_group_that_two_remove_at_the_same_time_is_gone_and_neither_fails(tmp_path: Path) -> None:
    for _ in range(5):
        group = cgroups.make(tmp_path, "shared")
        for number in range(40):
            (group / f"a{number}" / "b").mkdir(parents=True)
        assert at_once(cgroups.remove, [group] * 4) == [None] * 4
        assert not group.exists()

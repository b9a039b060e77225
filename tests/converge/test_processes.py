"""Ending a run with every process that it started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provision.converge import processes
from provision.converge.processes import end_tree

# A parent that ignores the interrupt, and a child that leads a session of its own.
PARENT = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True)
print("ready", flush=True)
signal.pause()
"""


def running(word: str) -> bool:
    lines = subprocess.run(["ps", "-A", "-ww", "-o", "stat=,args="], check=True, capture_output=True, text=True).stdout.splitlines()
    return any(word in line and not line.startswith("Z") for line in lines)


def test_a_child_that_ignores_the_interrupt_ends_with_its_own_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE_S", 1.0)
    marker, seconds = str(tmp_path / "inventory.json"), "7312.5"
    with subprocess.Popen([sys.executable, "-c", PARENT, seconds, marker], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        end_tree(marker)
        assert not running(f"sleep {seconds}")
        assert parent.wait(timeout=240) == -9


def test_a_marker_that_no_child_has_ends_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        end_tree(str(tmp_path / "nothing"))
        assert other.poll() is None
        other.kill()

"""End a run of Ansible with everything it started.

Ansible's workers lead sessions of their own, so that ending one process group would leave them behind; the tree is read from `ps`,
which every system that can be a controller has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Final

_GRACE_S: Final = 8.0
_POLL_S: Final = 0.05


def end_tree(marker: str) -> None:
    """End our child process whose command line holds `marker`, and all its descendants: asked first, killed after a few seconds."""
    tree = _tree(marker)
    if not tree:
        return
    try:
        # Ansible passes an interrupt on to its workers and takes its temporary files with it.
        _signal(tree[:1], signal.SIGINT)
        _wait(tree, time.monotonic() + _GRACE_S)
    finally:
        # Asked again for the tree: it may have grown while it was ending. Those of the first reading may by now be nobody's child.
        left = [*tree, *(pid for pid in _tree(marker) if pid not in tree)]
        _signal(_alive(left), signal.SIGKILL)
        _wait(left, time.monotonic() + _GRACE_S)


def _tree(marker: str) -> list[int]:
    """The process ids, the root first."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], check=True, capture_output=True, text=True, errors="replace"
    ).stdout
    children: dict[int, list[int]] = {}
    roots = []
    for line in listing.splitlines():
        child, parent, *args = line.split(maxsplit=2)
        children.setdefault(int(parent), []).append(int(child))
        if int(parent) == os.getpid() and args and marker in args[0]:
            roots.append(int(child))
    tree: list[int] = []
    while roots:
        pid = roots.pop(0)
        tree.append(pid)
        roots += children.get(pid, [])
    return tree


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(pids: list[int], deadline: float) -> None:
    while _alive(pids) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _alive(pids: list[int]) -> list[int]:
    """Those that still run. A zombie does not: it only waits for whoever started it, here ansible-runner, to take notice."""
    listing = subprocess.run(["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, pids))], check=False, capture_output=True, text=True).stdout
    states = [line.split(maxsplit=1) for line in listing.splitlines()]
    return [int(pid) for pid, state in states if not state.startswith("Z")]

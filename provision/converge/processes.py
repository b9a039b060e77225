"""End a run of Ansible with every process that it started.

Ansible's workers lead sessions of their own, so ending one process group would leave them behind. The process tree is read from `ps`, which
every system that can run Ansible has.
"""

import contextlib
import os
import signal
import subprocess
import time
from typing import Final

_GRACE_S: Final = 8.0
_POLL_S: Final = 0.05


def end_tree(marker: str) -> None:
    """Interrupt our child process whose command line contains `marker`, and kill what is left of its tree after a few seconds."""
    tree = _tree(marker)
    if not tree:
        return
    try:
        # Ansible passes an interrupt on to its workers and removes its temporary files.
        _signal(tree[:1], signal.SIGINT)
        _wait(tree, time.monotonic() + _GRACE_S)
    finally:
        # Read the tree again, since it may have grown; keep the first reading too, since its processes may have lost their parent by now.
        tree += [pid for pid in _tree(marker) if pid not in tree]
        _signal(_alive(tree), signal.SIGKILL)
        _wait(tree, time.monotonic() + _GRACE_S)


def _tree(marker: str) -> list[int]:
    """The process ids, the root first."""
    children: dict[int, list[int]] = {}
    tree = []
    for line in _ps("-A", "-ww", "-o", "pid=,ppid=,args=").splitlines():
        child, parent, *arguments = line.split(maxsplit=2)
        children.setdefault(int(parent), []).append(int(child))
        if int(parent) == os.getpid() and arguments and marker in arguments[0]:
            tree.append(int(child))
    for pid in tree:  # grows while it is read
        tree += children.get(pid, [])
    return tree


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(pids: list[int], deadline: float) -> None:
    while _alive(pids) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _alive(pids: list[int]) -> list[int]:
    """The processes that still run. A zombie does not: it only waits until its parent, ansible-runner, takes notice."""
    states = [line.split(maxsplit=1) for line in _ps("-o", "pid=,stat=", "-p", ",".join(map(str, pids))).splitlines()]
    return [int(pid) for pid, state in states if not state.startswith("Z")]


def _ps(*arguments: str) -> str:
    return subprocess.run(["ps", *arguments], check=False, capture_output=True, text=True, errors="replace").stdout

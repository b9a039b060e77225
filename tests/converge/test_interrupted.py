"""A run that is killed after each of its changes, and run again: the host ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from provision.converge.progress import Progress
from provision.profile import lockfile

from .conftest import GPU, Host

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=10)]

# Kills itself and every process of its run, without a word, when the role begins another task after so many, or the next role begins.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from provision.converge.run import converge
from provision.host.ssh import Target
from provision.profile import lockfile
from provision.profile.model import Profile

asked = json.loads(Path(sys.argv[1]).read_text())
begun = 0

def told(progress):
    global begun
    begun += progress.state == "started" and (progress.role == asked["role"] or begun > 0)
    if begun > asked["after"]:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                ours = asked["run_dir"].encode() in path.read_bytes()
            except OSError:
                continue
            if ours and path.parent.name != str(os.getpid()):
                os.kill(int(path.parent.name), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

converge(
    Target("lab", "lab", Path(asked["config"])), Profile.model_validate(asked["profile"]), asked["roles"], login="ubuntu",
    lock=lockfile.parse(asked["lock"], "test"), run_dir=Path(asked["run_dir"]), on_progress=told,
)
"""


def run_and_kill(host: Host, role: str, after: int, roles: Sequence[str], folder: Path) -> bool:
    """Whether the run was killed, because a task followed so many tasks of that role."""
    program, asked = folder / "program.py", folder / f"asked-{role}-{after}.json"
    program.write_text(PROGRAM)
    told = {"config": str(host.lab.target.config), "profile": host.asked.dump(), "lock": lockfile.dump(host.locked), "roles": roles}
    asked.write_text(json.dumps({**told, "run_dir": str(folder / f"run-{role}-{after}"), "role": role, "after": after}))
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(program), str(asked)],
        check=False,
        capture_output=True,
        text=True,
        timeout=720,
        env={**os.environ, "PYTHONPATH": root},
        start_new_session=True,
    )
    assert done.returncode in {0, -9}, done.stderr
    return done.returncode == -9


def test_killed_after_every_change_the_host_ends_the_same(host: Host, tmp_path: Path) -> None:
    """A task that changes nothing leaves the host as it was at the kill before it, so that kill is not repeated.

    A run does the groundwork, the role in which it is killed and the next one; the roles before it are done.
    """
    story: list[Progress] = []
    host.converge("whole", on_progress=story.append)
    ended = [progress for progress in story if progress.state != "started"]
    tasks: dict[str, list[bool]] = {}
    for progress in ended:
        tasks.setdefault(progress.role, []).append(progress.state == "changed")
    changes = [(role, number) for role, changed in tasks.items() for number, did in enumerate(changed, 1) if did]
    assert {role for role, _ in changes} >= set(GPU)
    whole = host.state()
    host.undo("undo")
    order = list(tasks)
    for role, number in changes:
        is_last = (role, number) == (order[-1], len(tasks[role]))
        following = [other for other in order[order.index(role) :] if other in GPU][:2]
        roles = following if role in GPU else GPU
        assert run_and_kill(host, role, number, roles, tmp_path) == (not is_last), (role, number)
    host.converge("finished")
    assert set(whole.splitlines()) ^ set(host.state().splitlines()) == set()
    assert host.converge("again").changed_tasks == ()
    host.undo("last")

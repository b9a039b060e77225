"""Run the roles on a host by an Ansible on this machine, over the same OpenSSH configuration as everything else.

Ansible gets a small environment and a folder of its own. The user's ansible.cfg and credentials have no part in it, and the artefacts that
stay behind for reading (mode 0700) hold no credentials. A host that can set itself up does so instead: see `converge/there.py`.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.clouds import credential_variables
from provision.converge import connection, inert
from provision.converge.drive import Play, drive
from provision.converge.events import RunEvents
from provision.converge.offline import offline
from provision.converge.progress import ConvergeResult, Progress
from provision.converge.roles import in_order, play_of, with_groundwork
from provision.converge.variables import variables
from provision.errors import PlaybookFailedError
from provision.host.ssh import Target
from provision.paths import playbooks_dir, private_dir

if TYPE_CHECKING:
    from provision.profile.locked import Lock
    from provision.profile.model import Profile

# What Ansible and ssh need from the caller's environment, and where the programs of a ProxyCommand find credentials. Nothing else passes.
_ENVIRONMENT: Final = (
    *("DISPLAY", "HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER", "XDG_RUNTIME_DIR"),
    *credential_variables(),
)


def converge(
    target: Target,
    profile: Profile,
    roles: Sequence[str],
    *,
    lock: Lock,
    run_dir: Path,
    login: str | None,
    on_progress: Callable[[Progress], None],
    check: bool = False,
    diff: bool = False,
    stop: threading.Event | None = None,
    playbook: Path | None = None,
    carried: str | None = None,
) -> ConvergeResult:
    """Run roles and their groundwork on the host, in their order, and report each task as it starts and ends.

    A KeyboardInterrupt in the calling thread, or an exception from `on_progress`, first ends Ansible and all its processes and then
    continues to the caller. A caller that receives interrupts in another thread sets `stop`, which raises KeyboardInterrupt here.

    Args:
        target: the host.
        profile: what the host should be.
        roles: names from `ROLES`; with none, nothing runs.
        lock: the exact versions.
        run_dir: for the artefacts; made with mode 0700.
        login: the user who owns the data disk; the user of the connection when None.
        on_progress: called in this thread.
        check: only predict the changes.
        diff: put the changes into `Progress.diff`.
        stop: see above.
        playbook: a playbook other than the shipped one.
        carried: a folder on the host with everything that is downloaded otherwise.

    Raises:
        RoleUnknownError: a role of that name does not exist.
        PlaybookFailedError: a task failed; the message names role and task.
        HostUnreachableError: the connection failed.
    """
    selected = with_groundwork(in_order(roles), lock)
    run = RunEvents(target, private_dir(run_dir.resolve()), on_progress, diff=diff, stopped=stop)
    if selected:
        values = told(target, profile, lock, selected, login=login, carried=carried)
        play_here(run, playbook or _shipped(run.dir, selected), values, tags=selected, flags=flags_of(check=check, diff=diff))
    return run.result(selected)


def undo(
    target: Target,
    roles: Sequence[str],
    *,
    run_dir: Path,
    on_progress: Callable[[Progress], None],
    check: bool = False,
    stop: threading.Event | None = None,
) -> ConvergeResult:
    """Put back what these roles changed on the host, the last role first.

    Args:
        target: the host.
        roles: names from `ROLES`.
        run_dir: for the artefacts; made with mode 0700.
        on_progress: called in this thread; `Progress.diff` has one line for each thing that was put back, or would be.
        check: only predict the changes.
        stop: as for `converge`.

    Raises:
        RoleUnknownError, PlaybookFailedError, HostUnreachableError: as for `converge`.
    """
    selected = in_order(roles)
    run = RunEvents(target, private_dir(run_dir.resolve()), on_progress, diff=True, stopped=stop)
    play_here(run, playbooks_dir() / "undo.yml", {"undo_roles": list(selected)}, tags=(), flags=flags_of(check=check, diff=True))
    return run.result(selected)


def told(
    target: Target, profile: Profile, lock: Lock, selected: Sequence[str], *, login: str | None, carried: str | None
) -> dict[str, Any]:
    """What the roles of one run are told; the arguments are those of `converge`, with the groundwork among the roles."""
    values = variables(profile, lock, selected) | {"storage_owner": login or connection.user_of(target)}
    return offline(values, lock, carried) if carried else values


def flags_of(*, check: bool, diff: bool) -> tuple[str, ...]:
    """The words for Ansible to predict changes only, and to show them."""
    return (*["--check"] * check, *["--diff"] * diff)


def _shipped(run_dir: Path, roles: Sequence[str]) -> Path:
    """A playbook of these roles among the artefacts."""
    _write(run_dir / "site.yml", play_of(roles, (playbooks_dir() / "site.yml").read_text()))
    return run_dir / "site.yml"


def play_here(run: RunEvents, playbook: Path, values: Mapping[str, Any], *, tags: Sequence[str], flags: Sequence[str]) -> None:
    """Run a playbook on the one host, and raise whatever went wrong."""
    _write(run.dir / "variables.json", inert.document(values))
    _write(run.dir / "inventory.json", connection.inventory(run.target, run.dir))
    play = Play(run.dir, playbook, playbooks_dir(), (_ansible_playbook(),), tags, flags, _ENVIRONMENT)
    try:
        exit_code, output = drive(play, run.take, run.stopped)
    finally:
        connection.renew(run.target)
    run.raise_failure(exit_code, output)


def _ansible_playbook() -> str:
    """The program beside this interpreter: a virtual environment is not on PATH unless it was activated."""
    beside = Path(sys.executable).parent / "ansible-playbook"
    program = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if program is None:
        msg = "ansible-playbook is not installed beside gpuprov"
        raise PlaybookFailedError(msg, hint=f"`{sys.executable} -m pip install ansible-core`")
    return program


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)

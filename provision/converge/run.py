"""Run the roles on a host through ansible-runner, over the same OpenSSH configuration as everything else.

Ansible sees a small environment and a folder of its own: neither the user's ansible.cfg nor her credentials take part, and what is
left behind for reading (mode 0700) holds none of them.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.converge import failure, inert, processes
from provision.converge.progress import Converged, Progress, State
from provision.converge.roles import in_order, variables, with_groundwork
from provision.errors import GpuprovError, PlaybookFailedError
from provision.host.ssh import Target
from provision.paths import playbooks_dir, private_dir

if TYPE_CHECKING:
    from ansible_runner import RunnerConfig

    from provision.profile.locked import Lock
    from provision.profile.model import Profile

# What Ansible and the ssh under it need of the caller's environment; everything else, credentials foremost, stays out. The last line
# says where the programs of a ProxyCommand (`aws ssm`, `gcloud`) find credentials, and holds none.
_KEPT: Final = (
    *("DISPLAY", "HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER", "XDG_RUNTIME_DIR"),
    *("AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_ACTIVE_CONFIG_NAME", "CLOUDSDK_CONFIG"),
)

# What ansible-runner itself must tell its callback plugin.
_RUNNERS_OWN: Final = ("AWX_", "RUNNER_", "ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_RETRY_FILES_ENABLED")

_ENDS: Final[Mapping[str, State]] = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_skipped": "skipped",
    "runner_on_unreachable": "unreachable",
}

# A socket's path may have 104 characters on the strictest system; ssh's digest and its suffix while it binds take 58 of them.
_SOCKET_FOLDER_CHARS: Final = 46

# Ansible's own check of a role's argument spec; it runs for each role, selected or not, and says nothing to a user.
_SPEC_TASK: Final = "Validating arguments against arg spec"


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
) -> Converged:
    """Run the named roles on the host, in their order, and tell what happens while it happens.

    A KeyboardInterrupt in the calling thread, or an exception out of `on_progress`, ends Ansible and all its processes before it
    goes on its way. A caller whose interrupts arrive in another thread sets `stop`, which raises KeyboardInterrupt here.

    Args:
        target: the host.
        profile: what the roles are told.
        roles: names out of `ROLES`, to which their groundwork is added; none at all is no work.
        lock: the exact versions.
        run_dir: for the artefacts; made with mode 0700.
        login: whose the data disk becomes; the user of the connection when None.
        on_progress: called in this thread.
        check: change nothing, tell what would change.
        diff: put what changes into `Progress.diff`.
        stop: see above.
        playbook: another playbook than the one that ships.

    Raises:
        RoleUnknownError: a role of that name does not exist.
        PlaybookFailedError: a task failed; the message names role and task.
        HostUnreachableError: the connection failed.
    """
    selected = with_groundwork(in_order(roles), lock)
    run = _Run(target, private_dir(run_dir.resolve()), on_progress, diff=diff)
    if selected:
        told = variables(profile, lock, selected) | {"storage_owner": login or _user(target)}
        flags = ["--check"] * check + ["--diff"] * diff
        _play(run, playbook or playbooks_dir() / "site.yml", told, tags=selected, flags=flags, stop=stop)
    return run.converged(selected)


def undo(
    target: Target,
    roles: Sequence[str],
    *,
    run_dir: Path,
    on_progress: Callable[[Progress], None],
    check: bool = False,
    stop: threading.Event | None = None,
) -> Converged:
    """Put back what the named roles changed on the host, the last role first.

    Args:
        target: the host.
        roles: names out of `ROLES`.
        run_dir: for the artefacts; made with mode 0700.
        on_progress: called in this thread; `Progress.diff` says what was or would be put back, a line each.
        check: change nothing.
        stop: as for `converge`.

    Raises:
        RoleUnknownError, PlaybookFailedError, HostUnreachableError: as for `converge`.
    """
    selected = in_order(roles)
    run = _Run(target, private_dir(run_dir.resolve()), on_progress, diff=True)
    told = {"undo_roles": list(selected)}
    _play(run, playbooks_dir() / "undo.yml", told, tags=(), flags=["--diff", *["--check"] * check], stop=stop)
    return run.converged(selected)


def _play(
    run: _Run, playbook: Path, told: Mapping[str, Any], *, tags: Sequence[str], flags: Sequence[str], stop: threading.Event | None
) -> None:
    """Run a playbook on the one host, and raise what went wrong."""
    _write(run.dir / "variables.json", inert.document(dict(told)))
    _write(run.dir / "inventory.json", _inventory(run.target, _user(run.target), run.dir))
    config = _config(run.dir, playbook, tags, " ".join([f"-e @{shlex.quote(str(run.dir / 'variables.json'))}", *flags]))
    try:
        exit_code = _drive(config, run, stop)
    finally:
        _renew_connection(run.target)
    run.raise_failure(exit_code, _output(config))


class _Run:
    """One run's events, counted and passed on."""

    def __init__(self, target: Target, folder: Path, on_progress: Callable[[Progress], None], *, diff: bool) -> None:
        self.dir = folder
        self._diff = diff
        self.target = target
        self._on_progress = on_progress
        self._begun = time.monotonic()
        self._ended: dict[State, list[str]] = {state: [] for state in ("ok", "changed", "skipped", "failed", "unreachable")}
        self._failure: GpuprovError | None = None
        self.interrupted = False

    def on_event(self, event: dict[str, Any]) -> bool:
        """Take one event of ansible-runner; True keeps it among the artefacts."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        task, role = str(data.get("task", "")), str(data.get("role") or "")
        if task.startswith(_SPEC_TASK) and kind != "runner_on_failed":
            return False
        if kind == "playbook_on_task_start":
            self._tell(role, task, "started")
        elif kind in _ENDS and not data.get("ignore_errors"):
            result = data.get("res") or {}
            state = "changed" if kind == "runner_on_ok" and result.get("changed") else _ENDS[kind]
            self._ended[state].append(f"{role}: {task}" if role else task)
            if state == "failed":
                self._failure = failure.failed_task(role, task, result, run_dir=str(self.dir))
            elif state == "unreachable":
                self._failure = failure.unreachable(self.target.name, task, result)
            self._tell(role, task, state, task_s=float(data.get("duration") or 0.0), diff=_diff(result) if self._diff else "")
        return True

    def _tell(self, role: str, task: str, state: State, *, task_s: float = 0.0, diff: str = "") -> None:
        elapsed_s = time.monotonic() - self._begun
        try:
            self._on_progress(Progress(role, task, self.target.name, state, elapsed_s, task_s, diff))
        except KeyboardInterrupt:
            self.interrupted = True

    def raise_failure(self, exit_code: int, output: str) -> None:
        """Raise what went wrong, if anything did."""
        if self._failure is not None:
            raise self._failure
        if exit_code != 0:
            raise failure.failed_play(exit_code, output, run_dir=str(self.dir))

    def converged(self, roles: tuple[str, ...]) -> Converged:
        """What it came to."""
        return Converged(
            roles=roles,
            ok=len(self._ended["ok"]),
            changed=len(self._ended["changed"]),
            skipped=len(self._ended["skipped"]),
            changed_tasks=tuple(self._ended["changed"]),
            elapsed_s=time.monotonic() - self._begun,
            run_dir=self.dir,
        )


def _drive(config: RunnerConfig, run: _Run, stop: threading.Event | None) -> int:
    """Run it to its end, or end it with everything it started."""
    from ansible_runner import Runner  # noqa: PLC0415 - a quarter of a second that `gpuprov --help` must not pay

    def end_when_interrupted() -> bool:
        # Not by returning True: ansible-runner would kill the process group only, and Ansible's workers are not in it.
        if run.interrupted or (stop is not None and stop.is_set()):
            run.interrupted = True
            processes.end_tree(marker)
        return False

    marker = str(run.dir / "inventory.json")
    runner = Runner(config, event_handler=run.on_event, cancel_callback=end_when_interrupted)
    finished = False
    try:
        with _interrupts_noted(run):
            runner.run()
        finished = True
    finally:
        if not finished:
            processes.end_tree(marker)
    if run.interrupted:
        raise KeyboardInterrupt
    return int(runner.rc)


@contextlib.contextmanager
def _interrupts_noted(run: _Run) -> Iterator[None]:
    """Note a Ctrl-C instead of raising it in the middle of ansible-runner, which would leave its files open and Ansible running."""
    if threading.current_thread() is not threading.main_thread():  # signals arrive in the main thread only
        yield
        return

    def note(_number: int, _frame: object) -> None:
        run.interrupted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _config(run_dir: Path, playbook: Path, tags: Sequence[str], flags: str) -> RunnerConfig:
    """Everything ansible-runner is told."""
    from ansible_runner import RunnerConfig  # noqa: PLC0415 - as above

    ours = {
        "ANSIBLE_CONFIG": str(playbooks_dir() / "ansible.cfg"),
        "ANSIBLE_HOME": str(run_dir / "ansible"),
        "ANSIBLE_ROLES_PATH": str(playbooks_dir() / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": str(playbooks_dir() / "collections"),
        # ansible-runner switches host key checking off unless this is said.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_CALLBACK_PLUGINS": "",
        "ANSIBLE_NOCOLOR": "1",
        # Ansible refuses to start under a locale that is not UTF-8.
        "LC_ALL": "C.UTF-8",
    }
    config = RunnerConfig(
        private_data_dir=str(run_dir),
        playbook=str(playbook),
        inventory=str(run_dir / "inventory.json"),
        tags=",".join(tags) or None,
        cmdline=flags,
        envvars=ours,
        quiet=True,
        fact_cache_type="memory",
    )
    config.prepare()
    config.command = [_ansible_playbook(), *config.command[1:]]
    config.env = {key: value for key, value in config.env.items() if key in _KEPT or key in ours or key.startswith(_RUNNERS_OWN)}
    config.pexpect_timeout = 0.25  # how late `stop` is seen
    return config


def _ansible_playbook() -> str:
    """The one beside this interpreter: a venv's is not on PATH unless it was activated."""
    beside = Path(sys.executable).parent / "ansible-playbook"
    found = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if found is None:
        msg = "ansible-playbook is not installed beside gpuprov"
        raise PlaybookFailedError(msg, hint=f"`{sys.executable} -m pip install ansible-core`")
    return found


def _inventory(target: Target, user: str, run_dir: Path) -> str:
    """One host, as ssh knows it; every word of it is data."""
    host: dict[str, Any] = {"ansible_become": user != "root"}
    if target.is_local:
        host["ansible_connection"] = "local"
    else:
        host |= {"ansible_connection": "ssh", "ansible_host": target.destination, **_ssh_arguments(target, run_dir)}
    return json.dumps({"all": {"hosts": {target.name: {key: inert.inert(value) for key, value in host.items()}}}}, indent=2)


def _ssh_arguments(target: Target, run_dir: Path) -> dict[str, str]:
    """The options of every other connection of ours, and a shared connection when the configuration names none."""
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3"]
    if _ssh_settings(target).get("controlmaster", "false") == "false" and len(str(run_dir)) < _SOCKET_FOLDER_CHARS:
        # Ends by itself soon after the last task.
        options += ["ControlMaster=auto", "ControlPersist=15", f"ControlPath={run_dir}/%C"]
    config = ["-F", str(target.config)] if target.config else []
    return {
        "ansible_ssh_common_args": shlex.join([*config, *[part for option in options for part in ("-o", option)]]),
        "ansible_ssh_args": "",
    }


def _ssh_settings(target: Target) -> dict[str, str]:
    """What OpenSSH makes of its configuration for this host."""
    config = ["-F", str(target.config)] if target.config else []
    done = subprocess.run(
        ["ssh", *config, "-G", "--", target.destination],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def _renew_connection(target: Target) -> None:
    """Let the next command make a connection of its own: a shared one keeps the environment and groups of its first login."""
    if target.is_local:
        return
    config = ["-F", str(target.config)] if target.config else []
    # `stop`, not `exit`: whoever works over it now is not cut off. That there is none is no failure.
    subprocess.run(["ssh", *config, "-O", "stop", "--", target.destination], check=False, capture_output=True, stdin=subprocess.DEVNULL)


def _user(target: Target) -> str:
    """Who we are on the host."""
    if target.is_local:
        return "root" if os.geteuid() == 0 else getpass.getuser()
    return _ssh_settings(target).get("user", getpass.getuser())


def _diff(result: Mapping[str, Any]) -> str:
    """What Ansible says about a change, as text; the whole files before and after stay among the artefacts."""
    diffs = result.get("diff") or []
    entries = diffs if isinstance(diffs, list) else [diffs]
    return "\n".join(str(entry["prepared"]) for entry in entries if isinstance(entry, dict) and entry.get("prepared"))


def _output(config: RunnerConfig) -> str:
    path = Path(config.artifact_dir, "stdout")
    return path.read_text(errors="replace") if path.exists() else ""


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)

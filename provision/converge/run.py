"""Run the roles on a host through ansible-runner, over the same OpenSSH configuration as everything else.

Ansible gets a small environment and a folder of its own. The user's ansible.cfg and credentials have no part in it, and the artefacts that
stay behind for reading (mode 0700) hold no credentials.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.clouds import credential_variables
from provision.converge import connection, failure, inert, processes
from provision.converge.offline import offline
from provision.converge.progress import ConvergeResult, Progress, State
from provision.converge.roles import in_order, play_of, with_groundwork
from provision.converge.variables import variables
from provision.errors import GpuprovError, PlaybookFailedError
from provision.host.ssh import Target
from provision.paths import playbooks_dir, private_dir

if TYPE_CHECKING:
    from ansible_runner import RunnerConfig

    from provision.profile.locked import Lock
    from provision.profile.model import Profile

# What Ansible and ssh need from the caller's environment, and where the programs of a ProxyCommand find credentials. Nothing else passes.
_ENVIRONMENT: Final = (
    *("DISPLAY", "HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER", "XDG_RUNTIME_DIR"),
    *credential_variables(),
)

# What ansible-runner tells its callback plugin.
_OF_THE_RUNNER: Final = ("AWX_", "RUNNER_", "ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_RETRY_FILES_ENABLED")

_END_STATES: Final[Mapping[str, State]] = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_skipped": "skipped",
    "runner_on_unreachable": "unreachable",
}

# Ansible's own check of a role's argument spec. It runs for each role, selected or not, and tells a user nothing.
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
    run = _Run(target, private_dir(run_dir.resolve()), on_progress, diff=diff)
    if selected:
        values = variables(profile, lock, selected) | {"storage_owner": login or connection.user_of(target)}
        values = offline(values, lock, carried) if carried else values
        flags = ["--check"] * check + ["--diff"] * diff
        _play(run, playbook or _play_file(run.dir, selected), values, tags=selected, flags=flags, stop=stop)
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
    run = _Run(target, private_dir(run_dir.resolve()), on_progress, diff=True)
    flags = ["--diff", *["--check"] * check]
    _play(run, playbooks_dir() / "undo.yml", {"undo_roles": list(selected)}, tags=(), flags=flags, stop=stop)
    return run.result(selected)


def _play_file(run_dir: Path, roles: Sequence[str]) -> Path:
    """A playbook of these roles among the artefacts."""
    _write(run_dir / "site.yml", play_of(roles, (playbooks_dir() / "site.yml").read_text()))
    return run_dir / "site.yml"


def _play(
    run: _Run, playbook: Path, values: Mapping[str, Any], *, tags: Sequence[str], flags: Sequence[str], stop: threading.Event | None
) -> None:
    """Run a playbook on the one host, and raise whatever went wrong."""
    _write(run.dir / "variables.json", inert.document(values))
    _write(run.dir / "inventory.json", connection.inventory(run.target, connection.user_of(run.target), run.dir))
    config = _config(run.dir, playbook, tags, " ".join([f"-e @{shlex.quote(str(run.dir / 'variables.json'))}", *flags]))
    try:
        exit_code = _drive(config, run, stop)
    finally:
        connection.renew(run.target)
    output = Path(config.artifact_dir, "stdout")
    run.raise_failure(exit_code, output.read_text(errors="replace") if output.exists() else "")


class _Run:
    """The events of one run, counted and passed on."""

    def __init__(self, target: Target, folder: Path, on_progress: Callable[[Progress], None], *, diff: bool) -> None:
        self.dir = folder
        self.target = target
        self.interrupted = False
        self._diff = diff
        self._on_progress = on_progress
        self._start = time.monotonic()
        self._tasks: dict[State, list[str]] = {state: [] for state in ("ok", "changed", "skipped", "failed", "unreachable")}
        self._failure: GpuprovError | None = None
        self._warnings: list[str] = []

    def on_event(self, event: dict[str, Any]) -> bool:
        """Take one event of ansible-runner; True keeps it among the artefacts."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        task, role = str(data.get("task", "")), str(data.get("role") or "")
        if task.startswith(_SPEC_TASK) and kind != "runner_on_failed":
            return False
        if kind == "playbook_on_task_start":
            self._report(role, task, "started")
        elif kind in _END_STATES and not data.get("ignore_errors"):
            result = data.get("res") or {}
            state = "changed" if kind == "runner_on_ok" and result.get("changed") else _END_STATES[kind]
            if role == "preflight":
                self._warnings += [str(warning) for warning in result.get("warnings") or []]
            self._tasks[state].append(f"{role}: {task}" if role else task)
            if state == "failed":
                self._failure = failure.failed_task(role, task, result, run_dir=str(self.dir))
            elif state == "unreachable":
                self._failure = failure.unreachable(self.target.name, task, result)
            self._report(role, task, state, task_s=float(data.get("duration") or 0.0), diff=_diff(result) if self._diff else "")
        return True

    def _report(self, role: str, task: str, state: State, *, task_s: float = 0.0, diff: str = "") -> None:
        try:
            self._on_progress(Progress(role, task, self.target.name, state, time.monotonic() - self._start, task_s, diff))
        except KeyboardInterrupt:
            self.interrupted = True

    def raise_failure(self, exit_code: int, output: str) -> None:
        """Raise what went wrong, if anything did."""
        if self._failure is not None:
            raise self._failure
        if exit_code != 0:
            raise failure.failed_play(exit_code, output, run_dir=str(self.dir))

    def result(self, roles: tuple[str, ...]) -> ConvergeResult:
        """The totals."""
        return ConvergeResult(
            roles=roles,
            ok=len(self._tasks["ok"]),
            changed=len(self._tasks["changed"]),
            skipped=len(self._tasks["skipped"]),
            changed_tasks=tuple(self._tasks["changed"]),
            elapsed_s=time.monotonic() - self._start,
            run_dir=self.dir,
            warnings=tuple(dict.fromkeys(self._warnings)),
        )


def _drive(config: RunnerConfig, run: _Run, stop: threading.Event | None) -> int:
    """Run ansible-runner to its end, or end it with every process that it started."""
    from ansible_runner import Runner  # noqa: PLC0415 - 0.3 s, which a host that needs no role does not pay

    def end_when_interrupted() -> bool:
        # Returning True instead would make ansible-runner kill its process group, to which Ansible's workers do not belong.
        if run.interrupted or (stop is not None and stop.is_set()):
            run.interrupted = True
            processes.end_tree(marker)
        return False

    marker = str(run.dir / "inventory.json")
    runner = Runner(config, event_handler=run.on_event, cancel_callback=end_when_interrupted)
    complete = False
    try:
        with _interrupts_noted(run):
            runner.run()
        complete = True
    finally:
        if not complete:
            processes.end_tree(marker)
    if run.interrupted:
        raise KeyboardInterrupt
    return int(runner.rc)


@contextlib.contextmanager
def _interrupts_noted(run: _Run) -> Iterator[None]:
    """Note a Ctrl-C instead of raising it inside ansible-runner, which would leave its files open and Ansible running."""
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
    """The configuration of ansible-runner for one run."""
    from ansible_runner import RunnerConfig  # noqa: PLC0415 - as above

    ours = {
        "ANSIBLE_CONFIG": str(playbooks_dir() / "ansible.cfg"),
        "ANSIBLE_HOME": str(run_dir / "ansible"),
        "ANSIBLE_ROLES_PATH": str(playbooks_dir() / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": str(playbooks_dir() / "collections"),
        # ansible-runner switches host key checking off unless this is set.
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
    config.env = {key: value for key, value in config.env.items() if key in _ENVIRONMENT or key in ours or key.startswith(_OF_THE_RUNNER)}
    config.pexpect_timeout = 0.25  # seconds until `stop` is noticed
    return config


def _ansible_playbook() -> str:
    """The program beside this interpreter: a virtual environment is not on PATH unless it was activated."""
    beside = Path(sys.executable).parent / "ansible-playbook"
    program = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if program is None:
        msg = "ansible-playbook is not installed beside gpuprov"
        raise PlaybookFailedError(msg, hint=f"`{sys.executable} -m pip install ansible-core`")
    return program


def _diff(result: Mapping[str, Any]) -> str:
    """Ansible's description of a change, as text; the whole files before and after stay among the artefacts."""
    diffs = result.get("diff") or []
    entries = diffs if isinstance(diffs, list) else [diffs]
    return "\n".join(str(entry["prepared"]) for entry in entries if isinstance(entry, dict) and entry.get("prepared"))


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)

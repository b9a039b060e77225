"""Run one playbook by ansible-runner, and end it with all of its processes where that is asked.

A host that sets itself up has this module too (`provision/converge/engine.py`), so it imports nothing but what travels with it.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.converge import processes

if TYPE_CHECKING:
    from ansible_runner import RunnerConfig

# What ansible-runner tells its callback plugin.
_OF_THE_RUNNER: Final = ("AWX_", "RUNNER_", "ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_RETRY_FILES_ENABLED")


@dataclass(frozen=True, slots=True)
class Play:
    """One run of a playbook.

    Attributes:
        folder: for the artefacts; `inventory.json` and `variables.json` lie in it.
        playbook: the file.
        playbooks: the folder of the roles, the collections and `ansible.cfg`.
        program: the words that start `ansible-playbook`.
        tags: which roles run; with none, all.
        flags: further words, such as `--check`.
        environment: which variables of the caller's environment pass; nothing else does.
    """

    folder: Path
    playbook: Path
    playbooks: Path
    program: Sequence[str]
    tags: Sequence[str] = ()
    flags: Sequence[str] = ()
    environment: Sequence[str] = ("HOME", "LOGNAME", "PATH", "USER")
    more: Mapping[str, str] = field(default_factory=dict)


def drive(play: Play, on_event: Callable[[dict[str, Any]], bool], stopped: threading.Event) -> tuple[int, str]:
    """Run a playbook to its end.

    Args:
        play: what is run.
        on_event: gets each event of ansible-runner; True keeps it among the artefacts.
        stopped: ends the run with every process that it started; a Ctrl-C in the main thread sets it.

    Returns:
        Ansible's exit code, and what it printed.

    Raises:
        KeyboardInterrupt: it was stopped.
    """
    from ansible_runner import Runner, RunnerConfig  # noqa: PLC0415 - 0.3 s, which a host that needs no role does not pay

    def end_when_stopped() -> bool:
        # Returning True instead would make ansible-runner kill its process group, to which Ansible's workers do not belong.
        if stopped.is_set():
            processes.end_tree(marker)
        return False

    marker = str(play.folder / "inventory.json")
    config = _config(play, RunnerConfig)
    runner = Runner(config, event_handler=on_event, cancel_callback=end_when_stopped)
    complete = False
    try:
        with _interrupts_noted(stopped):
            runner.run()
        complete = True
    finally:
        if not complete:
            processes.end_tree(marker)
    if stopped.is_set():
        raise KeyboardInterrupt
    output = Path(config.artifact_dir, "stdout")
    return int(runner.rc), output.read_text(errors="replace") if output.exists() else ""


@contextlib.contextmanager
def _interrupts_noted(stopped: threading.Event) -> Iterator[None]:
    """Note a Ctrl-C instead of raising it inside ansible-runner, which would leave its files open and Ansible running."""
    if threading.current_thread() is not threading.main_thread():  # signals arrive in the main thread only
        yield
        return

    def note(_number: int, _frame: object) -> None:
        stopped.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _config(play: Play, kind: type[RunnerConfig]) -> RunnerConfig:
    """The configuration of ansible-runner for one run."""
    ours = {
        "ANSIBLE_CONFIG": str(play.playbooks / "ansible.cfg"),
        "ANSIBLE_HOME": str(play.folder / "ansible"),
        "ANSIBLE_ROLES_PATH": str(play.playbooks / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": str(play.playbooks / "collections"),
        # ansible-runner switches host key checking off unless this is set.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_CALLBACK_PLUGINS": "",
        "ANSIBLE_NOCOLOR": "1",
        # Ansible refuses to start under a locale that is not UTF-8.
        "LC_ALL": "C.UTF-8",
        **play.more,
    }
    config = kind(
        private_data_dir=str(play.folder),
        playbook=str(play.playbook),
        inventory=str(play.folder / "inventory.json"),
        tags=",".join(play.tags) or None,
        # Always is the tag of the tasks that hold each role's variables against its specification, which a test has done.
        cmdline=" ".join([f"-e @{shlex.quote(str(play.folder / 'variables.json'))}", "--skip-tags always", *play.flags]),
        envvars=ours,
        quiet=True,
        fact_cache_type="memory",
    )
    config.prepare()
    config.command = [*play.program, *config.command[1:]]
    config.env = {
        key: value for key, value in config.env.items() if key in play.environment or key in ours or key.startswith(_OF_THE_RUNNER)
    }
    config.pexpect_timeout = 0.25  # seconds until `stopped` is noticed
    return config

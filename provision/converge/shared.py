"""Run the roles on several hosts by one Ansible on this machine, where the hosts cannot set themselves up.

The hosts come one by one, each when it has been observed. Those that come within a few seconds and need the same share a process, whose
start alone costs a second of CPU time and 45 MB. No host waits for another: each goes through the play at its own pace (`host_pinned`, with
a worker for each), and its run ends with its own last task.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from provision.converge.connection import renew
from provision.converge.drive import drive
from provision.converge.events import RunEvents
from provision.converge.progress import ConvergeResult
from provision.converge.run import prepared, shipped
from provision.structs import MutableStruct, Struct, field

_STILL_S: Final = 2.0
_MOST_S: Final = 10.0
_END: Final = "The end of this host's roles"
_LAST_TASK: Final = f"  post_tasks:\n    - {{name: {_END}, ansible.builtin.debug: {{msg: ''}}, tags: [preflight]}}\n"


class Work(Struct):
    """What the hosts of one Ansible have in common.

    Attributes:
        roles: with their groundwork, in their order.
        values: what they are told.
        flags: further words for Ansible.
        playbook: a playbook other than the shipped one, of one play.
    """

    roles: tuple[str, ...]
    values: Mapping[str, Any]
    flags: tuple[str, ...] = ()
    playbook: Path | None = None


class SharedRuns:
    """The hosts of one command for which Ansible runs here.

    Args:
        hosts: how many hosts the command has; once all have come, nothing is waited for.
        stop: ends every run; the hosts' own `RunEvents` have the same.
    """

    def __init__(self, hosts: int, stop: threading.Event) -> None:
        self._hosts, self._stop = hosts, stop
        self._changed = threading.Condition()
        self._gathering: list[_OneAnsible] = []
        self._come = 0

    def converge(self, run: RunEvents, work: Work) -> ConvergeResult:
        """Run the roles on the host of `run`, together with others that need the same, and return at this host's end.

        Raises:
            PlaybookFailedError: a task failed on this host, or Ansible did.
            HostUnreachableError: the connection failed.
            KeyboardInterrupt: it was stopped.
        """
        member = _Member(run)
        self._join(member, work)
        try:
            member.ended.wait()
        finally:
            renew(run.target)
        if isinstance(member.broken, KeyboardInterrupt):
            raise KeyboardInterrupt
        if member.broken is not None:
            raise member.broken
        run.raise_failure(*member.end)
        return run.result(work.roles)

    def _join(self, member: _Member, work: Work) -> None:
        name = member.run.target.name
        with self._changed:
            one = next((each for each in self._gathering if each.work == work and name not in each.members), None)
            if one is None:
                one = _OneAnsible(work, self._stop)
                self._gathering.append(one)
                threading.Thread(target=self._whole, args=(one,), name="one-ansible").start()
            one.members[name] = member
            self._come += 1
            self._changed.notify_all()

    def _whole(self, one: _OneAnsible) -> None:
        """One Ansible, from the wait for its hosts to its end."""
        self._gather(one)
        try:
            end = one.run()
        except BaseException as error:  # noqa: BLE001 - raised for each host, in the thread that waits for it
            one.end(1, "", error)
        else:
            one.end(*end)

    def _gather(self, one: _OneAnsible) -> None:
        """Return when all hosts have come, or none for `_STILL_S`, or `_MOST_S` after the first."""
        latest = time.monotonic() + _MOST_S
        with self._changed:
            grown = True  # a host has come; nothing else is told
            while grown and self._come < self._hosts and (left := latest - time.monotonic()) > 0:
                grown = self._changed.wait(min(_STILL_S, left))
            self._gathering.remove(one)


class _Member(MutableStruct):
    """One of these hosts.

    Attributes:
        ended: its roles have run, or one failed, or Ansible ended.
        end: Ansible's exit code and output where that ended before the host did.
        broken: why Ansible did not run to its end.
    """

    run: RunEvents
    ended: threading.Event = field(default_factory=threading.Event)
    end: tuple[int, str] = (0, "")
    broken: BaseException | None = None


class _OneAnsible(MutableStruct):
    work: Work
    stop: threading.Event
    members: dict[str, _Member] = field(default_factory=dict)

    def run(self) -> tuple[int, str]:
        """Ansible's exit code and output."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        runs = [member.run for member in self.members.values()]
        folder = runs[0].dir
        for run in runs[1:]:
            with contextlib.suppress(OSError):  # what Ansible writes is about all of them
                run.dir.rmdir()
            run.dir = folder
        playbook = shipped(folder, self.work.roles, self.work.playbook, more=_LAST_TASK)
        play = prepared(
            folder,
            [run.target for run in runs],
            playbook,
            self.work.values,
            tags=self.work.roles,
            flags=(*self.work.flags, "--forks", str(len(runs))),
            more={"ANSIBLE_STRATEGY": "host_pinned"},
        )
        return drive(play, self.take, self.stop)

    def take(self, event: Mapping[str, Any]) -> bool:
        """Give one event of ansible-runner to the host that it is about."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        member = self.members.get(str(data.get("host", "")))
        if member is None:
            return True
        if data.get("task") == _END:
            if kind != "runner_on_start":
                member.ended.set()
            return False
        # Without a barrier, the start of a task is told once for each host, and only this event says which.
        kept = member.run.take({"event": "playbook_on_task_start", "event_data": data} if kind == "runner_on_start" else event)
        if member.run.failed:
            member.ended.set()
        return kept

    def end(self, code: int, output: str, broken: BaseException | None = None) -> None:
        """Ansible has ended: a host that did not come to its end has none of its own."""
        for member in self.members.values():
            if not member.ended.is_set():
                member.end, member.broken = (code or 1, output), broken
                member.ended.set()

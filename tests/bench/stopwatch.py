"""How long a command takes until the embedded cloud has accepted what it asks for, by the cloud's own call log; or until it ends."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from provision.rehearsal import control

LOOK_S = 0.1  # between two looks at the call log; the figures are the log's own, so that looking seldom costs no precision
LONGEST_S = 240.0


@dataclass(frozen=True)
class Command:
    """What is timed.

    Attributes:
        argv, environment, folder: as a process is started.
        log: receives what it prints.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path


@dataclass(frozen=True)
class Took:
    """One run.

    Attributes:
        seconds: from the start of the process.
        calls: API calls that had begun before the one that made the machine; all calls, where the end of the process was waited for.
        cloud_s: the part of the seconds in which the emulator was at work on these calls, those at the same time counted once.
        call_s: the accepted call alone.
        asked: the actions of the calls, in order.
        code: the exit code; None for a process that was not waited for.
        cpu_s: CPU of the process and of those that it waited for. One that is killed had up to `LOOK_S` more than its seconds.
        began: when it was started, by the clock.
    """

    seconds: float
    calls: int
    cloud_s: float
    call_s: float
    asked: tuple[str, ...]
    code: int | None = None
    cpu_s: float = 0.0
    began: float = 0.0


class NotAcceptedError(RuntimeError):
    """The command ended, or took too long, before anything was accepted."""


def accepted(rehearsal: control.Rehearsal, command: Command, action: str) -> Took:
    """Run a command until the cloud has answered a call whose name matches, then kill it.

    Raises:
        NotAcceptedError: with the end of what it printed.
    """
    return _with_cpu(lambda: _accepted(rehearsal, command, action))


def _with_cpu(run: Callable[[], Took]) -> Took:
    """A run, with the CPU of the processes that ended in it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return replace(took, cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _accepted(rehearsal: control.Rehearsal, command: Command, action: str) -> Took:
    control.ask(rehearsal, "calls", method="DELETE")
    started, process = time.time(), _begin(command)
    try:
        while True:
            ended = process.poll() is not None  # looked at first: what it did before it ended is in the log by then
            calls = _calls(rehearsal)
            done = next((call for call in calls if re.fullmatch(action, call["action"]) and "seconds" in call), None)
            if done is not None:
                until = done["time"] + done["seconds"]
                before = [call for call in calls if call["time"] < done["time"]]
                asked = tuple(call["action"] for call in [*before, done])
                cloud_s = _busy([*before, done], until)
                return Took(until - started, len(before), cloud_s, done["seconds"], asked, began=started)
            if ended or time.time() - started > LONGEST_S:
                said = command.log.read_text(errors="replace").strip().splitlines()
                raise NotAcceptedError(" / ".join(said[-6:])[-600:] or f"ended with {process.returncode} and said nothing")
            time.sleep(LOOK_S)
    finally:
        _end(process)


def to_the_end(rehearsal: control.Rehearsal, command: Command) -> Took:
    """Run a command until it ends."""
    return _with_cpu(lambda: _to_the_end(rehearsal, command))


def _to_the_end(rehearsal: control.Rehearsal, command: Command) -> Took:
    control.ask(rehearsal, "calls", method="DELETE")
    started, process = time.time(), _begin(command)
    try:
        code = process.wait(LONGEST_S)
        until = time.time()
        calls = _calls(rehearsal)
        asked = tuple(call["action"] for call in calls)
        return Took(until - started, len(calls), _busy(calls, until), 0.0, asked, code, began=started)
    finally:
        _end(process)


def _calls(rehearsal: control.Rehearsal) -> list[dict[str, Any]]:
    """The log in the order in which the calls began."""
    return sorted(control.ask(rehearsal, "calls"), key=lambda call: float(call["time"]))


def _begin(command: Command) -> subprocess.Popen[bytes]:
    with command.log.open("wb") as log:
        return subprocess.Popen(
            command.argv,
            env=dict(command.environment),
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started in its own session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _busy(calls: Sequence[dict[str, Any]], until: float) -> float:
    """The length of the union of the calls' times."""
    total, reached = 0.0, 0.0
    for call in calls:
        begin, end = call["time"], min(until, call["time"] + call.get("seconds", 0.0))
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total

"""`idle`: wait until a launch is idle, warn, and stop or remove all of it. The deadline stays, whatever becomes of this process."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from provision.errors import EXIT_OK, UsageError
from provision.watch.state import Watched, WatchedHost
from provision.workflow import down, power
from provision.workflow.monitor import MonitorRequest, hosts_of, run
from provision.workflow.session import Say, Session

_HOOK_S: Final = 300.0
_MORE_SAMPLES: Final = 4  # how many intervals later than the warning says the last samples may come


class IdleAction(StrEnum):
    """What is done to a launch that is idle."""

    STOP = "stop"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class IdleRequest:
    """What is waited for, and what is done then.

    Attributes:
        name: of a launch. All its machines are watched, and all are stopped or removed.
        idle_s: for how long nothing must have happened on any of them; the warning is part of it.
        warn_s: how long before the action the warning comes.
        watch_s: for how long to watch at most; None for ever.
        hook: a program and its arguments, run with the warning. Unless it ends with 0 nothing is done, and the wait begins again.
        at_full_price: whether to stop also where a machine that is off costs as much as one that runs.
    """

    name: str
    idle_s: float
    warn_s: float
    interval_s: float
    action: IdleAction
    watch_s: float | None = None
    hook: tuple[str, ...] = ()
    at_full_price: bool = False


def wait_until_idle(session: Session, request: IdleRequest, *, say: Say) -> bool:
    """Return True once the launch has been idle for so long and nobody objected, and False where that did not come in time.

    Raises:
        UsageError: the warning is longer than the wait.
        InstanceNotFoundError: no launch of that name is known here.
    """
    if request.warn_s >= request.idle_s:
        msg = f"a warning {request.warn_s:g} s before comes after nothing when {request.idle_s:g} s are idle time enough"
        raise UsageError(msg, hint="make --warn shorter than --idle-for")
    hosts = hosts_of(session, session.record(request.name).hosts, profile="")
    ends = time.monotonic() + request.watch_s if request.watch_s is not None else None
    while True:
        say(f"watching {request.name}: idle for {request.idle_s:g} s ends it")
        if not _idle(hosts, request, request.idle_s - request.warn_s, ends):
            return False
        say(f"{request.name} is idle: `{request.action}` follows in {request.warn_s:g} s, unless something runs")
        if request.hook and (code := _call(request)) != EXIT_OK:
            say(f"the hook ended with {code}: nothing is done now")
        elif not request.warn_s or _idle(hosts, request, request.warn_s, time.monotonic() + request.warn_s + _later(request)):
            return True
        else:
            say(f"{request.name} is busy again, or was not heard")


def act(session: Session, request: IdleRequest, *, say: Say) -> list[str]:
    """Stop or remove the launch; returns what was done, a phrase each."""
    rehearsal = session.record(request.name).rehearsal
    if request.action is IdleAction.DOWN:
        return down.remove(session, request.name, rehearsal=rehearsal, say=say, confirm=lambda _: True)
    stopped = power.stop(session, request.name, rehearsal=rehearsal, say=say, at_full_price=request.at_full_price)
    return [f"stopped {instance.name} ({instance.id})" for instance in stopped]


def _later(request: IdleRequest) -> float:
    return _MORE_SAMPLES * request.interval_s


def _idle(hosts: tuple[WatchedHost, ...], request: IdleRequest, idle_s: float, ends: float | None) -> bool:
    """Whether all hosts were idle for so long, by samples that came before the end. What is missing counts as busy."""
    for_s = max(0.0, ends - time.monotonic()) if ends is not None else None
    asked = MonitorRequest(hosts, request.interval_s, for_s=for_s, idle_s=idle_s)
    never: Callable[[], bool] = lambda: False  # noqa: E731 - a Ctrl-C ends it
    return run(asked, Watched(hosts, request.interval_s), (), never).exit_code == EXIT_OK


def _call(request: IdleRequest) -> int:
    """The exit code of the hook, which is told what follows, and when.

    Raises:
        UsageError: it does not run.
    """
    told = {"GPUPROV_IDLE_NAME": request.name, "GPUPROV_IDLE_ACTION": str(request.action), "GPUPROV_IDLE_IN_S": f"{request.warn_s:g}"}
    try:
        done = subprocess.run(request.hook, env={**os.environ, **told}, stdin=subprocess.DEVNULL, timeout=_HOOK_S, check=False)
    except subprocess.TimeoutExpired:
        return 124  # as timeout(1) says
    except OSError as error:
        msg = f"the hook {request.hook[0]} does not run: {error.strerror or error}"
        raise UsageError(msg, hint="give --hook a program that exists, with its arguments in one word: --hook 'notify.sh train'") from error
    return done.returncode

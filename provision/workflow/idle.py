"""`idle`: wait until a launch is idle, warn, and stop or remove all of it. The deadline stays, whatever becomes of this process."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from provision.errors import EXIT_OK, UsageError
from provision.structs import Struct
from provision.watch.idle import Occupation
from provision.watch.state import Watched, WatchedHost
from provision.workflow import down, power
from provision.workflow.monitor import MonitorRequest, hosts_of, run
from provision.workflow.session import Say, Session

_HOOK_S: Final = 300.0
_MORE_SAMPLES: Final = 4  # how many intervals later than the warning says the last samples may come


class IdleAction(StrEnum):
    """What is done to a launch or a fleet that is idle."""

    STOP = "stop"
    DOWN = "down"
    SHRINK = "shrink"
    """End the members of a fleet that are idle, and let it have so many fewer."""


class IdleRequest(Struct):
    """What is waited for, and what is done then.

    Attributes:
        name: of a launch, all of whose machines are watched, and all stopped or removed; or of a fleet.
        idle_s: for how long nothing must have happened on any of them; the warning is part of it.
        warn_s: how long before the action the warning comes.
        watch_s: for how long to watch at most; None for ever.
        hook: a program and its arguments, run with the warning. Unless it ends with 0 nothing is done, and the wait begins again.
        at_full_price: whether to stop also where a machine that is off costs as much as one that runs.
        keep: how many members a fleet has at least after it was made smaller.
    """

    name: str
    idle_s: float
    warn_s: float
    interval_s: float
    action: IdleAction
    watch_s: float | None = None
    hook: tuple[str, ...] = ()
    at_full_price: bool = False
    keep: int = 0

    def check_times(self) -> None:
        """Raises UsageError where the warning is longer than the wait."""
        if self.warn_s >= self.idle_s:
            msg = f"--warn ({self.warn_s:g} s) must be shorter than --idle-for ({self.idle_s:g} s)"
            raise UsageError(msg, hint="lower --warn, or raise --idle-for")


def wait_until_idle(session: Session, request: IdleRequest, *, say: Say) -> bool:
    """Return True once the launch has been idle for so long and nobody objected, and False where that did not come in time.

    Raises:
        UsageError: the warning is longer than the wait, or what follows is for fleets.
        InstanceNotFoundError: no launch of that name is known here.
    """
    request.check_times()
    if request.action is IdleAction.SHRINK or request.keep:
        session.record(request.name)
        msg = f"{request.name} is a launch, and a launch has no size that could be made smaller"
        raise UsageError(msg, hint="`--then stop` or `--then down`, without --keep")
    hosts = hosts_of(session, session.record(request.name).hosts, profile="")
    ends = time.monotonic() + request.watch_s if request.watch_s is not None else None
    while True:
        say(f"watching {request.name}: idle for {request.idle_s:g} s ends it")
        if not _all_idle(hosts, request, request.idle_s - request.warn_s, ends):
            return False
        say(f"{request.name} is idle: `{request.action}` follows in {request.warn_s:g} s, unless something runs")
        if request.hook and (code := hook_code(request)) != EXIT_OK:
            say(f"the hook ended with {code}: nothing is done now")
        elif not request.warn_s or _all_idle(hosts, request, request.warn_s, end_of_warning(request)):
            return True
        else:
            say(f"{request.name} is busy again, or was not heard")


def act(session: Session, request: IdleRequest, *, say: Say) -> list[str]:
    """Stop or remove the launch, after whoever began to watch agreed to what is lost; returns what was done, a phrase each."""
    rehearsal = session.record(request.name).rehearsal
    if request.action is IdleAction.DOWN:
        return down.remove(session, request.name, rehearsal=rehearsal, say=say, confirm=lambda _: True)
    full = request.at_full_price
    stopped = power.stop(session, request.name, rehearsal=rehearsal, say=say, confirm=lambda _: True, at_full_price=full)
    return [f"stopped {instance.name} ({instance.id})" for instance in stopped]


def end_of_warning(request: IdleRequest) -> float:
    """When the last samples after a warning that is given now may come, by the monotonic clock."""
    return time.monotonic() + request.warn_s + _MORE_SAMPLES * request.interval_s


def _all_idle(hosts: tuple[WatchedHost, ...], request: IdleRequest, idle_s: float, ends: float | None) -> bool:
    return len(idle_hosts(hosts, request, idle_s, ends)) == len(hosts)


def idle_hosts(
    hosts: tuple[WatchedHost, ...], request: IdleRequest, idle_s: float, ends: float | None, *, some: bool = False
) -> frozenset[str]:
    """The names of the hosts that were idle for so long, by samples that came before the end. What is missing counts as busy.

    It returns at the end, or as soon as all of them were, or with `some` as soon as one was.
    """
    for_s = max(0.0, ends - time.monotonic()) if ends is not None else None
    asked = MonitorRequest(hosts, request.interval_s, for_s=for_s, idle_s=idle_s, some=some)
    never: Callable[[], bool] = lambda: False  # noqa: E731 - a Ctrl-C ends it
    verdicts = run(asked, Watched(hosts, request.interval_s), (), never).idle
    return frozenset(name for name, verdict in verdicts.items() if verdict.occupation is Occupation.IDLE)


def hook_code(request: IdleRequest, members: Sequence[str] = ()) -> int:
    """The exit code of the hook, which is told what follows, and when; of a fleet also to which members.

    Raises:
        UsageError: it does not run.
    """
    told = {"GPUPROV_IDLE_NAME": request.name, "GPUPROV_IDLE_ACTION": str(request.action), "GPUPROV_IDLE_IN_S": f"{request.warn_s:g}"}
    told |= {"GPUPROV_IDLE_MEMBERS": " ".join(members)} if members else {}
    try:
        done = subprocess.run(request.hook, env={**os.environ, **told}, stdin=subprocess.DEVNULL, timeout=_HOOK_S, check=False)
    except subprocess.TimeoutExpired:
        return 124  # as timeout(1) says
    except OSError as error:
        msg = f"the hook {request.hook[0]} does not run: {error.strerror or error}"
        raise UsageError(msg, hint="give --hook a program that exists, with its arguments in one word: --hook 'notify.sh train'") from error
    return done.returncode

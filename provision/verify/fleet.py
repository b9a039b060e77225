"""Observe and judge hosts at once, bounded. A host that cannot be reached is apart from one that fails: nothing is known of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tenacity

from provision.errors import EXIT_OK, GpuprovError
from provision.host.ssh import Target
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.verify.ahead import Ahead
from provision.verify.facts import Facts
from provision.verify.finding import Finding, Report
from provision.verify.judge import Selection, judge
from provision.verify.observe import observe

__all__ = ["REACHABLE", "Asked", "Verified", "verify_all"]

REACHABLE = "reachable"
_AGAIN_S = 5  # between two looks at a host that does not hold yet


@dataclass(frozen=True, slots=True)
class Asked:
    """One host, and what should hold on it.

    Attributes:
        profile: with every open choice closed by the lock, where there is one.
        lock: what it was locked to; None where nobody locked it.
    """

    target: Target
    profile: Profile
    lock: Lock | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """One host's verdict, and what it was judged from; no facts where the host could not be observed."""

    asked: Asked
    report: Report
    facts: Facts | None


async def verify_all(
    asked: Sequence[Asked],
    *,
    selection: Selection,
    without_gpu: bool = False,
    timeout_s: float = 60,
    jobs: int = 32,
    wait_s: float = 0,
    strict: bool = False,
    ahead: Ahead | None = None,
    say: Callable[[str, Report | None], None] = lambda _host, _report: None,
) -> list[Verified]:
    """Prove on running hosts that their profiles hold.

    Args:
        asked: the hosts; the answer has their order.
        selection: which checks.
        without_gpu: excuse the checks that need a GPU.
        timeout_s: for one observation of one host.
        jobs: how many hosts are observed at once.
        wait_s: how long to look again at a host that does not hold yet.
        strict: whether a host with a warning does not hold yet.
        ahead: observations that were begun already.
        say: told of each host when its observation begins (None) and when it was judged.

    Raises:
        GpuprovError: the only host could not be observed; of several, such a host has a report that says why.
    """
    slots = asyncio.Semaphore(jobs)

    async def once(one: Asked) -> Verified:
        async with slots:
            say(one.target.name, None)
            tier = selection.tier_of(one.profile)
            begun = ahead.take(one.target, tier) if ahead else None
            started = ahead.began if ahead and begun else time.monotonic()
            try:
                facts = await (asyncio.wrap_future(begun) if begun else observe(one.target, timeout_s=timeout_s, tier=tier))
            except GpuprovError as error:
                if len(asked) == 1 and not wait_s:
                    raise
                return Verified(one, unreachable(one, error), None)
            elapsed_s = round(time.monotonic() - started, 3)
            report = judge(facts, one.profile, host=one.target.name, selection=selection, without_gpu=without_gpu, elapsed_s=elapsed_s)
            return Verified(one, report, facts)

    async def until_it_holds(one: Asked) -> Verified:
        again = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda found: found.report.exit_code(strict=strict) != EXIT_OK),
            wait=tenacity.wait_fixed(_AGAIN_S),
            stop=tenacity.stop_after_delay(max(0.0, wait_s - _AGAIN_S)) if wait_s else tenacity.stop_after_attempt(1),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        found: Verified = await again(once, one)
        say(one.target.name, found.report)
        return found

    return list(await asyncio.gather(*(until_it_holds(one) for one in asked)))


def unreachable(one: Asked, error: GpuprovError) -> Report:
    """The report of a host that could not be observed: one finding, unknown."""
    finding = Finding(
        check=REACHABLE,
        title="the host can be observed",
        outcome="unknown",
        expected="facts from the host",
        observed=f"{error.code}: {error.message}",
        hint=error.hint,
    )
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Report(one.target.name, one.profile.name, (finding,), notes=("unreachable: no check was made",), observed_at=now)

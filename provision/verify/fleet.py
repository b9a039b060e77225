"""Observe and judge several hosts side by side. A host that cannot be reached is not a failure: its outcome is unknown."""

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from provision.errors import EXIT_OK, GpuprovError
from provision.host.ssh import Target
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.structs import Struct
from provision.verify.ahead import EarlyObservations
from provision.verify.bench.record import measured
from provision.verify.facts import Facts
from provision.verify.finding import Finding, Report
from provision.verify.judge import Selection, judge
from provision.verify.observe import Asked, observe
from provision.verify.record import FleetFigures, judged_by

REACHABLE = "reachable"
_LOOK_AGAIN_S = 5  # between two observations of a host that does not hold yet


class Expectation(Struct):
    """One host, and what should hold on it."""

    target: Target
    profile: Profile  # with every open choice closed by the lock, where there is one
    lock: Lock | None = None


class HostVerification(Struct):
    """One host's verdict, and the facts it was judged from; None where the host could not be observed."""

    expectation: Expectation
    report: Report
    facts: Facts | None


async def verify_all(
    expectations: Sequence[Expectation],
    *,
    selection: Selection,
    without_gpu: bool = False,
    timeout_s: float = 60,
    jobs: int = 32,
    wait_s: float = 0,
    strict: bool = False,
    ahead: EarlyObservations | None = None,
    record: FleetFigures | None = None,
    measurements: Path | None = None,
    say: Callable[[str, Report | None], None] = lambda _host, _report: None,
) -> list[HostVerification]:
    """Prove on running hosts that their profiles hold; the result has the order of the expectations.

    One observation takes at most `timeout_s`, and `jobs` hosts are observed at the same time. A host that does not hold yet (with
    `strict`: or has a warning) is observed again for `wait_s`. `record` has figures of the fleet to judge by, and `measurements` is the
    folder of what `gpuprov bench` measured. `say` is called with each host's name when its observation begins (None) and when it was judged
    (the report). GpuprovError where the only host could not be observed; of several, its report says why.
    """
    slots = asyncio.Semaphore(jobs)

    async def once(expectation: Expectation) -> HostVerification:
        target, profile = expectation.target, expectation.profile
        async with slots:
            say(target.name, None)
            asked = Asked.of(profile, selection.tier_of(profile))
            early = ahead.take(target, asked) if ahead else None
            started_at = ahead.started_at if ahead and early else time.monotonic()
            try:
                facts = await (asyncio.wrap_future(early) if early else observe(target, timeout_s=timeout_s, asked=asked))
            except GpuprovError as error:
                if len(expectations) == 1 and not wait_s:
                    raise
                return HostVerification(expectation, _unreachable(expectation, error), None)
            facts = measured(judged_by(facts, record, profile.gpu.model), measurements if profile.verify.bench else None)
            elapsed_s = round(time.monotonic() - started_at, 3)
            report = judge(facts, profile, host=target.name, selection=selection, without_gpu=without_gpu, elapsed_s=elapsed_s)
            return HostVerification(expectation, report, facts)

    def again_and_again() -> Callable[[Expectation], Awaitable[HostVerification]]:
        import tenacity  # noqa: PLC0415 - of use with --wait alone

        return tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda verification: verification.report.exit_code(strict=strict) != EXIT_OK),
            wait=tenacity.wait_fixed(_LOOK_AGAIN_S),
            stop=tenacity.stop_after_delay(max(0.0, wait_s - _LOOK_AGAIN_S)),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        ).wraps(once)

    async def until_it_holds(expectation: Expectation) -> HostVerification:
        verification: HostVerification = await (again_and_again() if wait_s else once)(expectation)
        say(expectation.target.name, verification.report)
        return verification

    return list(await asyncio.gather(*map(until_it_holds, expectations)))


async def verify(
    target: Target, profile: Profile, *, without_gpu: bool = False, timeout_s: float = 60, measurements: Path | None = None
) -> Report:
    """Prove on one running host that a profile holds; GpuprovError where it could not be observed at all. See `verify_all`."""
    expectation = Expectation(target, profile)
    work = verify_all([expectation], selection=Selection(), without_gpu=without_gpu, timeout_s=timeout_s, measurements=measurements)
    [verification] = await work
    return verification.report


def _unreachable(expectation: Expectation, error: GpuprovError) -> Report:
    """The report of a host that could not be observed: one finding, unknown."""
    observed = f"{error.code}: {error.message}"
    finding = Finding(REACHABLE, "the host can be observed", "unknown", "facts from the host", observed, error.hint)
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    notes = ("unreachable: no check was made",)
    return Report(expectation.target.name, expectation.profile.name, (finding,), notes=notes, observed_at=now)

"""`verify`: what holds on hosts or in facts files, what a reboot lost, and what moved since earlier evidence."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN, UsageError
from provision.host.ssh import Target
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.review.where import Organisation
from provision.structs import Struct
from provision.verify import drift, evidence, record
from provision.verify.ahead import EarlyObservations
from provision.verify.bench.record import measured
from provision.verify.compare import losses
from provision.verify.facts import NotObservedError, load
from provision.verify.facts.gpu import NvmlFacts
from provision.verify.finding import Report, exit_code
from provision.verify.fleet import Expectation, HostVerification, verify_all
from provision.verify.judge import Selection, judge
from provision.verify.kept import KeptVerdicts
from provision.verify.record import FleetFigures, judged_by
from provision.workflow.hosts import HostNames, subjects_of, targets
from provision.workflow.session import Session, today

if TYPE_CHECKING:
    from provision.review.approval import Agreement
    from provision.verify.together.judge import GroupHost
    from provision.verify.together.measure import ListeningHost
    from provision.verify.together.sums import SumAnswer

_MOST_TOGETHER: Final = 64  # each asks each: 4,032 pairs

_TOGETHER_S: Final = 60.0
_SUMS_S: Final = 300.0
_GROUP: Final = "the hosts together"

Watch = Callable[[list[str]], Callable[[str, Report | None], None]]


class VerifyRequest(Struct):
    """What is verified, and how; see `verify.fleet.verify_all`.

    Attributes:
        hosts: the hosts; not looked at where there are files.
        files: facts that were gathered before.
        profile: the name or file of what should hold; None for each host's own, or the bundle's.
        selection: which checks.
        strict: whether a warning is a failure.
        jobs: how many hosts are observed at once.
        wait_s: how long to look again at a host that does not hold yet.
        before_reboot: facts of the one host from before its reboot.
        against: earlier evidence to compare with.
        record: the fleet's own figures, to judge by.
        together: also judge what the hosts are to each other.
    """

    hosts: HostNames
    files: Sequence[Path]
    profile: str | None
    selection: Selection
    without_gpu: bool
    strict: bool
    timeout_s: float
    jobs: int
    wait_s: float
    before_reboot: Path | None = None
    against: Path | None = None
    record: Path | None = None
    together: bool = False


class VerifyResult(Struct):
    """What came of a `verify`.

    Attributes:
        hosts: the verdicts, in the order of the request.
        reboot: what the reboot lost, a line each; empty where that is not the question.
        drift: what moved since the evidence; None where that is not the question.
        how: which checks were made.
        agreed: the bundle that they were made for; None without one.
        record: the fleet's figures with those of these hosts; None where nobody keeps them.
        left_out: the hosts that add nothing to the record.
        together: the verdict on the group; None where that is not the question.
        exit_code: a failure outweighs what is unknown, here as everywhere.
    """

    hosts: list[HostVerification]
    reboot: list[str]
    drift: list[drift.Drift] | None
    how: evidence.Conditions
    agreed: Agreement | None
    exit_code: int
    record: FleetFigures | None = None
    left_out: tuple[str, ...] = ()
    together: Report | None = None

    @property
    def reports(self) -> list[Report]:
        """The verdict on each host, and then on the group."""
        return [*(host.report for host in self.hosts), *([self.together] if self.together else [])]

    def evidence(self) -> dict[str, Any]:
        """The verdicts with everything that they follow from, bound by digests."""
        return evidence.evidence(self.hosts, self.how, self.agreed.reviewed if self.agreed else None)


def agreement(bundle: Path, organisation: Organisation) -> Agreement:
    """What a review bundle asks to hold, and who signed it; as `review.approval.agreement`."""
    from provision.review import approval  # noqa: PLC0415 - 0.1 s that a verify without a bundle does not need (tests/bench/verify.py)

    return approval.agreement(bundle, organisation, dt.datetime.now(dt.UTC))


def verify(session: Session, request: VerifyRequest, agreed: Agreement | None, *, watch: Watch, ahead: EarlyObservations) -> VerifyResult:
    """Judge hosts or files, and compare the verdict with what was before.

    `agreed` is the bundle whose profile and lock should hold everywhere. `watch` takes the hosts' names, and returns the callback for their
    progress. `ahead` has connections that are open already.
    """
    signed = (agreed.bundle.profile, agreed.bundle.lock) if agreed else None
    how = _how(request)
    earlier = evidence.read(request.against) if request.against else None
    if earlier:
        drift.require_comparable(earlier, how, agreed.bundle.digest if agreed else None)
    known = record.read(request.record) if request.record else None
    if request.files:
        hosts = judge_files(session, request, signed, known)
    else:
        hosts = judge_hosts(session, request, signed, known, watch=watch, ahead=ahead)
        keep(session, hosts, how)
    reboot, reboot_code = compare_reboot(hosts, request) if request.before_reboot else ([], EXIT_OK)
    moves = drift.drifts(earlier, hosts) if earlier else None
    group = None
    if request.together:
        seen = watch([_GROUP])
        group = judge_together(hosts, request.selection, request.timeout_s, python=lambda host: f"{session.environments(host)[0]}/python")
        seen(_GROUP, group)
    codes = {exit_code([host.report for host in hosts], strict=request.strict), reboot_code}
    codes |= {group.exit_code(strict=request.strict)} if group else set()
    codes |= {EXIT_FAILED_CHECK} if drift.any_broke(moves or ()) else set()
    measured = [(host.report, host.facts, host.expectation.profile.gpu.model) for host in hosts if host.facts is not None]
    code = EXIT_FAILED_CHECK if EXIT_FAILED_CHECK in codes else max(codes)
    kept, left_out = record.updated(known, measured) if known else (None, ())
    return VerifyResult(hosts, reboot, moves, how, agreed, code, kept, left_out, group)


def _how(request: VerifyRequest) -> evidence.Conditions:
    """The choice of checks as evidence states it, for today."""
    return evidence.Conditions(
        only=tuple(sorted(request.selection.only)),
        skip=tuple(sorted(request.selection.skip)),
        tier=request.selection.tier,
        without_gpu=request.without_gpu,
        strict=request.strict,
        on=today().isoformat(),
    )


def judge_files(
    session: Session, request: VerifyRequest, signed: tuple[Profile, Lock] | None, known: FleetFigures | None
) -> list[HostVerification]:
    """Facts files against one profile and its lock. A single file is called `facts`, several go by as much of their paths as differs."""
    profile, lock = signed or (session.profile_for(None, request.profile), None)
    if signed is None:
        lock = session.lock_for(None, request.profile, profile)
    profile = pin(profile, lock) if lock is not None else profile
    verdicts = []
    for name, path in zip(_names(request.files), request.files, strict=True):
        facts = judged_by(load(path), known, profile.gpu.model)
        facts = measured(facts, session.measurements if profile.verify.bench else None)
        report = judge(facts, profile, host=name, selection=request.selection, without_gpu=request.without_gpu)
        verdicts.append(HostVerification(Expectation(Target(name, ""), profile, lock), report, facts))
    return verdicts


def _names(files: Sequence[Path]) -> list[str]:
    """What the hosts of facts files are called: two of one name would hide each other in evidence."""
    if len(files) == 1:
        return ["facts"]
    parts = [(*path.absolute().parent.parts[1:], path.stem) for path in files]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    msg = "a facts file is given twice"
    raise UsageError(msg, hint="name each --facts once, and files of one folder by more than their ending")


def judge_hosts(
    session: Session,
    request: VerifyRequest,
    signed: tuple[Profile, Lock] | None,
    known: FleetFigures | None,
    *,
    watch: Watch,
    ahead: EarlyObservations,
) -> list[HostVerification]:
    """Running hosts against the profiles that should hold on them."""
    hosts = targets(session, request.hosts)
    work = verify_all(
        subjects_of(session, hosts, request.profile, signed),
        selection=request.selection,
        without_gpu=request.without_gpu,
        timeout_s=request.timeout_s,
        jobs=request.jobs,
        wait_s=request.wait_s,
        strict=request.strict,
        ahead=ahead,
        record=known,
        measurements=session.measurements,
        say=watch([host.name for host in hosts]),
    )
    return asyncio.run(work)


def keep(session: Session, hosts: Sequence[HostVerification], how: evidence.Conditions) -> None:
    """Keep the verdict on each machine that was launched from here."""
    kept = KeptVerdicts(session.verdicts)
    for host in hosts:
        name = host.expectation.target.name
        record = session.journal.of(name) if session.ssh.knows(name) else None
        machine = record.machine(name) if record else None
        if record and machine:
            kept.keep(record, machine, host, how)


def judge_together(hosts: Sequence[HostVerification], selection: Selection, timeout_s: float, *, python: Callable[[str], str]) -> Report:
    """What the hosts are to each other, measured from each to each; at the tier `perf` with the sums over their GPUs.

    `python` says of a host, by its name, which python has PyTorch there.

    Raises:
        UsageError: there are fewer than two hosts, or too many for pairs.
    """
    from provision.verify.together import judge, measure  # noqa: PLC0415 - 8 ms, and of use with --together alone

    if not 1 < len(hosts) <= _MOST_TOGETHER:
        msg = f"--together is about 2 to {_MOST_TOGETHER} hosts, and there {'is' if len(hosts) == 1 else 'are'} {len(hosts)}"
        raise UsageError(msg, hint="`gpuprov verify HOST HOST… --together`")
    group = [judge.GroupHost(host.report.host, lock.digest if (lock := host.expectation.lock) else None, host.facts) for host in hosts]
    members, answers = [], dict[str, measure.HostAnswer | str]()
    for host, verification in zip(group, hosts, strict=True):
        try:
            machine = host.machine()
        except NotObservedError as reason:
            answers[host.name] = str(reason)
            continue
        if machine.address is None or machine.mtu is None:
            answers[host.name] = "its own address or its MTU was not observed"
        else:
            members.append(measure.ListeningHost(verification.expectation.target, machine.hostname, machine.address, machine.mtu))
    answers |= asyncio.run(measure.measure(members, timeout_s=min(timeout_s, _TOGETHER_S)))
    perf = all(selection.tier_of(host.expectation.profile) == "perf" for host in hosts)
    sums = _sums(group, members, python) if perf else None
    return judge.judge_group(group, answers, sums, observed_at=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def _sums(group: Sequence[GroupHost], members: Sequence[ListeningHost], python: Callable[[str], str]) -> dict[str, SumAnswer | str]:
    """The sums over the GPUs of all hosts; empty where a host is missing or one has no GPU."""
    from provision.verify.together.sums import SummingHost, sum_up  # noqa: PLC0415 - as above

    counts = [_gpus(host) for host in group]
    if len(members) < len(group) or not all(counts):
        return {}
    summing = [
        SummingHost(member.target, member.address, python(host.name), count)
        for host, member, count in zip(group, members, counts, strict=True)
    ]
    return asyncio.run(sum_up(summing, timeout_s=_SUMS_S))


def _gpus(host: GroupHost) -> int:
    """How many GPUs a host has; 0 where that was not observed."""
    try:
        return len(host.facts.read(NvmlFacts).devices) if host.facts else 0
    except NotObservedError:
        return 0


def compare_reboot(hosts: Sequence[HostVerification], request: VerifyRequest) -> tuple[list[str], int]:
    """What the reboot of the one host lost, a line each, and the exit code that follows from this alone.

    Raises:
        UsageError: there is not exactly one host with facts.
        FactsInvalidError: the facts from before cannot be read.
    """
    if request.before_reboot is None or len(hosts) != 1 or hosts[0].facts is None:
        msg = "--after-reboot compares one host with its own facts from before"
        raise UsageError(msg, hint="name one HOST, or one --facts FILE")
    host, new, old = hosts[0], hosts[0].facts, load(request.before_reboot)
    before = judge(old, host.expectation.profile, selection=request.selection, without_gpu=request.without_gpu)
    try:
        lines = losses(before, old, host.report, new)
    except NotObservedError as reason:
        return [f"nothing is proven about the reboot: {reason}"], EXIT_UNKNOWN
    return lines or ["everything that held before the reboot holds after it"], EXIT_FAILED_CHECK if lines else EXIT_OK

"""`up`: launch, reach, observe, converge what fails, prove. The run as data, then the steps in its order."""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from provision import paths
from provision.clouds.base import Instance
from provision.host.reach import wait_ready
from provision.host.ssh import Target
from provision.host.way import actual, directives, phrase, prepared
from provision.launch.attempts import Wanted
from provision.launch.journal import Machine, Record
from provision.launch.launcher import Launcher
from provision.launch.place import Attempt
from provision.launch.regions import Connect
from provision.profile import load as profiles
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.workflow.session import Session

if TYPE_CHECKING:
    from provision.converge.progress import Progress
    from provision.verify.finding import Report

__all__ = ["STEPS", "Run", "apply", "up"]

RUNNING_S: Final = 600  # EC2 answers within a minute; a stuck pending state is worth a clear error after ten
CONSOLE_S: Final = 900  # EC2 shows the console late, up to some minutes after the boot
READY_S: Final = 900  # cloud-init and sshd of a slow image
PROBE_S: Final = 120


@dataclass(slots=True)
class Run:
    """One `up`: what was asked, and what came of it so far.

    Attributes:
        say: told about each step, for people.
        on_task: told about each Ansible task.
        lock: what the profile was resolved to; None for a host whose profile was never locked, whose open choices stay open.
        without_gpu: excuse the GPU part.
        all_roles: run every role, not only those whose checks do not pass.
        count, minimum: how many machines, and how many are enough.
        wait_s: for how long capacity is waited for.
        only: the one cloud whose places are tried; None for all.
        members: with several machines, the run of each.
    """

    session: Session
    profile: Profile
    name: str
    rehearsal: bool
    say: Callable[[str], None]
    on_task: Callable[[Progress], None]
    lock: Lock | None = None
    without_gpu: bool = False
    all_roles: bool = False
    count: int = 1
    minimum: int = 1
    wait_s: float = 0.0
    only: str | None = None
    target: Target | None = None
    instance: Instance | None = None
    attempts: list[Attempt] = field(default_factory=list)
    report: Report | None = None
    roles: tuple[str, ...] = ()
    artefacts: Path | None = None
    members: list[Run] = field(default_factory=list)

    @property
    def hosts(self) -> list[Run]:
        """The run of each machine: itself, where there is one."""
        return self.members or [self]


def launch(run: Run) -> None:
    """The machines exist: launched in the first place that has them, or adopted. What was tried is known whatever came of it."""
    prepared(actual(run.profile.network, rehearsal=run.rehearsal))
    connect = _connect(run)
    launcher = Launcher(connect=connect, journal=run.session.journal, rehearsal=run.rehearsal, on_step=run.say, attempts=run.attempts)
    assert run.lock is not None  # noqa: S101 - `up` is not called without
    wanted = Wanted(
        profile=run.profile,
        digest=profiles.digest(run.profile),
        name=run.name,
        public_key=run.session.ssh.public_key(),
        lock=run.lock,
        count=run.count,
        minimum=run.minimum,
        wait_s=run.wait_s,
        only=run.only,
    )
    instances = launcher.ensure(wanted)
    run.instance = instances[0]
    if run.count > 1:
        run.members = [_member(run, instance) for instance in instances]


def _member(run: Run, instance: Instance) -> Run:
    """The run of one machine of several, which says its name with each step."""
    return replace(run, name=instance.name, instance=instance, members=[], say=lambda step: run.say(f"{instance.name}: {step}"))


def reach(run: Run) -> None:
    """It runs, its host key is known from the cloud's own channel, and it lets us in."""
    assert run.instance is not None  # noqa: S101 - the step before sets it
    cloud = _connect(run)(run.instance.cloud, run.instance.region)
    if run.instance.state in {"stopped", "stopping"}:
        run.say(f"starting {run.instance.id}, which is stopped")
        (run.instance,) = cloud.start([run.instance], timeout_s=RUNNING_S)
    if run.instance.state != "running" or not run.instance.address:
        run.say(f"waiting for {run.instance.id} to run")
        run.instance = cloud.wait_running(run.instance, timeout_s=RUNNING_S)
    instance, record = run.instance, run.session.record(run.name)
    known = record.machine(instance.name) or Machine(instance.name, instance.id, instance.cloud, instance.region)
    if known.address != instance.address or not run.session.ssh.knows(run.name):
        keys = None
        if not (known.id == instance.id and known.address and run.session.ssh.knows(run.name)):
            run.say("reading the host key over the cloud's own channel")
            keys = cloud.host_keys(instance, timeout_s=CONSOLE_S)
        # A machine that only moved keeps its host keys: another one on the new address is refused.
        network = actual(run.profile.network, rehearsal=run.rehearsal)
        through = directives(network, instance)
        run.session.ssh.add(run.name, address=instance.address, login=instance.login, keys=keys, way=through)
        run.say(f"waiting for {' '.join([instance.address, phrase(network)]).strip()} to finish its first boot")
        asyncio.run(wait_ready(run.session.ssh.target(run.name), timeout_s=READY_S))

    def reached(now: Record) -> Record:
        now = now.with_address(instance.id, instance.address)
        return now.with_lock(run.lock.as_dict()) if run.lock is not None else now

    run.session.journal.update(record.name, reached)
    run.target = run.session.ssh.target(run.name)


def observe(run: Run) -> None:
    """What holds already is known, from one round trip."""
    run.say("observing the host")
    run.report = _verify(run)


def converge_what_fails(run: Run) -> None:
    """The roles whose checks do not pass have run; none, if all pass."""
    _converge(run, _needed(run))


def prove(run: Run) -> None:
    """What holds now is known; not asked again when nothing was run."""
    if run.roles:
        run.say("proving the result")
        run.report = _verify(run)


STEPS: Final = (launch, reach, observe, converge_what_fails, prove)


def up(run: Run) -> Run:
    """Do the steps, several machines at the same time; a second `up` of a correct host does the first three and finds nothing to do.

    Raises:
        GpuprovError: of the first machine for which a step failed, after the others were done.
    """
    with run.session.journal.hold(run.name):
        launch(run)
        with ThreadPoolExecutor(max_workers=len(run.hosts), thread_name_prefix="host") as pool:
            running = [pool.submit(_steps, host) for host in run.hosts] if run.members else []
        for future in running:
            future.result()
        if not run.members:
            _steps(run)
    return run


def _steps(run: Run) -> None:
    for step in STEPS[1:]:
        step(run)


def apply(run: Run, *, roles: Sequence[str] | None = None, check: bool = False, diff: bool = False) -> Run:
    """Converge a host that exists: observe, run what does not pass (or the roles named), prove.

    Args:
        run: with `target` set.
        roles: these and no others.
        check: predict only.
        diff: show what changes in files.
    """
    observe(run)
    _converge(run, _needed(run) if roles is None else roles, check=check, diff=diff)
    if not check:
        prove(run)
    return run


def undo(session: Session, host: str, roles: Sequence[str], *, check: bool, say: Callable[[str], None]) -> list[str]:
    """Put back what the roles changed on a host; returns what was or would be, a line each."""
    from provision.converge import run as converge  # noqa: PLC0415 - as in `_verify`

    changes: list[str] = []

    def told(progress: Progress) -> None:
        changes.extend(progress.diff.splitlines())

    say(f"putting back what {'the roles' if len(roles) > 1 else roles[0]} changed on {host}")
    converge.undo(session.target(host), roles, run_dir=_artefacts(session, host), on_progress=told, check=check)
    return changes


def _artefacts(session: Session, name: str) -> Path:
    """A folder of its own for what Ansible says."""
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    return paths.private_dir(paths.private_dir(session.state / "runs") / f"{stamp}-{name}-{secrets.token_hex(2)}")


def _connect(run: Run) -> Connect:
    return run.session.connect(rehearsal=run.rehearsal, start=True, say=run.say)


def _needed(run: Run) -> Sequence[str]:
    """The roles whose checks do not pass; all that the profile gives something to do, where that is asked for."""
    from provision.converge.roles import all_roles, roles_for  # noqa: PLC0415 - as in `_verify`

    assert run.report is not None  # noqa: S101 - the observation sets it
    return all_roles(run.profile, without_gpu=run.without_gpu) if run.all_roles else roles_for(run.report.findings)


def _asked(run: Run) -> Profile:
    """What must hold: the profile, its open choices closed by the lock."""
    return pin(run.profile, run.lock) if run.lock is not None else run.profile


def _verify(run: Run) -> Report:
    from provision.verify.fleet import verify  # noqa: PLC0415 - 0.1 s that a launch need not wait for: they are free while the machine boots

    assert run.target is not None  # noqa: S101 - `reach`, or the caller of `apply`, sets it
    asked = _asked(run)
    if asked.verify.tier == "quick":  # what nobody looks at would never be set up
        asked = asked.model_copy(update={"verify": asked.verify.model_copy(update={"tier": "standard"})})
    return asyncio.run(verify(run.target, asked, without_gpu=run.without_gpu, timeout_s=PROBE_S))


def _converge(run: Run, roles: Sequence[str], *, check: bool = False, diff: bool = False) -> None:
    from provision.converge import run as converge  # noqa: PLC0415 - as in `_verify`

    assert run.target is not None  # noqa: S101 - as above
    if not roles:
        run.say("nothing to set up")
        return
    assert run.lock is not None  # noqa: S101 - a host is never set up from open choices
    run.say(f"setting up: {', '.join(roles)}")
    run.artefacts = _artefacts(run.session, run.name)
    login = run.instance.login if run.instance else None
    converge.converge(
        run.target, _asked(run), roles, run_dir=run.artefacts, login=login, on_progress=run.on_task, lock=run.lock, check=check, diff=diff
    )
    run.roles = tuple(roles)

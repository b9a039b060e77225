"""`up`: launch the machines or adopt them, reach each of them, and set it up."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from provision import clouds, paths
from provision.clouds.baked import Recipe
from provision.clouds.base import Instance
from provision.clouds.refusals import HostKeysBlockedError
from provision.concurrent import run_until
from provision.errors import InstanceLostError, UsageError
from provision.host.reach import wait_ready
from provision.host.rotate import rotate
from provision.host.way import actual, directives, phrase, prepared
from provision.launch import place
from provision.launch.attempts import LaunchRequest
from provision.launch.baked import recipe_of
from provision.launch.journal import Machine, check_name
from provision.launch.launcher import Launcher
from provision.launch.lifecycle import destroy
from provision.launch.ours import Ours
from provision.launch.place import Attempt, check_has_places
from provision.launch.plan import Plan, plan
from provision.launch.price import order_in_words
from provision.launch.regions import Connect
from provision.profile import load
from provision.profile.exact import refuse_vanished
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review.where import Organisation
from provision.structs import Struct, field
from provision.workflow import expected
from provision.workflow.console import explained
from provision.workflow.expected import ExpectedTime
from provision.workflow.session import Say, Session, today
from provision.workflow.several import HostsFailedError, on_each

if TYPE_CHECKING:
    from provision.converge.progress import Progress
    from provision.workflow.setup import SetupResult

RUNNING_S: Final = 600  # clouds take less than a minute; a stuck pending state is worth a clear error after ten
CONSOLE_S: Final = 900  # a cloud may show the console some minutes after the boot
READY_S: Final = 900  # cloud-init and sshd of a slow image


class UpRequest(Struct):
    """What one `up` is to do.

    Attributes:
        bundle: the digest of the signed bundle; None without one.
        approvals: who signed it, and what the signature is worth here.
        rehearsal: the embedded cloud that stands in for this one, and whose places alone are tried; None for real clouds.
        count, minimum: how many machines to ask for, and how many are enough.
        wait_s: for how long to wait for capacity.
        without_gpu: excuse the GPU part.
        all_roles: run every role, not only those whose checks do not pass.
        cheapest: try the places of the profile by their price, and not in its order.
        from_base: start from no image of ours, whatever the places say.
        plan: its plan, where that has not all places of the profile.
        lines: the line of each key in the profile's file.
    """

    profile: Profile
    lock: Lock
    name: str
    bundle: str | None = None
    rehearsal: str | None = None
    count: int = 1
    minimum: int = 1
    wait_s: float = 0.0
    without_gpu: bool = False
    all_roles: bool = False
    cheapest: bool = False
    from_base: bool = False
    plan: Plan | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    approvals: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        place.check_machines(self.profile, self.count)


class ProvenHost(Struct):
    """One machine at the end of `up`."""

    instance: Instance
    result: SetupResult


def request_for(session: Session, name: str | None, bundle: Path | None, organisation: Organisation, *, rehearsal: str | None) -> UpRequest:
    """The request for a profile by name or file, or for a signed bundle, after the organisation's rules have allowed it.

    Raises:
        UsageError: neither a profile nor a bundle.
    """
    path = load.find(name) if name is not None else None
    if bundle is not None or organisation.policy is not None:
        # The checks come with it, 0.25 s of the 0.7 s that pass before a launch: without a bundle and without rules there is no need.
        from provision.review.approval import Submission, admit  # noqa: PLC0415

        admitted = admit(Submission.read(path, today()) if path else None, bundle, organisation, dt.datetime.now(dt.UTC))
        profile, signed, digest, approvals = admitted.profile, admitted.lock, admitted.bundle, admitted.approvals
    elif path is not None:
        profile, signed, digest, approvals = load.load(path), None, None, ()
    else:
        msg = "there is nothing to launch"
        raise UsageError(msg, hint="give a profile (`gpuprov up NAME`, or --profile) or --bundle")
    check_has_places(profile)
    lock = session.lock(path, profile, rehearsal=rehearsal is not None, signed=signed)
    refuse_vanished(lock)
    lines = load.lines(paths.read_bounded(path, load.MAX_BYTES)) if path else {}
    return UpRequest(profile, lock, check_name(profile.name), digest, rehearsal, lines=lines, approvals=approvals)


def up(
    session: Session,
    request: UpRequest,
    attempts: list[Attempt],
    *,
    say: Say,
    on_task: Callable[[Progress], None],
    on_host: Callable[[str, str], None] = lambda _host, _step: None,
    on_expected: Callable[[ExpectedTime], None] = lambda _: None,
) -> list[ProvenHost]:
    """Launch, reach and set up the machines of a name, several of them at the same time. A correct host is observed once.

    `attempts` gets a row for each attempt as it ends, so that they can be shown when an error ends the run. `on_host` is told what each of
    several machines does, and `on_expected` what earlier runs took, if there were any.

    Raises:
        HostsFailedError: a step failed on some of several machines; the others went on to their ends.
    """
    began = time.monotonic()
    planned = request.plan or plan(request.profile, request.lock, request.name, request.lines, cheapest=request.cheapest)
    if request.cheapest:
        tried = [each for each in planned.candidates if request.rehearsal in {None, each.cloud}]
        say(f"the cheapest place first: {order_in_words(tried)}")
    record = session.journal.get(request.name)
    if record is None or not record.machines:  # before the embedded cloud is started for nothing
        options = place.options(planned, request.rehearsal)
        place.check_any(planned, options)
        _tell(session, request, next(option.cloud for option in options if not option.refusal), on_expected)
    connect = session.connect(rehearsal=request.rehearsal is not None, start=True, say=say)
    if request.rehearsal is not None:
        session.offer_images(request.profile, say)
    with session.journal.hold(request.name):
        instances = launch(session, request, planned, connect, attempts=attempts, say=say)
        launched = {"launched", "adopted"} & {attempt.outcome for attempt in attempts} == {"launched"}
        if launched:
            _tell(session, request, instances[0].cloud, on_expected)
        machines = _Machines(session, request, connect, say=say, on_task=on_task, on_host=on_host)
        try:
            hosts = machines.proven(instances)
        except HostKeysBlockedError as error:
            if launched:  # no later run could reach them either
                say(f"removing {request.name}, whose host keys nobody may read")
                _give_up(session, request.name, connect, say)
                error.hint += "; what was launched is removed"
            raise
        if launched:
            expected.note(session.journal, request.name, _kind(request, instances[0].cloud), time.monotonic() - began)
        return hosts


class _Machines(Struct):
    """What is done with each machine of a launch; none waits for another."""

    session: Session
    request: UpRequest
    connect: Connect
    say: Say
    on_task: Callable[[Progress], None]
    on_host: Callable[[str, str], None]
    stop: threading.Event = field(default_factory=threading.Event)

    def proven(self, instances: Sequence[Instance]) -> list[ProvenHost]:
        """All of them, set up and proven."""
        if len(instances) == 1:
            return [self._prove(instances[0], self.say)]
        outcomes = on_each({each.name: each for each in instances}, self._prove, on_host=self.on_host, stop=self.stop)
        for error in outcomes.errors.values():
            if isinstance(error, HostKeysBlockedError):  # of the whole launch
                raise error
            if isinstance(error, InstanceLostError):
                error.hint = "run the same command again: it launches another one in its place"
        if outcomes.errors:
            again = f"repair what each line says, and run the same command again; `gpuprov down {self.request.name}` removes all of them"
            raise HostsFailedError(outcomes, hint=again)
        return outcomes.proven

    def _prove(self, instance: Instance, say: Say) -> ProvenHost:
        # 0.2 s that a launch need not wait for: the checks are loaded while the machine boots (tests/bench/launch.py).
        from provision.workflow.setup import SetupRequest, set_up  # noqa: PLC0415

        session, request = self.session, self.request
        instance = reach(session, request, instance, self.connect, say, stop=self.stop)
        wish = SetupRequest(
            session.ssh.target(instance.name),
            request.profile,
            request.lock,
            login=instance.login,
            without_gpu=request.without_gpu,
            all_roles=request.all_roles,
        )
        with explained(self.connect, [instance]):  # one that ended meanwhile is said to have ended
            done = set_up(session, wish, say=say, on_task=self.on_task, stop=self.stop)
            return ProvenHost(instance, done)


def _give_up(session: Session, name: str, connect: Connect, say: Say) -> None:
    """Remove a launch of this run that can never be reached, and forget it."""
    record = session.record(name)
    destroy(Ours(connect, say), session.journal, name, record.regions)
    session.forget_hosts([name, *record.hosts])


def _kind(request: UpRequest, cloud: str) -> expected.RunKind:
    return expected.RunKind(load.digest(request.profile), cloud, request.rehearsal is not None, request.without_gpu, request.count)


def _tell(session: Session, request: UpRequest, cloud: str, on_expected: Callable[[ExpectedTime], None]) -> None:
    """Say what earlier runs like this one took, where there were any."""
    earlier = expected.expected(session.journal, _kind(request, cloud))
    if earlier:
        on_expected(earlier)


def launch(session: Session, request: UpRequest, planned: Plan, connect: Connect, *, attempts: list[Attempt], say: Say) -> list[Instance]:
    """The machines exist: launched in the first place that has them, or adopted."""
    rehearsal = request.rehearsal is not None
    prepared(actual(request.profile.network, rehearsal=rehearsal))
    launcher = Launcher(connect=connect, journal=session.journal, rehearsal=rehearsal, on_step=say, attempts=attempts)
    return launcher.ensure(
        LaunchRequest(
            plan=planned,
            public_key=session.ssh.public_key(),
            count=request.count,
            minimum=request.minimum,
            wait_s=request.wait_s,
            only=request.rehearsal,
            recipe=_recipe(request),
        )
    )


def _recipe(request: UpRequest) -> Recipe | None:
    """What an image of the profile is made of today; None where no place may start from one."""
    if request.from_base or all(each.baked_use == "never" for each in request.profile.places):
        return None
    return recipe_of(request.profile, request.lock, without_gpu=request.without_gpu)


def reach(
    session: Session, request: UpRequest, instance: Instance, connect: Connect, say: Say, *, stop: threading.Event | None = None
) -> Instance:
    """The machine as it runs now: its host key was read over the cloud's own channel, and it lets us in. `stop` ends the wait for it.

    Raises:
        InstanceLostError: it ended by itself; the detail has the end of its console.
    """
    with explained(connect, [instance]):
        return _reach(session, request, instance, connect, say, stop=stop)


def _reach(
    session: Session, request: UpRequest, instance: Instance, connect: Connect, say: Say, *, stop: threading.Event | None
) -> Instance:
    cloud = connect(instance.cloud, instance.region)
    if instance.state in {"stopped", "stopping"}:
        data = request.profile.disks.data
        empty = f": {data.mount} is empty since then" if data and data.source == "instance-store" else ""
        say(f"starting {instance.id}, which is stopped{empty}")
        (instance,) = cloud.start([instance], timeout_s=RUNNING_S)
    if instance.state != "running" or not instance.address:
        say(f"waiting for {instance.id} to run")
        instance = cloud.wait_running(instance, timeout_s=RUNNING_S)
    record, ssh = session.record(instance.name), session.ssh
    machine = record.machine(instance.name) or Machine(instance.name, instance.id, instance.cloud, instance.region)
    first = clouds.provider(instance.cloud).first_key
    if machine.address != instance.address or not ssh.knows(instance.name):
        keys = None
        # A machine that only moved keeps its host keys: another machine at the new address is refused.
        if not (machine.id == instance.id and machine.address and ssh.knows(instance.name)):
            say("expecting the host key that it was given" if first.given else "reading the host key over the cloud's own channel")
            keys = cloud.host_keys(instance, timeout_s=CONSOLE_S)
        network = actual(request.profile.network, rehearsal=request.rehearsal is not None)
        ssh.add(instance.name, address=instance.address, login=instance.login, keys=keys, way=directives(network, instance))
        say(f"waiting for {' '.join([instance.address, phrase(network)]).strip()} to finish its first boot")
        run_until(wait_ready(ssh.target(instance.name), timeout_s=READY_S), stop)
        if keys and first.given:
            say("replacing the host key that it was given")
            rotate(ssh, instance.name, keys, lambda new: cloud.publish_host_keys(instance, new))
    session.journal.update(record.name, lambda now: now.with_address(instance.id, instance.address).with_lock(request.lock.as_dict()))
    return instance

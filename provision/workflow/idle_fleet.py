"""`idle` for a fleet. The action is on the group: a member that powered itself off would be replaced for ever."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from provision.clouds.fleet import Fleet, FleetMember, FleetView
from provision.concurrent import at_once
from provision.errors import EXIT_OK, GpuprovError, InstanceNotFoundError, UsageError, counted
from provision.host.way import actual
from provision.launch.fleets import FleetRecord, Fleets
from provision.launch.plan import Plan
from provision.structs import replace
from provision.watch.state import WatchedHost
from provision.workflow.fleet import connected, down, known
from provision.workflow.fleet_status import member_target
from provision.workflow.idle import IdleAction, IdleRequest, end_of_warning, hook_code, idle_hosts
from provision.workflow.session import Say, Session


def record_of(session: Session, name: str) -> FleetRecord | None:
    """The fleet of that name that was made from here; None where there is none, or where a launch has the name."""
    return None if session.journal.of(name) is not None else Fleets(session.state / "fleets").get(name)


def wait_for_idle(session: Session, request: IdleRequest, *, say: Say) -> tuple[FleetMember, ...]:
    """The members that were idle for so long, while nobody objected: all of the fleet, or some where it is to be made smaller.

    Empty where that did not come in time. Members that came while this watched are not among them, and with `down` begin the wait again.

    Raises:
        UsageError: the warning is longer than the wait, or members are to be stopped.
        InstanceNotFoundError: the cloud has no such fleet, or none of its members serves.
        GpuprovError: a member cannot be watched: with `down` any of them, otherwise all.
    """
    request.check_times()
    _check(request)
    _, record, planned = known(session, request.name)
    fleet = connected(session, record, planned)
    ends = time.monotonic() + request.watch_s if request.watch_s is not None else None
    some = request.action is IdleAction.SHRINK
    while True:
        view = _view(fleet, request.name)
        if some and view.size <= request.keep:
            say(f"{request.name} has {counted(view.size, 'member')}, and {request.keep} are kept")
            return ()
        with tempfile.TemporaryDirectory(prefix="gpuprov-") as folder:
            hosts = _hosts(session, record, planned, view, Path(folder), whole=not some, say=say)
            watched = f"watching {counted(len(hosts), 'member')} of {request.name}"
            say(f"{watched}: idle for {request.idle_s:g} s ends {'one' if some else 'all'}")
            found = idle_hosts(tuple(hosts), request, request.idle_s - request.warn_s, ends, some=some)
            if not found or (len(found) < len(hosts) and not some):
                return ()
            members = {host.target.name: member for host, member in hosts.items() if host.target.name in found}
            named = [member.name or member.id for member in members.values()]
            say(f"{', '.join(named)} of {request.name} idle: `{request.action}` follows in {request.warn_s:g} s, unless something runs")
            if request.hook and (code := hook_code(request, named)) != EXIT_OK:
                say(f"the hook ended with {code}: nothing is done now")
                continue
            if request.warn_s:
                again = tuple(host for host in hosts if host.target.name in found)
                found &= idle_hosts(again, request, request.warn_s, end_of_warning(request))
        chosen = tuple(member for name, member in members.items() if name in found)
        if chosen and (some or {each.id for each in chosen} == {each.id for each in _view(fleet, request.name).members}):
            return chosen
        say(f"{request.name} is busy again, was not heard, or has other members")


def act(session: Session, request: IdleRequest, members: Sequence[FleetMember], *, say: Say) -> list[str]:
    """End the fleet, or exactly these of its members that still serve; returns what was done, a phrase each."""
    if request.action is IdleAction.DOWN:
        return down(session, request.name, say=say)
    with session.journal.hold(request.name):
        fleets, record, planned = known(session, request.name)
        fleet = connected(session, record, planned)
        view = _view(fleet, request.name)
        serving = {member.id for member in view.members if member.serves}
        # By its id: a member that was made anew meanwhile can have the old one's name, and does not serve under the old one's id.
        leave = [member for member in members if member.id in serving][: max(0, view.size - request.keep)]
        if not leave:
            return []
        say(f"ending {counted(len(leave), 'member')} of {request.name}, which has {view.size}")
        fleets.put(replace(record, size=view.size - len(leave)))
        fleet.shrink(request.name, leave)
    return [f"ended {member.name or member.id}, a member of {request.name}" for member in leave]


def _check(request: IdleRequest) -> None:
    if request.action is IdleAction.STOP:
        msg = f"{request.name} is a fleet, and its group would replace a member that is stopped"
        raise UsageError(msg, hint="`--then shrink` ends idle members and makes the group smaller, `--then down` ends the fleet")
    if request.action is IdleAction.DOWN and request.keep:
        msg = "--then down keeps no member"
        raise UsageError(msg, hint=f"`--then shrink --keep {request.keep}` ends idle members, and keeps that many")


def _view(fleet: Fleet, name: str) -> FleetView:
    view = fleet.members(name)
    if view is None:
        msg = f"the cloud has no fleet called {name!r}"
        raise InstanceNotFoundError(msg, hint=f"`gpuprov fleet up` makes it again, `gpuprov fleet down {name}` forgets it")
    return view


def _hosts(
    session: Session, record: FleetRecord, planned: Plan, view: FleetView, folder: Path, *, whole: bool, say: Say
) -> dict[WatchedHost, FleetMember]:
    """The members that serve, as they are reached; with `whole` an error of one is raised, otherwise it is told and the member left out."""
    serving = [member for member in view.members if member.serves]
    if not serving:
        msg = f"no member of {record.name} serves, so none can be idle"
        raise InstanceNotFoundError(msg, hint=f"`gpuprov fleet status {record.name}` shows its members")
    say(f"reading the host keys of {counted(len(serving), 'member')} over the cloud's own channel")
    cloud = session.connect(rehearsal=record.rehearsal)(record.cloud, record.region)
    machines = {instance.id: instance for instance in cloud.find(record.name)}
    network = actual(planned.profile.network, rehearsal=record.rehearsal)

    def watched(member: FleetMember) -> WatchedHost | GpuprovError:
        instance = machines.get(member.id) or machines.get(member.name)
        if instance is None:
            msg = f"the cloud lists no machine of member {member.name or member.id}"
            return InstanceNotFoundError(msg, hint="ask again: the group may have replaced it")
        own = folder / instance.id
        own.mkdir()
        try:
            return WatchedHost(member_target(session, network, own, cloud, instance))
        except GpuprovError as error:
            return error

    found, errors = dict[WatchedHost, FleetMember](), list[GpuprovError]()
    for member, host in zip(serving, at_once(watched, serving), strict=True):
        if isinstance(host, WatchedHost):
            found[host] = member
        else:
            errors.append(host)
            say(f"{member.name or member.id} counts as busy: {host.message}")
    if errors and (whole or not found):
        raise errors[0]
    return found

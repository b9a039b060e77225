"""`stop`, `start`, `extend` and `allow`: what is done to machines that exist, at the cloud and on them."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from provision.clouds.base import Instance
from provision.errors import GpuprovError, HostUnreachableError
from provision.host.reach import wait_ready
from provision.host.ssh import execute
from provision.host.way import actual, directives, phrase
from provision.launch import cost, lifecycle
from provision.launch.journal import Record
from provision.launch.ours import Ours
from provision.profile.model import Profile
from provision.profile.network import Network
from provision.workflow.inventory import known_profiles, ours_of
from provision.workflow.session import Session

__all__ = ["Extended", "allow", "extend", "start", "stop"]

Say = Callable[[str], None]
_READY_S: Final = 600.0
_KEYS_S: Final = 600.0
# The timer of the first boot (clouds/userdata.py); where the cloud itself holds the deadline there is none.
_TIMER: Final = "/etc/systemd/system/gpuprov-deadline.timer"


@dataclass(frozen=True, slots=True)
class Extended:
    """A deadline that was moved.

    Attributes:
        cost_usd: from now to the deadline, for all machines, by the catalogue's price; None where that has none.
        timers: machines whose own timer was moved.
    """

    name: str
    deadline: str
    machines: tuple[str, ...]
    cost_usd: float | None
    timers: tuple[str, ...]


def _found(session: Session, name: str, *, rehearsal: bool, say: Say) -> tuple[Ours, list[Instance], Record | None]:
    ours, places, record = ours_of(session, name, rehearsal=rehearsal, say=say)
    say(f"looking for {name}")
    known = record.regions if record is not None and record.machines else places
    return ours, lifecycle.machines(ours, name, known), record


def stop(session: Session, name: str, *, rehearsal: bool, say: Say) -> list[Instance]:
    """Power a launch's machines off; returns them as they were before."""
    ours, found, _ = _found(session, name, rehearsal=rehearsal, say=say)
    with session.journal.hold(found[0].group):
        say(f"stopping {', '.join(i.id for i in found)}")
        lifecycle.stop(ours, found)
    return found


def start(session: Session, name: str, *, rehearsal: bool, say: Say) -> list[Instance]:
    """Power a launch's machines on and wait until they let us in; their addresses may have changed, their host keys may not.

    Raises:
        HostKeyChangedError: another host key answers on the address.
    """
    ours, found, record = _found(session, name, rehearsal=rehearsal, say=say)
    with session.journal.hold(found[0].group):
        say(f"starting {', '.join(i.id for i in found)}")
        started = lifecycle.start(ours, found)
        for instance in started:
            network = actual(_network_of(record, instance), rehearsal=record.rehearsal if record else rehearsal)
            _reach(session, ours, instance, network, say)
    return started


def _network_of(record: Record | None, instance: Instance) -> Network:
    """How the profile of a machine says that it is reached; directly, where nobody here knows the profile."""
    try:
        return _profile_of(record, instance).network
    except HostUnreachableError:
        return Network()


def _reach(session: Session, ours: Ours, instance: Instance, network: Network, say: Say) -> None:
    keys = None
    if not session.ssh.knows(instance.name):
        say(f"reading the host key of {instance.name} over the cloud's own channel")
        keys = ours.handle((instance.cloud, instance.region)).host_keys(instance, timeout_s=_KEYS_S)
    through = directives(network, instance)
    session.ssh.add(instance.name, address=instance.address, login=instance.login, keys=keys, way=through)
    say(f"waiting for {instance.name} at {instance.address} {phrase(network)}".rstrip())
    asyncio.run(wait_ready(session.ssh.target(instance.name), timeout_s=_READY_S))
    session.journal.update(instance.group, lambda record: record.with_address(instance.id, instance.address))


def extend(session: Session, name: str, more: dt.timedelta, *, rehearsal: bool, say: Say) -> Extended:
    """Move the deadline of a launch: at the cloud, in its tags, in the journal, and in the timer on each machine.

    Raises:
        UsageError: more than the profile allows.
        GpuprovError: a machine's own timer could not be moved; the machine then ends at its old deadline.
    """
    ours, found, record = _found(session, name, rehearsal=rehearsal, say=say)
    group, now = found[0].group, dt.datetime.now(dt.UTC)
    profile = _profile_of(record, found[0])
    deadline = lifecycle.new_deadline(found, profile.limits.deadline_h, more, now)
    with session.journal.hold(group):
        say(f"moving the deadline of {group} to {deadline:%Y-%m-%d %H:%M} UTC")
        lifecycle.extend(ours, found, deadline)
        session.journal.update(group, lambda known: replace(known, deadline=deadline.isoformat()))
        running = [i for i in found if i.state == "running"]
        problems = [problem for i in running if (problem := _move_timer(session, i, deadline, say))]
    if problems:
        first, name_of = problems[0]
        first.hint += f"; run the same command again, or {name_of} ends at its old deadline"
        raise first
    known = [cost.until(cost.hourly(i, profile), deadline, now) for i in found]
    total = None if None in known else round(sum(price or 0.0 for price in known), 2)
    return Extended(group, deadline.isoformat(), tuple(i.name for i in found), total, tuple(i.name for i in running))


def _profile_of(record: Record | None, instance: Instance) -> Profile:
    """The profile that a machine was launched from, or the one of that name that can be found here.

    Raises:
        HostUnreachableError: neither is known, so that nobody can say what was signed.
    """
    if record is not None:
        return Profile.model_validate(record.profile)
    for profile in known_profiles():
        if profile.name == instance.profile:
            return profile
    msg = f"the profile {instance.profile!r} of {instance.name} is not known here, so that its limits are not"
    raise HostUnreachableError(msg, hint="run it where the profile is")


def _move_timer(session: Session, instance: Instance, deadline: dt.datetime, say: Say) -> tuple[GpuprovError, str] | None:
    at = deadline.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    change = f"sudo sed -i 's/^OnCalendar=.*/OnCalendar={at}/' {_TIMER} && sudo systemctl daemon-reload"
    command = f"test ! -e {_TIMER} || {{ {change} && sudo systemctl restart gpuprov-deadline.timer; }}"
    if not session.ssh.knows(instance.name):
        return HostUnreachableError(
            f"{instance.name} was not set up from here", hint="its timer is moved from where it was launched"
        ), instance.name
    say(f"moving the timer on {instance.name}")
    try:
        done = asyncio.run(execute(session.ssh.target(instance.name), command, timeout_s=60))
    except GpuprovError as error:
        return error, instance.name
    if done.exit_code:
        said = done.stderr.decode(errors="replace").strip()[:300]
        return HostUnreachableError(f"the timer of {instance.name} could not be moved", hint="see its journal", detail=said), instance.name
    return None


def allow(session: Session, name: str, networks: Sequence[str], *, rehearsal: bool, say: Say) -> dict[str, list[str]]:
    """Open port 22 to exactly these networks, or to those of the profile; returns what is open by region.

    Raises:
        pydantic.ValidationError: one of them is no network, or is everybody's.
    """
    ours, found, record = _found(session, name, rehearsal=rehearsal, say=say)
    known = _network_of(record, found[0]) if networks else _profile_of(record, found[0]).network
    wanted = Network.model_validate({**known.model_dump(), "ssh_from": tuple(networks)}).opens if networks else known.opens
    say(f"opening port 22 of {found[0].group} to {', '.join(wanted) or 'nobody'}")
    opened = lifecycle.allow(ours, found[0].group, found, wanted)
    return {region: networks for (_, region), networks in opened.items()}

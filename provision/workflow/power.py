"""`stop`, `start`, `extend` and `allow`: what is done to machines that exist, at the cloud and on them."""

import asyncio
import contextlib
import datetime as dt
import shlex
from collections.abc import Callable, Sequence
from typing import Final

from provision import clouds
from provision.clouds.base import Instance
from provision.clouds.userdata import MOTD
from provision.concurrent import at_once
from provision.errors import GpuprovError, HostUnreachableError, UsageError
from provision.host.reach import wait_ready
from provision.host.rotate import rotate
from provision.host.ssh import execute
from provision.host.way import actual, directives, phrase
from provision.launch import cost, lifecycle
from provision.profile.network import Network
from provision.structs import Struct, replace
from provision.workflow.console import explained
from provision.workflow.search import LaunchMachines, launch_machines
from provision.workflow.session import Say, Session

_READY_S: Final = 600.0
_KEYS_S: Final = 600.0
_USED_S: Final = 15.0
OFF: Final = {"stopped", "stopping"}
# The timer of the first boot (clouds/userdata.py); there is none where the cloud itself holds the deadline.
_TIMER: Final = "/etc/systemd/system/gpuprov-deadline.timer"


class Extension(Struct):
    """A deadline after it was moved.

    Attributes:
        cost_usd: from now to the deadline, for all machines, by the catalog's price; None where there is no price.
        timers: machines whose own timer was moved.
    """

    name: str
    deadline: str
    machines: tuple[str, ...]
    cost_usd: float | None
    timers: tuple[str, ...]


class StartedMachines(Struct):
    """The machines after a start; `empty_disk` is where the data disk of one that was off is mounted, if it is inside the machine."""

    instances: list[Instance]
    were_off: frozenset[str]
    empty_disk: str


class EmptiedDisk(Struct):
    """What a stop empties: the data disk of a machine with what the host says is on it, or disks inside it that have no known mount."""

    machine: str
    mount: str
    used_gb: float | None = None

    def __str__(self) -> str:
        used = "unknown how much is on it" if self.used_gb is None else f"{self.used_gb:.1f} GB used"
        return f"{self.machine}: {self.mount or 'disks inside the machine'}, instance storage, {used}"


def emptied(session: Session, launch: LaunchMachines) -> list[EmptiedDisk]:
    """What a stop of a launch would empty, by its profile and the types of its machines."""
    disks = (_inside(launch, instance) for instance in launch.instances if instance.state not in OFF)
    return at_once(lambda disk: _observed(session, disk), [disk for disk in disks if disk])


def _inside(launch: LaunchMachines, instance: Instance) -> EmptiedDisk | None:
    """What is inside a machine. A type that is not in the catalog may have something; some clouds attach it where the profile says so."""
    provider, mount = clouds.provider(instance.cloud), _mount_inside(launch)
    built_in = max((offer.local_gb for offer in provider.offers() if offer.instance_type == instance.type), default=1) > 0
    inside = mount or (built_in if launch.record else provider.local_disks(instance.type) != 0)
    return EmptiedDisk(instance.name, mount) if inside else None


def _mount_inside(launch: LaunchMachines) -> str:
    """Where a data disk that is inside the machines is mounted; empty where the profile has none there, or is not known."""
    data = ((launch.record.profile if launch.record else {}).get("disks") or {}).get("data") or {}
    return str(data.get("mount")) if data.get("source") == "instance-store" else ""


def _observed(session: Session, disk: EmptiedDisk) -> EmptiedDisk:
    with contextlib.suppress(GpuprovError, ValueError, OverflowError):
        if disk.mount and session.ssh.knows(disk.machine):
            command = f"findmnt -bnro USED --mountpoint {shlex.quote(disk.mount)}"
            done = asyncio.run(execute(session.ssh.target(disk.machine), command, timeout_s=_USED_S))
            return replace(disk, used_gb=round(int(done.stdout) / 1e9, 1))
    return disk


def stop(
    session: Session, name: str, *, rehearsal: bool, say: Say, confirm: Callable[[list[EmptiedDisk]], bool], at_full_price: bool = False
) -> list[Instance]:
    """Power a launch's machines off; returns them as they were before.

    `confirm` gets what a stop empties, if anything, and False ends it: then none is returned.

    Raises:
        UsageError: a machine that is off costs as much as one that runs, and nobody has said that it may.
    """
    launch = launch_machines(session, name, rehearsal=rehearsal, say=say)
    costs = next(filter(None, (clouds.provider(i.cloud).stopped_costs for i in launch.instances)), "")
    if costs and not at_full_price:
        msg = f"stopping {launch.group} saves nothing: {costs}"
        raise UsageError(msg, hint=f"`gpuprov down {launch.group}` ends the cost; `gpuprov stop {name} --at-full-price` stops it anyway")
    disks = emptied(session, launch)
    for disk in disks:
        say(f"this empties {disk}")
    if disks and not confirm(disks):
        return []
    with session.journal.hold(launch.group):
        say(f"stopping {', '.join(i.id for i in launch.instances)}")
        lifecycle.stop(launch.ours, launch.instances)
    return launch.instances


def start(session: Session, name: str, *, rehearsal: bool, say: Say) -> StartedMachines:
    """Power a launch's machines on and wait until they let us in. Their addresses may have changed, their host keys may not."""
    launch = launch_machines(session, name, rehearsal=rehearsal, say=say)
    were_off = frozenset(instance.id for instance in launch.instances if instance.state in OFF)
    with session.journal.hold(launch.group):
        say(f"starting {', '.join(i.id for i in launch.instances)}")
        with explained(launch.ours.connect, launch.instances):
            instances = lifecycle.start(launch.ours, launch.instances)
        for instance in instances:
            with explained(launch.ours.connect, [instance]):
                _reach(session, launch, instance, actual(launch.network(instance), rehearsal=launch.rehearsal), say)
    return StartedMachines(instances, were_off, _mount_inside(launch) if were_off else "")


def _reach(session: Session, launch: LaunchMachines, instance: Instance, network: Network, say: Say) -> None:
    keys, cloud = None, launch.ours.handle((instance.cloud, instance.region))
    if not session.ssh.knows(instance.name):
        say(f"reading the host key of {instance.name} over the cloud's own channel")
        keys = cloud.host_keys(instance, timeout_s=_KEYS_S)
    way = directives(network, instance)
    session.ssh.add(instance.name, address=instance.address, login=instance.login, keys=keys, way=way)
    say(f"waiting for {instance.name} at {instance.address} {phrase(network)}".rstrip())
    asyncio.run(wait_ready(session.ssh.target(instance.name), timeout_s=_READY_S))
    if keys and clouds.provider(instance.cloud).first_key.given:
        rotate(session.ssh, instance.name, keys, lambda new: cloud.publish_host_keys(instance, new))
    session.journal.update(instance.group, lambda record: record.with_address(instance.id, instance.address))


def extend(session: Session, name: str, more: dt.timedelta | None, *, rehearsal: bool, say: Say) -> Extension:
    """Move the deadline of a launch: at the cloud, in its tags, in the journal, and in the timer on each machine.

    Without `more` it is moved as far as the profile allows.

    Raises:
        UsageError: more than the profile allows.
        GpuprovError: a machine's own timer could not be moved; that machine ends at its old deadline.
    """
    launch = launch_machines(session, name, rehearsal=rehearsal, say=say)
    instances, now = launch.instances, dt.datetime.now(dt.UTC)
    profile = launch.profile(instances[0])
    deadline = lifecycle.new_deadline(instances, profile.limits.deadline_h, more, now)
    with session.journal.hold(launch.group):
        say(f"moving the deadline of {launch.group} to {deadline:%Y-%m-%d %H:%M} UTC")
        lifecycle.extend(launch.ours, instances, deadline)
        session.journal.update(launch.group, lambda record: replace(record, deadline=deadline.isoformat()))
        running = [i for i in instances if i.state == "running"]
        problems = [(i.name, error) for i in running if (error := _move_timer(session, i, deadline, say))]
    for host, error in problems[:1]:
        error.hint += f"; run the same command again, or {host} ends at its old deadline"
        raise error
    prices = [cost.until(cost.hourly(i, profile), deadline, now) for i in instances]
    total = None if None in prices else round(sum(price or 0.0 for price in prices), 2)
    return Extension(launch.group, deadline.isoformat(), tuple(i.name for i in instances), total, tuple(i.name for i in running))


def _move_timer(session: Session, instance: Instance, deadline: dt.datetime, say: Say) -> GpuprovError | None:
    """Move the timer on a machine; returns why it was not moved."""
    at = deadline.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    moved = f"s/^OnCalendar=.*/OnCalendar={at}/;s/ends by .* UTC/ends by {at}/"
    change = f"sudo sed -i '{moved}' {_TIMER} $(ls {MOTD} 2>/dev/null) && sudo systemctl daemon-reload"
    command = f"test ! -e {_TIMER} || {{ {change} && sudo systemctl restart gpuprov-deadline.timer; }}"
    if not session.ssh.knows(instance.name):
        return HostUnreachableError(f"{instance.name} was not set up from here", hint="move its timer from where it was launched")
    say(f"moving the timer on {instance.name}")
    try:
        result = asyncio.run(execute(session.ssh.target(instance.name), command, timeout_s=60))
    except GpuprovError as error:
        return error
    if result.exit_code:
        output = result.stderr.decode(errors="replace").strip()[:300]
        return HostUnreachableError(f"the timer of {instance.name} could not be moved", hint="see the host's journal", detail=output)
    return None


def allow(session: Session, name: str, networks: Sequence[str], *, rehearsal: bool, say: Say) -> dict[str, list[str]]:
    """Open port 22 to exactly these networks, or to those of the profile; returns what is open by region.

    Raises:
        pydantic.ValidationError: one of them is not a network, or is open to everyone.
    """
    launch = launch_machines(session, name, rehearsal=rehearsal, say=say)
    first = launch.instances[0]
    if networks:
        opens = Network.model_validate({**launch.network(first).model_dump(), "ssh_from": tuple(networks)}).opens
    else:
        opens = launch.profile(first).network.opens
    say(f"opening port 22 of {launch.group} to {', '.join(opens) or 'nobody'}")
    doors = lifecycle.allow(launch.ours, launch.group, launch.instances, opens)
    return {region: networks for (_, region), networks in doors.items()}

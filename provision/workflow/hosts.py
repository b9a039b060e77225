"""The hosts that `verify` looks at, by name, from the journal or from an Ansible inventory, and what should hold on each."""

from collections.abc import Sequence
from pathlib import Path

from provision.errors import UsageError
from provision.host.ssh import Target
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.structs import Struct
from provision.verify.fleet import Expectation
from provision.workflow import inventory
from provision.workflow.session import Session


class HostNames(Struct):
    """Hosts as a user names them.

    Attributes:
        names: instances, `localhost`, or anything ssh knows.
        launched: also every instance that was launched from here.
        inventory: an Ansible inventory whose hosts count too.
    """

    names: Sequence[str]
    launched: bool = False
    inventory: Path | None = None


def targets(session: Session, hosts: HostNames) -> list[Target]:
    """The hosts, each once, in the order of their names.

    Raises:
        UsageError: there is no host.
    """
    names = list(hosts.names)
    if hosts.launched:
        names += [name for record in session.journal.all() for name in record.hosts]
    by_name = {name: session.target(name) for name in names}
    for target in inventory.targets(hosts.inventory) if hosts.inventory is not None else ():
        by_name.setdefault(target.name, target)
    if not by_name:
        msg = "there is no host to verify"
        raise UsageError(msg, hint="`gpuprov verify HOST…`, --launched for those of `gpuprov ls`, or --inventory FILE")
    return list(by_name.values())


def subjects_of(
    session: Session, hosts: Sequence[Target], name: str | None, signed: tuple[Profile, Lock] | None = None
) -> list[Expectation]:
    """What should hold on each host, with its lock.

    That is the signed profile and lock, or the profile that `name` names for all of them, or the one that each host was launched from.
    """
    if signed is not None:
        return [_pinned(host, *signed) for host in hosts]
    if name is None:
        return [_own_subject(session, host) for host in hosts]
    # Read once for all hosts. Only a rehearsal host has another lock, because it runs another system.
    profile = session.profile_for(None, name)
    locks: dict[bool, Lock | None] = {}
    subjects = []
    for host in hosts:
        record = session.journal.of(host.name) if session.ssh.knows(host.name) else None
        rehearsal = record is not None and record.rehearsal
        if rehearsal not in locks:
            locks[rehearsal] = session.lock_for(host.name, name, profile)
        subjects.append(_pinned(host, profile, locks[rehearsal]))
    return subjects


def _own_subject(session: Session, host: Target) -> Expectation:
    profile = session.profile_for(host.name, None)
    return _pinned(host, profile, session.lock_for(host.name, None, profile))


def _pinned(host: Target, profile: Profile, lock: Lock | None) -> Expectation:
    return Expectation(host, pin(profile, lock) if lock is not None else profile, lock)

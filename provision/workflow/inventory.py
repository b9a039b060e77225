"""`ls` and `down`: what exists, by tag, in every place where it could be; and how it is removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provision.errors import CredentialsExpiredError, CredentialsMissingError, ProfileInvalidError
from provision.launch.journal import Record
from provision.launch.lifecycle import destroy, survey
from provision.launch.ours import Ours
from provision.launch.regions import Connect, regions_of
from provision.profile import load as profiles
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.workflow.session import Session

__all__ = ["Inventory", "Row", "inventory", "remove"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One instance, or one launch whose outcome is not known (`state` is then `launching?`)."""

    name: str
    state: str
    cloud: str
    region: str
    type: str
    address: str
    profile: str
    owner: str
    deadline: str
    id: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """What exists, and what could not be asked."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]


def inventory(session: Session, *, rehearsal_only: bool, say: Say) -> Inventory:
    """Ask the clouds, by tag; the embedded one too if it runs.

    Without credentials for a real cloud its instances are not asked for, and the answer says so: not asked is not none.
    """
    rows: list[Row] = []
    problems: list[str] = []
    kinds: list[tuple[bool, Connect]] = []
    if control.running(session.rehearsal_folder) is not None:
        kinds.append((True, session.connect(rehearsal=True)))
    if not rehearsal_only:
        kinds.append((False, session.connect(rehearsal=False)))
    for rehearsal, connect in kinds:
        where = _where(session, rehearsal=rehearsal)
        say(f"asking {len(where)} regions of {'the embedded cloud' if rehearsal else 'AWS'}")
        try:
            instances, _, unasked = survey(Ours(connect, say), where)
        except (CredentialsMissingError, CredentialsExpiredError) as error:
            problems.append(f"AWS: {error.message}")
            continue
        problems += unasked
        rows += [
            Row(
                i.name,
                i.state,
                f"{i.cloud} (rehearsal)" if rehearsal else i.cloud,
                i.region,
                i.type,
                i.address,
                i.profile,
                i.owner,
                i.deadline,
                i.id,
            )
            for i in instances
        ]
    seen = {row.name for row in rows}
    rows += [_unfinished(record) for record in session.journal.all() if record.name not in seen and not record.machines]
    return Inventory(tuple(sorted(rows, key=lambda row: row.name)), tuple(problems))


def remove(session: Session, name: str, *, rehearsal: bool, say: Say) -> list[str]:
    """Remove everything tagged with a name, and forget it.

    Returns:
        What was removed, a phrase each.

    Raises:
        InstanceNotFoundError: there was nothing.
    """
    with session.journal.hold(name):
        record = session.journal.get(name)
        rehearsal = record.rehearsal if record else rehearsal
        if rehearsal and control.running(session.rehearsal_folder) is None:
            # Its instances ended with it; what a killed one left on this machine is swept.
            control.stop(session.rehearsal_folder)
            removed = ["what the embedded cloud had left"] if record else []
            destroy(Ours(session.connect(rehearsal=False), say), session.journal, name, ())
        else:
            connect = session.connect(rehearsal=rehearsal)
            removed = destroy(Ours(connect, say), session.journal, name, _where(session, rehearsal=rehearsal, record=record))
        for host in dict.fromkeys([name, *(record.hosts if record else ())]):
            if session.ssh.knows(host):
                session.ssh.remove(host)
    return removed


def _where(session: Session, *, rehearsal: bool, record: Record | None = None) -> set[tuple[str, str]]:
    """The regions of the profiles that can be found here and of the journal's records of the same kind."""
    records = [known for known in session.journal.all() if known.rehearsal == rehearsal]
    asked = [Profile.model_validate(record.profile)] if record else []
    for listed in profiles.list_profiles():
        if not listed.problem:
            try:
                asked.append(profiles.load(listed.path))
            except ProfileInvalidError:  # changed since it was listed
                continue
    return regions_of(asked, records)


def _unfinished(record: Record) -> Row:
    owner = str(record.profile.get("owner", {}).get("email", ""))
    return Row(
        record.name,
        "launching?",
        *(record.touched or (("", ""),))[-1],
        "",
        "",
        str(record.profile.get("name", "")),
        owner,
        record.deadline,
        "",
    )

"""`ls`, `down` and `sweep`: what exists, by tag, in every place where it could be; and how it is removed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from provision.clouds.base import Instance
from provision.host.way import actual, phrase
from provision.launch import cost
from provision.launch.journal import Record
from provision.launch.lifecycle import destroy, survey
from provision.launch.ours import Ours
from provision.launch.regions import Connect, everywhere, regions_of
from provision.launch.sweep import Left, clear_away, leftovers
from provision.profile import load as profiles
from provision.profile.model import Profile
from provision.profile.network import Network
from provision.rehearsal import control
from provision.workflow.session import Session

__all__ = ["Inventory", "Row", "inventory", "known_profiles", "left_over", "ours_of", "remove", "sweep", "where"]

Say = Callable[[str], None]
Ask = Callable[[list[str]], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """One machine, or one launch whose outcome is not known (`state` is then `launching?`).

    Attributes:
        age_h: hours since the launch.
        cost_usd: what it has cost at most, by the catalogue's price; None where that has none.
        notices: what the cloud announced.
        way: how it is reached, where not directly and by a public address.
    """

    name: str
    state: str
    cloud: str
    region: str
    zone: str
    type: str
    market: str
    address: str
    age_h: float | None
    cost_usd: float | None
    deadline: str
    owner: str
    profile: str
    id: str
    notices: tuple[str, ...] = ()
    way: str = ""


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
    here = known_profiles()
    known = {profile.name: profile for profile in here}
    now = dt.datetime.now(dt.UTC)
    for rehearsal, connect in _kinds(session, rehearsal_only=rehearsal_only):
        places = where(session, rehearsal=rehearsal, known=here) | everywhere()
        say(f"asking {len(places)} regions of {'the embedded cloud' if rehearsal else ' and '.join(sorted({c for c, _ in places}))}")
        found, notices, unasked = survey(Ours(connect, say), places)
        problems += unasked
        rows += [_row(session, i, notices.get(i.id, ()), known, now, rehearsal=rehearsal) for i in found]
    seen = {row.id for row in rows}
    rows += [_unfinished(record) for record in session.journal.all() if not record.machines and not seen & {record.launch_id}]
    return Inventory(tuple(sorted(rows, key=lambda row: row.name)), tuple(problems))


def _kinds(session: Session, *, rehearsal_only: bool) -> list[tuple[bool, Connect]]:
    """The embedded cloud if it runs, and the real ones."""
    kinds: list[tuple[bool, Connect]] = []
    if control.running(session.rehearsal_folder) is not None:
        kinds.append((True, session.connect(rehearsal=True)))
    if not rehearsal_only:
        kinds.append((False, session.connect(rehearsal=False)))
    return kinds


def _row(session: Session, i: Instance, notices: tuple[str, ...], known: dict[str, Profile], now: dt.datetime, *, rehearsal: bool) -> Row:
    record = session.journal.get(i.group) if i.group else None
    profile = Profile.model_validate(record.profile) if record and record.launch_id == i.launch_id else known.get(i.profile)
    price = cost.hourly(i, profile)
    return Row(
        name=i.name,
        state=i.state,
        cloud=f"{i.cloud} (rehearsal)" if rehearsal else i.cloud,
        region=i.region,
        zone=i.zone,
        type=i.type,
        market=i.market,
        address=i.address,
        age_h=_age(i, now),
        cost_usd=cost.since(i, price, now),
        deadline=i.deadline,
        owner=i.owner,
        profile=i.profile,
        id=i.id,
        notices=notices,
        way=_way(profile.network, rehearsal=rehearsal) if profile else "",
    )


def _way(network: Network, *, rehearsal: bool) -> str:
    private = "(private)" if network.address == "private" else ""
    return f"{private} {phrase(actual(network, rehearsal=rehearsal))}".strip()


def _age(instance: Instance, now: dt.datetime) -> float:
    return round(max(0.0, (now - dt.datetime.fromisoformat(instance.launched_at)).total_seconds()) / 3600, 2)


def _unfinished(record: Record) -> Row:
    cloud, region = (record.touched or (("", ""),))[-1]
    owner, profile = str(record.profile.get("owner", {}).get("email", "")), str(record.profile.get("name", ""))
    return Row(record.name, "launching?", cloud, region, "", "", "", "", None, None, record.deadline, owner, profile, "")


def known_profiles() -> list[Profile]:
    """The profiles that can be found from here."""
    return [listed.profile for listed in profiles.list_profiles() if listed.profile is not None]


def where(
    session: Session, *, rehearsal: bool, record: Record | None = None, known: Iterable[Profile] | None = None
) -> set[tuple[str, str]]:
    """The regions of the profiles found here (`known`, if they have been read) and of the journal's records of the same kind."""
    records = [kept for kept in session.journal.all() if kept.rehearsal == rehearsal]
    launched = [Profile.model_validate(record.profile)] if record else []
    return regions_of([*launched, *(known_profiles() if known is None else known)], records)


def ours_of(session: Session, name: str, *, rehearsal: bool, say: Say) -> tuple[Ours, set[tuple[str, str]], Record | None]:
    """The clouds in which a name is looked for: where its record says; without one, wherever anything can be.

    Raises:
        RehearsalFailedError: it is in the embedded cloud, and that does not run.
    """
    record = session.journal.of(name)
    rehearsal = record.rehearsal if record else rehearsal
    places = where(session, rehearsal=rehearsal, record=record)
    return Ours(session.connect(rehearsal=rehearsal), say), places if record else places | everywhere(), record


def remove(session: Session, name: str, *, rehearsal: bool, say: Say, agreed: Ask) -> list[str]:
    """Remove everything tagged with a name, and forget it.

    Args:
        session: this user's.
        name: of the launch.
        rehearsal: whether the embedded cloud is meant, where the journal does not know.
        say: told about progress.
        agreed: asked with what would be removed.

    Returns:
        What was removed, a phrase each; empty also when that was not agreed to.

    Raises:
        InstanceNotFoundError: there was nothing.
    """
    with session.journal.hold(name):
        record = session.journal.get(name)
        if (record.rehearsal if record else rehearsal) and control.running(session.rehearsal_folder) is None:
            # Its instances ended with it; what a killed one left on this machine is swept.
            control.stop(session.rehearsal_folder)
            removed = ["what the embedded cloud had left"] if record else []
            destroy(Ours(session.connect(rehearsal=False), say), session.journal, name, ())
        else:
            ours, places, _ = ours_of(session, name, rehearsal=rehearsal, say=say)
            removed = destroy(ours, session.journal, name, places, agreed=agreed)
            if session.journal.get(name) is not None:  # not agreed to
                return []
        _forget(session, [name, *(record.hosts if record else ())])
    return removed


def _forget(session: Session, hosts: list[str]) -> None:
    for host in dict.fromkeys(hosts):
        if session.ssh.knows(host):
            session.ssh.remove(host)


def left_over(session: Session, *, rehearsal: bool, all_owners: bool, say: Say) -> tuple[Ours, list[Left], list[str]]:
    """What `sweep` would remove, and what could not be asked.

    Only things of owners that are known here count: those of the profiles and of the journal.

    Raises:
        CredentialsMissingError, CredentialsExpiredError: nothing at all can be asked.
    """
    records = session.journal.all()
    owners = {profile.owner.email for profile in known_profiles()}
    owners |= {str(record.profile.get("owner", {}).get("email", "")) for record in records}
    busy = {record.launch_id for record in records if session.journal.held(record.name)}
    ours = Ours(session.connect(rehearsal=rehearsal), say)
    places = where(session, rehearsal=rehearsal) | everywhere()
    say(f"looking for what is left in {len(places)} regions")
    return ours, *leftovers(ours, places, owners=None if all_owners else owners, busy=busy, now=dt.datetime.now(dt.UTC))


def sweep(session: Session, ours: Ours, left: list[Left]) -> list[str]:
    """Remove what is left over, and forget the launches that it was of."""
    removed = clear_away(ours, left)
    gone = {item.thing.launch_id for item in left}
    for record in session.journal.all():
        if record.launch_id in gone:
            session.journal.drop(record.name)
            _forget(session, [record.name, *record.hosts])
    return removed

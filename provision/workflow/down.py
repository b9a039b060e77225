"""`down` and `sweep`: remove a launch, or what is of no use any more; everything is found by tag."""

import datetime as dt
from collections.abc import Callable, Mapping

from provision.clouds.base import has_tags
from provision.errors import counted
from provision.launch.lifecycle import destroy, is_gone
from provision.launch.ours import Ours
from provision.launch.regions import everywhere
from provision.launch.sweep import Leftover, clear_away, leftovers
from provision.rehearsal import control
from provision.structs import Struct
from provision.workflow.search import local_profiles, regions, search
from provision.workflow.session import Say, Session


class Leftovers(Struct):
    """What `sweep` would remove, with the clouds that have it; and what did not answer → whether something of ours may be there unseen."""

    ours: Ours
    items: list[Leftover]
    problems: dict[str, bool]


def remove(session: Session, name: str, *, rehearsal: bool, say: Say, confirm: Callable[[list[str]], bool]) -> list[str]:
    """Remove everything that is tagged with a launch's name, and forget the launch.

    `rehearsal` counts only where the journal does not know the launch. `confirm` gets what would be removed, and False ends it.

    Returns:
        What was removed, a phrase each; nothing where that was not confirmed.
    """
    with session.journal.hold(name):
        record = session.journal.get(name)
        if (record.rehearsal if record else rehearsal) and control.running(session.rehearsal_folder) is None:
            # Its instances ended with it; what a killed one left on this machine is swept.
            control.stop(session.rehearsal_folder)
            phrases = ["what the embedded cloud had left"] if record else []
            destroy(Ours(session.connect(rehearsal=False), say), session.journal, name, ())
        else:
            where = search(session, name, rehearsal=rehearsal, say=say)
            phrases = destroy(where.ours, session.journal, name, where.places, agreed=confirm)
            if session.journal.get(name) is not None:  # not confirmed
                return []
        session.forget_hosts([name, *(record.hosts if record else ())])
    return phrases


def find_leftovers(session: Session, *, rehearsal: bool, all_owners: bool, say: Say, tags: Mapping[str, str] | None = None) -> Leftovers:
    """Look for what `sweep` would remove; of all owners, or of those in the profiles and the journal of this machine.

    With `tags` only what has all of them. Not everything can carry tags: a launch has those that any of its things or the journal shows.
    """
    records = session.journal.all()
    owners = {profile.owner.email for profile in local_profiles()}
    owners |= {str(record.profile.get("owner", {}).get("email", "")) for record in records}
    busy = {record.launch_id for record in records if session.journal.held(record.name)}
    ours = Ours(session.connect(rehearsal=rehearsal), say)
    places = regions(session, rehearsal=rehearsal) | everywhere()
    say(f"looking for leftovers in {counted(len(places), 'region')}")
    who = None if all_owners else owners
    mine = [record for record in records if record.rehearsal == rehearsal]
    items, problems = leftovers(ours, places, owners=who, busy=busy, now=dt.datetime.now(dt.UTC), records=mine)
    if not tags:
        return Leftovers(ours, items, problems)
    launches: dict[str, dict[str, str]] = {record.launch_id: dict(record.profile.get("tags") or {}) for record in records}
    for item in items:
        launches.setdefault(item.thing.launch_id, {}).update(item.thing.tags)
    unknown = sorted({str(item.thing) for item in items if not launches[item.thing.launch_id]})
    chosen = [item for item in items if has_tags(launches[item.thing.launch_id], tags)]
    return Leftovers(ours, chosen, problems | {f"{thing}: nothing shows which tags its launch had": False for thing in unknown})


def sweep(session: Session, leftover: Leftovers) -> list[str]:
    """Remove what was found, and forget the launches of which nothing is left; returns a phrase for each thing."""
    phrases = clear_away(leftover.ours, leftover.items)
    launches = {item.thing.launch_id for item in leftover.items}
    for record in session.journal.all():
        if record.launch_id in launches and is_gone(leftover.ours, record):
            session.journal.drop(record.name)
            session.forget_hosts([record.name, *record.hosts])
    return phrases


def stop_rehearsal(session: Session) -> bool:
    """End the embedded cloud, and forget every launch in it; returns whether it was running."""
    running = control.stop(session.rehearsal_folder)
    for record in session.journal.all():
        if record.rehearsal:
            session.journal.drop(record.name)
            session.forget_hosts([record.name, *record.hosts])
    return running

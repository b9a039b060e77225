"""Leftovers: things of launches without a living machine, and machines over their deadline."""

import datetime as dt
from collections.abc import Collection, Iterable

from provision.clouds import base
from provision.errors import CloudError
from provision.launch.journal import Record
from provision.launch.lifecycle import is_gone, remove, things
from provision.launch.ours import Ours, Pair, unanswered
from provision.structs import Struct


class Leftover(Struct):
    """One thing that would be removed, and why."""

    cloud: str
    region: str
    thing: base.Thing
    why: str


def leftovers(
    ours: Ours,
    where: Collection[Pair],
    *,
    owners: Collection[str] | None,
    busy: Collection[str],
    now: dt.datetime,
    records: Collection[Record] = (),
) -> tuple[list[Leftover], dict[str, bool]]:
    """Find what can be removed.

    Args:
        ours: the clouds.
        where: the regions.
        owners: whose things; None for everybody's. Things of others are not looked at.
        busy: ids of launches that are under way on this machine.
        now: an aware time.
        records: the journal's: of a launch in it, a machine is asked for by id before its things count as left.

    Returns:
        The leftovers; and a phrase for each region that did not answer, or odd tag → whether something of ours may be there unseen.
    """
    everything, problems = things(ours, where)
    answers = ours.everywhere(everything, lambda handle: handle.find())
    machines = [instance for answer in answers.values() if not isinstance(answer, CloudError) for instance in answer]
    silent = {pair: answer for pair, answer in answers.items() if isinstance(answer, CloudError)}
    # A launch is over only if the deadlines of all its machines can be read, and all of them have passed.
    not_over = {i.launch_id for i in machines if not _over(i.deadline, now)} | {t.launch_id for pair in silent for t in everything[pair]}
    over = {i.launch_id for i in machines} - not_over
    living = {thing.launch_id for group in everything.values() for thing in group if thing.kind == "instance" and thing.alive}
    items = [
        Leftover(*pair, thing, "its deadline is over" if thing.launch_id in over else "its launch has no machine")
        for pair, group in everything.items()
        for thing in group
        if thing.launch_id not in busy and (owners is None or thing.owner in owners)
        if thing.alive and (thing.launch_id in over or thing.launch_id not in living)
    ]
    suspects = {item.thing.launch_id for item in items} - over
    late = {record.launch_id for record in records if record.launch_id in suspects and not is_gone(ours, record, "instance")}
    items = [item for item in items if item.thing.launch_id not in late]
    items.sort(key=lambda item: (item.thing.group, item.region, item.thing.kind))
    heard = {**dict.fromkeys(ours.once(where)), **problems, **silent}
    hiding = ours.hiding(heard, {pair for record in records for pair in record.regions})
    unread = {
        f"{i.region}: the deadline of {i.name} ({i.id}) cannot be read, so nothing of it is swept": False
        for i in machines
        if "deadline" in i.odd and (owners is None or i.owner in owners)
    }
    return items, {phrase: not hiding.keys().isdisjoint(pairs) for phrase, pairs in unanswered(heard).items()} | unread


def _over(deadline: str, now: dt.datetime) -> bool:
    """Whether a deadline has passed; one that cannot be read has not."""
    moment = base.parsed_deadline(deadline)
    return moment is not None and moment < now


def clear_away(ours: Ours, items: Iterable[Leftover]) -> list[str]:
    """Remove leftovers, all regions at the same time; returns a phrase for each."""
    by_region: dict[Pair, list[base.Thing]] = {}
    for item in items:
        by_region.setdefault((item.cloud, item.region), []).append(item.thing)
    return remove(ours, by_region)

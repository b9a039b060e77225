"""What is ours and of no use to anybody: things of launches without a living machine, and machines over their deadline."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from provision.clouds import base
from provision.errors import CloudError
from provision.launch.lifecycle import remove, things
from provision.launch.ours import Ours

__all__ = ["Left", "clear_away", "leftovers"]

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that would be removed, and why."""

    cloud: str
    region: str
    thing: base.Thing
    why: str


def leftovers(
    ours: Ours, where: Iterable[Pair], *, owners: Collection[str] | None, busy: Collection[str], now: dt.datetime
) -> tuple[list[Left], list[str]]:
    """What can be removed, and a phrase for each region that could not be asked.

    Args:
        ours: the clouds.
        where: the regions.
        owners: whose things; None for everybody's. Things of others are not looked at.
        busy: ids of launches that are under way on this machine.
        now: an aware time.
    """
    pairs = set(where)
    found, problems = things(ours, pairs)
    machines = [
        i for answer in ours.everywhere(found, lambda handle: handle.find()).values() if not isinstance(answer, CloudError) for i in answer
    ]
    over = {i.launch_id for i in machines if _over(i.deadline, now)} - {i.launch_id for i in machines if not _over(i.deadline, now)}
    mine = [
        (pair, thing)
        for pair, listed in found.items()
        for thing in listed
        if thing.launch_id not in busy and (owners is None or thing.owner in owners)
    ]
    living = {thing.launch_id for listed in found.values() for thing in listed if thing.kind == "instance" and thing.alive}
    left = [
        Left(*pair, thing, "its deadline is over" if thing.launch_id in over else "its launch has no machine")
        for pair, thing in mine
        if thing.alive and (thing.launch_id in over or thing.launch_id not in living)
    ]
    return sorted(left, key=lambda x: (x.thing.group, x.region, x.thing.kind)), [
        f"{region}: {e.message}" for (_, region), e in problems.items()
    ]


def _over(deadline: str, now: dt.datetime) -> bool:
    """Whether a deadline has passed; one that cannot be read has not."""
    try:
        return dt.datetime.fromisoformat(deadline) < now
    except (ValueError, TypeError):
        return False


def clear_away(ours: Ours, left: Iterable[Left]) -> list[str]:
    """Remove what was found, all regions at the same time; returns a phrase for each."""
    by_region: dict[Pair, list[base.Thing]] = {}
    for item in left:
        by_region.setdefault((item.cloud, item.region), []).append(item.thing)
    return remove(ours, by_region)

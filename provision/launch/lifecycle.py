"""What becomes of machines that exist: listed, stopped, started, kept longer, let in to, removed. Everything is found by tag."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from provision.clouds import base
from provision.errors import (
    CloudError,
    CredentialsExpiredError,
    CredentialsMissingError,
    InstanceNotFoundError,
    UsageError,
)
from provision.launch.journal import Journal, Record
from provision.launch.ours import Ours, oldest_first
from provision.launch.place import Attempt
from provision.launch.regions import Connect, everywhere, regions_of

__all__ = ["Attempt", "Connect", "allow", "destroy", "everywhere", "extend", "machines", "regions_of", "start", "stop", "survey", "things"]

T = TypeVar("T")
Pair = tuple[str, str]
_POWER_S: Final = 600.0  # a machine with much memory takes minutes to stop


def survey(ours: Ours, where: Iterable[Pair]) -> tuple[list[base.Instance], dict[str, tuple[str, ...]], list[str]]:
    """All our machines in the regions, asked at the same time; what the clouds announced about them; and what could not be asked.

    Returns:
        The machines by name, machine id → notices, and a phrase for each region or cloud that was not asked.
    """
    notices: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []

    def ask(handle: base.Cloud) -> list[base.Instance]:
        found = handle.find()
        try:
            notices.update(handle.notices(found) if found else {})
        except CloudError as error:
            problems.append(f"{handle.region}: notices: {error.message}")
        return found

    pairs = set(where)
    # One region of each cloud first, which need not be enabled: without credentials, looking for them in all takes minutes.
    first = {cloud: min(p for p in pairs if p[0] == cloud) for cloud in {cloud for cloud, _ in pairs}}
    first |= {cloud: min(sure) for cloud in first if (sure := {p for p in pairs & everywhere() if p[0] == cloud})}
    answers = ours.everywhere(first.values(), ask)
    without = {p[0] for p, answer in answers.items() if isinstance(answer, CredentialsMissingError | CredentialsExpiredError)}
    answers |= ours.everywhere({p for p in pairs if p[0] not in without and p not in answers and not _whole(ours, p, answers)}, ask)
    found: list[base.Instance] = []
    for (cloud, region), answer in answers.items():
        if cloud in without and isinstance(answer, CloudError):
            problems.append(f"{cloud}: {answer.message}")
        elif isinstance(answer, CloudError):
            problems.append(f"{region}: {answer.message}")
        else:
            found += answer
    return oldest_first(found), notices, list(dict.fromkeys(problems))


def _whole(ours: Ours, pair: Pair, asked: Iterable[Pair]) -> bool:
    """Whether a region's whole cloud has answered already."""
    return pair[0] in {cloud for cloud, _ in asked} and ours.handle(pair).spans == "project"


def machines(ours: Ours, name: str, where: Iterable[Pair]) -> list[base.Instance]:
    """The machines of a launch, or one of them by its own name.

    Raises:
        InstanceNotFoundError: there is none.
        CloudError: a region could not be asked.
    """
    pairs = set(where)
    found = ours.look(name, pairs)
    if not found and name.rpartition("-")[2].isdigit():
        found = [instance for instance in ours.look(name.rpartition("-")[0], pairs) if instance.name == name]
    if not found:
        msg = f"no instance called {name!r} was found"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
    return found


def things(ours: Ours, where: Iterable[Pair], name: str | None = None) -> tuple[dict[Pair, list[base.Thing]], dict[Pair, CloudError]]:
    """Everything of ours by region, and the regions that could not be asked."""

    def ask(handle: base.Cloud) -> list[base.Thing]:
        what = f"looking for what is ours in {handle.region}"
        return ours.patience.ask(lambda: handle.things(name), on_step=ours.on_step, what=what, repeat_unanswered=False)

    found: dict[Pair, list[base.Thing]] = {}
    problems: dict[Pair, CloudError] = {}
    for pair, answer in ours.everywhere(where, ask).items():
        if isinstance(answer, CloudError):
            problems[pair] = answer
        elif answer:
            found[pair] = answer
    return found, problems


def remove(ours: Ours, found: dict[Pair, list[base.Thing]]) -> list[str]:
    """Remove things, all regions at the same time; returns a phrase for each.

    Raises:
        CloudError: of the first region in which it could not be done, after all others were.
    """

    def one(pair: Pair) -> list[str] | CloudError:
        handle = ours.handle(pair)
        try:
            return ours.patience.ask(
                lambda: handle.remove(found[pair], on_step=ours.on_step), on_step=ours.on_step, what=f"removing in {handle.region}"
            )
        except CloudError as error:
            return error

    if not found:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(found)), thread_name_prefix="remove") as pool:
        answers = list(pool.map(one, found))
    for answer in answers:
        if isinstance(answer, CloudError):
            raise answer
    return [phrase for answer in answers if not isinstance(answer, CloudError) for phrase in answer]


def destroy(
    ours: Ours, journal: Journal, name: str, where: Iterable[Pair], *, agreed: Callable[[list[str]], bool] = lambda _: True
) -> list[str]:
    """Remove everything tagged with a name in the regions, and forget it; unless that is not agreed to.

    Raises:
        InstanceNotFoundError: there was nothing, neither at the clouds nor in the journal.
        CloudError: a region where something of it was launched could not be asked, or did not remove; the journal keeps it.
    """
    known = journal.get(name)
    ours.on_step(f"looking for {name}")
    found, problems = things(ours, where, name)
    listed = [str(thing) for of_region in found.values() for thing in of_region if thing.alive]
    if listed and not agreed(listed):
        return []
    removed = remove(ours, found)
    needed = known.regions if known else set()
    for pair, problem in problems.items():
        if pair in needed or len(problems) == len(ours.once(where)):
            raise problem
        ours.on_step(f"not asked: {pair[1]}: {problem.message}")
    journal.drop(name)
    if not removed and known is None:
        msg = f"nothing called {name!r} was found"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
    return removed


def _each(found: Sequence[base.Instance], act: Callable[[Pair, list[base.Instance]], T]) -> list[T]:
    """Act in each region with its machines, all at the same time.

    Raises:
        CloudError: of the first that failed, after the others were done.
    """
    by_region: dict[Pair, list[base.Instance]] = {}
    for instance in found:
        by_region.setdefault((instance.cloud, instance.region), []).append(instance)
    with ThreadPoolExecutor(max_workers=min(16, len(by_region)), thread_name_prefix="each") as pool:
        running = [pool.submit(act, pair, members) for pair, members in by_region.items()]
    return [future.result() for future in running]


def stop(ours: Ours, found: Sequence[base.Instance]) -> None:
    """Power machines off and wait until they are."""
    _each(found, lambda pair, members: ours.handle(pair).stop(members, timeout_s=_POWER_S))


def start(ours: Ours, found: Sequence[base.Instance]) -> list[base.Instance]:
    """Power machines on and wait until they run; they may have other addresses."""
    started = _each(found, lambda pair, members: ours.handle(pair).start(members, timeout_s=_POWER_S))
    return oldest_first(instance for members in started for instance in members)


def extend(ours: Ours, found: Sequence[base.Instance], deadline: dt.datetime) -> None:
    """Move the deadline at the cloud and in the tag; the timer on the hosts is the caller's to move."""
    _each(found, lambda pair, members: ours.handle(pair).extend(members, deadline))


def new_deadline(found: Sequence[base.Instance], deadline_h: int, more: dt.timedelta, now: dt.datetime) -> dt.datetime:
    """The deadline so much later. Never is more time left than the profile gives a launch: whoever needs more comes back and asks again.

    Raises:
        UsageError: more would be left, or the deadline is over already.
    """
    current = min(dt.datetime.fromisoformat(instance.deadline) for instance in found)
    latest = now + dt.timedelta(hours=deadline_h)
    if current <= now:
        msg = f"{found[0].group!r} should have ended at {current:%Y-%m-%d %H:%M} UTC"
        raise UsageError(msg, hint="it is ending; `gpuprov up` launches anew")
    if current + more > latest:
        left = max(dt.timedelta(0), latest - current)
        hours = left.total_seconds() / 3600
        msg = f"the profile lets a machine run {deadline_h} h ahead at most, until {latest:%Y-%m-%d %H:%M} UTC: {hours:.1f} h more"
        raise UsageError(msg, hint="what was signed is never exceeded: extend by less, and again later")
    return (current + more).replace(microsecond=0)


def allow(ours: Ours, name: str, found: Sequence[base.Instance], networks: Sequence[str]) -> dict[Pair, list[str]]:
    """Open port 22 of a launch to exactly these networks; returns what is open by region."""
    opened = _each(found, lambda pair, _: (pair, ours.handle(pair).allow(name, networks)))
    return dict(opened)


def regions_for(record: Record | None, profiled: set[Pair]) -> set[Pair]:
    """Where a name is looked for: where its record says, or wherever anything can be."""
    return record.regions | profiled if record is not None else profiled | everywhere()

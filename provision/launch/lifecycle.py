"""What becomes of machines that exist: list, stop, start, extend, allow, remove. Everything is found by tag."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from provision.clouds import base
from provision.clouds.polling import poll
from provision.concurrent import at_once
from provision.errors import (
    CapacityError,
    CloudError,
    CredentialsExpiredError,
    CredentialsMissingError,
    InstanceNotFoundError,
    ShortageError,
    UsageError,
)
from provision.launch.journal import Journal, Record
from provision.launch.ours import Ours, Pair, oldest_first, unanswered
from provision.launch.regions import everywhere

T = TypeVar("T")
_POWER_S: Final = 600.0  # a machine with much memory takes minutes to stop


def survey(ours: Ours, where: Iterable[Pair]) -> tuple[list[base.Instance], dict[str, tuple[str, ...]], dict[str, str]]:
    """Find all our machines, in all regions at the same time.

    Returns:
        The machines, the oldest launch first; machine id → what the cloud announced about it; and a phrase for each region or cloud
        that did not answer → the cloud where it is not set up here, and "" where it is.
    """
    notices: dict[str, tuple[str, ...]] = {}
    problems: dict[str, str] = {}

    def ask(handle: base.Cloud) -> list[base.Instance]:
        instances = handle.find()
        try:
            notices.update(handle.notices(instances) if instances else {})
        except CloudError as error:
            problems[f"{handle.region}: notices: {error.message}"] = ""
        return instances

    pairs = set(where)
    # Without credentials, the search for them in every region takes minutes.
    answers = ours.everywhere(first_regions(pairs), ask)
    without = {p[0] for p, answer in answers.items() if isinstance(answer, CredentialsMissingError | CredentialsExpiredError)}
    complete = {p[0] for p in answers if ours.handle(p).spans == "project"}
    answers |= ours.everywhere({p for p in pairs if p[0] not in without | complete and p not in answers}, ask)
    for phrase, (pair, *_) in unanswered(answers).items():
        problems[phrase] = pair[0] if isinstance(answers[pair], base.NotSetUpError) else ""
    instances = [instance for answer in answers.values() if not isinstance(answer, CloudError) for instance in answer]
    return oldest_first(instances), notices, problems


def first_regions(pairs: set[Pair]) -> set[Pair]:
    """One region of each cloud, where there is one that need not be enabled: what is asked first, to learn whether the cloud answers."""
    first = {cloud: min(p for p in pairs if p[0] == cloud) for cloud in {cloud for cloud, _ in pairs}}
    first |= {cloud: min(sure) for cloud in first if (sure := {p for p in pairs & everywhere() if p[0] == cloud})}
    return set(first.values())


def machines(ours: Ours, name: str, where: Iterable[Pair], known: str = "") -> list[base.Instance]:
    """The machines of a launch, or one of them by its own name; where there is none, `known` says which were launched from here.

    Raises:
        InstanceNotFoundError: there is none.
        CloudError: a region did not answer.
    """
    pairs = set(where)
    instances = ours.look(name, pairs)
    if not instances and name.rpartition("-")[2].isdigit():
        instances = [instance for instance in ours.look(name.rpartition("-")[0], pairs) if instance.name == name]
    if not instances:
        msg = f"no instance called {name!r} was found{known}"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` lists all instances")
    return instances


def things(
    ours: Ours, where: Iterable[Pair], name: str | None = None, record: Record | None = None
) -> tuple[dict[Pair, list[base.Thing]], dict[Pair, CloudError]]:
    """Everything of ours by region, by tag and as the record of a launch knows it, and the error of each region that did not answer."""

    def ask(handle: base.Cloud) -> list[base.Thing]:
        what = f"looking for what is ours in {handle.region}"
        known = ours.known(record, handle) if record else None
        return ours.patience.ask(lambda: handle.things(name, known), on_step=ours.on_step, what=what, repeat_unanswered=False)

    by_region: dict[Pair, list[base.Thing]] = {}
    problems: dict[Pair, CloudError] = {}
    for pair, answer in ours.everywhere(where, ask).items():
        if isinstance(answer, CloudError):
            problems[pair] = answer
        elif answer:
            by_region[pair] = answer
    return by_region, problems


def is_gone(ours: Ours, record: Record, kind: str = "") -> bool:
    """Whether every cloud of a launch answers that nothing of it is there; or no thing of one kind."""
    found, problems = things(ours, record.regions, record.name, record)
    mine = (thing for members in found.values() for thing in members if thing.launch_id == record.launch_id and thing.alive)
    return not problems and all(kind and thing.kind != kind for thing in mine)


def remove(ours: Ours, by_region: dict[Pair, list[base.Thing]]) -> list[str]:
    """Remove things, all regions at the same time; returns a phrase for each.

    Raises:
        CloudError: of the first region that failed, after all of them have ended.
    """

    def one(pair: Pair) -> list[str]:
        handle = ours.handle(pair)
        what = f"removing in {handle.region}"
        return ours.patience.ask(lambda: handle.remove(by_region[pair], on_step=ours.on_step), on_step=ours.on_step, what=what)

    return [phrase for phrases in at_once(one, by_region) for phrase in phrases]


def destroy(
    ours: Ours, journal: Journal, name: str, where: Iterable[Pair], *, agreed: Callable[[list[str]], bool] = lambda _: True
) -> list[str]:
    """Remove everything with a launch's tag in the regions, and forget the launch.

    Args:
        ours: the clouds.
        journal: holds the launch's record.
        name: of the launch.
        where: the regions.
        agreed: gets what would be removed; False ends it before anything is removed.

    Raises:
        InstanceNotFoundError: nothing was there, neither at the clouds nor in the journal.
        CloudError: a region or cloud of the launch did not answer, or removed nothing. The journal keeps the record.
    """
    record, where = journal.get(name), set(where)
    ours.on_step(f"looking for {name}")
    _wait_for_attempt(ours, record)
    by_region, problems = things(ours, where, name, record)
    if record is None and by_region and not _machines_in(by_region):  # of a launch that somebody else may just have made
        ours.on_step(f"no machine of {name} is in sight: waiting up to {ours.patience.shown_s:.0f} s for one")
        late = poll(lambda: things(ours, by_region, name), lambda found: bool(_machines_in(found[0])), timeout_s=ours.patience.shown_s)
        by_region, problems = by_region | late[0], problems | late[1]
    phrases = [str(thing) for members in by_region.values() for thing in members if thing.alive]
    if phrases and not agreed(phrases):
        return []
    removed = remove(ours, by_region)
    hiding = ours.hiding({**dict.fromkeys(ours.once(where)), **problems}, record.regions if record else ())
    for pair, problem in problems.items():
        if pair in hiding and (record is None or len(problems) == len(ours.once(where)) or ours.sees(pair, record.regions)):
            there = [machine.id for machine in record.machines if machine.cloud == pair[0]] if record else []
            msg = f"{problem.message}; what {name!r} has there may still run{': ' if there else ''}{', '.join(there)}"
            raise type(problem)(msg, hint=f"{problem.hint}; then `gpuprov down {name}` again", detail=problem.detail) from problem
        ours.on_step(f"no answer from {pair[1]}: {problem.message}")
    journal.drop(name)
    if not removed and record is None:
        msg = f"nothing called {name!r} was found; it was not launched from here{journal.known(name)}"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` lists all instances")
    return removed


def _machines_in(by_region: dict[Pair, list[base.Thing]]) -> set[str]:
    return {thing.id for members in by_region.values() for thing in members if thing.kind == "instance"}


def _wait_for_attempt(ours: Ours, record: Record | None) -> None:
    """Give a cloud time to show what an attempt made that nobody heard the end of; it may be on its way still."""
    pending = record.pending if record else None
    if record is None or pending is None or not pending.at:
        return
    cloud = next((cloud for cloud, region in reversed(record.touched) if region == pending.region), "")
    late_s = ours.patience.shown_s - (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(pending.at)).total_seconds()
    known = {machine.id for machine in record.machines}

    def made() -> int:
        by_region, problems = things(ours, [(cloud, pending.region)], record.name, record)
        return pending.count if problems else len(_machines_in(by_region) - known)

    if late_s > 0:
        ours.on_step(f"an attempt in {pending.region} was cut off: waiting up to {late_s:.0f} s for what it may have made")
        poll(made, lambda number: number >= pending.count, timeout_s=late_s)


def _each(instances: Sequence[base.Instance], act: Callable[[Pair, list[base.Instance]], T]) -> list[T]:
    """Act in each region with its machines, all at the same time.

    Raises:
        CloudError: of the first region that failed, after all of them have ended.
    """
    by_region: dict[Pair, list[base.Instance]] = {}
    for instance in instances:
        by_region.setdefault((instance.cloud, instance.region), []).append(instance)
    return at_once(lambda pair: act(pair, by_region[pair]), by_region)


def stop(ours: Ours, instances: Sequence[base.Instance]) -> None:
    """Power machines off and wait until they are."""
    _each(instances, lambda pair, members: ours.handle(pair).stop(members, timeout_s=_POWER_S))


def start(ours: Ours, instances: Sequence[base.Instance]) -> list[base.Instance]:
    """Power machines on and wait until they run; they may have other addresses.

    Raises:
        ShortageError: there is no room, or a limit is reached. Its hint names no other place, because a machine's disks stay where it is.
    """
    try:
        answers = _each(instances, lambda pair, members: ours.handle(pair).start(members, timeout_s=_POWER_S))
    except ShortageError as error:
        later = (
            "try again later"
            if isinstance(error, CapacityError)
            else "ask the cloud for more, or remove what is no longer used (`gpuprov ls`)"
        )
        error.hint = f"{later}: its disks are where it is, so it starts in no other place; a new machine of `gpuprov up` may be in one"
        raise
    return oldest_first(instance for members in answers for instance in members)


def extend(ours: Ours, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
    """Move the deadline at the cloud and in the tag; the caller moves the timer on the hosts."""
    _each(instances, lambda pair, members: ours.handle(pair).extend(members, deadline))


def new_deadline(instances: Sequence[base.Instance], deadline_h: int, more: dt.timedelta | None, now: dt.datetime) -> dt.datetime:
    """The deadline moved as `moved` does. It is never further away than the profile allows a new launch; it can be extended again later.

    Where somebody made the tag of a deadline unreadable, the new one counts from now.

    Raises:
        UsageError: it would be further away, or it is over already.
    """
    current = min(base.parsed_deadline(instance.deadline) or now for instance in instances)
    return moved(instances[0].group, current, deadline_h, more, now)


def moved(name: str, current: dt.datetime, deadline_h: int, more: dt.timedelta | None, now: dt.datetime) -> dt.datetime:
    """The deadline of anything, moved by `more` within the length that its profile allows; without it as far as that goes.

    Raises:
        UsageError: it would be further away, or it is over already.
    """
    latest = now + dt.timedelta(hours=deadline_h)
    if current <= now:
        msg = f"{name!r} should have ended at {current:%Y-%m-%d %H:%M} UTC"
        raise UsageError(msg, hint="it is ending; `gpuprov up` launches another one")
    if more is None and current <= latest:
        return latest.replace(microsecond=0)
    if more is None or current + more > latest:
        hours = max(dt.timedelta(0), latest - current).total_seconds() / 3600
        msg = f"the profile lets a machine run {deadline_h} h ahead at most, until {latest:%Y-%m-%d %H:%M} UTC: {hours:.1f} h more"
        raise UsageError(msg, hint="the limit of a signed profile is never exceeded: extend by less now, and again later")
    return (current + more).replace(microsecond=0)


def allow(ours: Ours, name: str, instances: Sequence[base.Instance], networks: Sequence[str]) -> dict[Pair, list[str]]:
    """Open port 22 of a launch to exactly these networks; returns the open networks by region."""
    return dict(_each(instances, lambda pair, _: (pair, ours.handle(pair).allow(name, networks))))

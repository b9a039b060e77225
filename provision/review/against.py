"""What changed between two reviews, and what that means: computed from their values, never from their text."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

from provision.profile.differences import compare
from provision.profile.locked import Lock
from provision.review.tree import SEVERITIES, DiskItem, EnvironmentItem, PackageItem, PlaceItem, Review
from provision.structs import Struct, asdict, replace

T = TypeVar("T")
Direction = Literal["wider", "narrower", "other"]
# What the top-level keys of a lock are about; all others are about software.
_SUBJECTS: Final = {"places": "places", "counters": "risks", "warnings": "risks", "unresolved": "risks"}


class Shift(Struct):
    """One thing that changed.

    Attributes:
        subject: risks, price, exposure, places, software, host, proof, permissions, fleet or profile.
        direction: whether it allows more than before (`wider`), less, or neither.
        text: what changed, from what to what.
        means: what follows from it; empty when that is plain.
    """

    subject: str
    direction: Direction
    text: str
    means: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The shift as JSON-compatible data."""
        return asdict(self)


def shifts(old: Review, new: Review) -> tuple[Shift, ...]:
    """Everything that differs, in the order of the page."""
    parts = (_profile, _risks, _places, _disks, _price, _exposure, _software, _host, _proof, _permissions, _fleet)
    return tuple(shift for part in parts for shift in part(old, new))


def of_locks(old: Lock, new: Lock) -> tuple[Shift, ...]:
    """What differs between two locks alone, where there is no profile to read the rest from."""
    return tuple(
        Shift(_SUBJECTS.get(each.key[0], "software"), "other", str(each), "the same version with other hashes" if each.only_hashes else "")
        for each in compare(old.as_dict(), new.as_dict())
        if each.key not in {("catalogue",), ("profile", "sha256")}
    )


def as_reviewed(review: Review, written: bytes) -> Review:
    """A review that was made again, with the prices of its earlier `review.json`: the catalog may have other prices by now.

    The file may be from any version. Without usable prices the review stays as it is.
    """
    try:
        rows = json.loads(written)["places"]
        prices = {(r["cloud"], r["region"], r["instance_type"], r["market"]): (r["usd_per_hour"], r["usd_to_deadline"]) for r in rows}
    except (ValueError, KeyError, TypeError):
        return review

    def priced(place: PlaceItem) -> PlaceItem:
        hourly, to_deadline = prices.get(_place(place), (place.usd_per_hour, place.usd_to_deadline))
        if not all(figure is None or isinstance(figure, int | float) for figure in (hourly, to_deadline)):
            return place
        return replace(place, usd_per_hour=hourly, usd_to_deadline=to_deadline)

    return replace(review, places=tuple(priced(place) for place in review.places))


def _place(place: PlaceItem) -> tuple[str, str, str, str]:
    return place.cloud, place.region, place.instance_type, place.market


def _compared(old: Iterable[T], new: Iterable[T], key: Callable[[T], Hashable]) -> tuple[Iterator[T], Iterator[T], Iterator[tuple[T, T]]]:
    """What was added, what was removed, and what changed, by a key."""
    before, after = {key(each): each for each in old}, {key(each): each for each in new}
    return (
        (each for name, each in after.items() if name not in before),
        (each for name, each in before.items() if name not in after),
        ((each, after[name]) for name, each in before.items() if name in after and after[name] != each),
    )


def _profile(old: Review, new: Review) -> Iterator[Shift]:
    for name in ("profile", "purpose", "owner", "owner_email", "system", "gpu"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield Shift("profile", "other", f"{name.replace('_', ' ')}: {before} → {after}")


def _risks(old: Review, new: Review) -> Iterator[Shift]:
    # A line that moved does not change the risk.
    was, now = ([replace(risk, line=None, written=True) for risk in review.risks] for review in (old, new))
    additions, removals, pairs = _compared(was, now, lambda risk: (risk.id, risk.title, risk.key))
    for risk in additions:
        yield Shift("risks", "wider", f"new, {risk.severity}: {risk.title}", risk.reason)
    for risk in removals:
        yield Shift("risks", "narrower", f"gone, {risk.severity}: {risk.title}")
    for before, after in pairs:
        if before.severity != after.severity:
            worse = SEVERITIES.index(after.severity) < SEVERITIES.index(before.severity)
            text = f"{after.title}: {before.severity} → {after.severity}"
            yield Shift("risks", "wider" if worse else "narrower", text, after.reason)
        elif before.reason != after.reason:
            yield Shift("risks", "other", f"{after.title}, for another reason: {after.reason}", f"before: {before.reason}")
        else:
            yield Shift("risks", "other", f"{after.title}, to reduce it: {before.narrower} → {after.narrower}")


def _places(old: Review, new: Review) -> Iterator[Shift]:
    additions, removals, pairs = _compared(old.places, new.places, _place)
    for place in additions:
        yield Shift("places", "wider", f"added: {' '.join(_place(place))}", "the machine may be launched there")
    for place in removals:
        yield Shift("places", "narrower", f"removed: {' '.join(_place(place))}")
    for before, after in pairs:
        name = " ".join(_place(after))
        if (before.image, before.image_id) != (after.image, after.image_id):
            images = f"{before.image_id or before.image} → {after.image_id or after.image}"
            means = "pinned by its id now" if after.image_id and not before.image_id else "the machine boots another image"
            yield Shift("places", "other", f"image of {name}: {images}", means)
        if before.passed_over != after.passed_over:
            yield Shift("places", "other", f"{name}: {before.passed_over or 'tried'} → {after.passed_over or 'tried'}")


def _disks(old: Review, new: Review) -> Iterator[Shift]:
    def size(disk: DiskItem) -> str:
        return f"{disk.size_gb} GB" if disk.size_gb else "of the machine type's size"

    additions, removals, pairs = _compared(old.disks, new.disks, lambda disk: disk.what)
    for disk in additions:
        yield Shift("places", "other", f"added: {disk.what} at {disk.mount}, {size(disk)}")
    for disk in removals:
        yield Shift("places", "other", f"removed: {disk.what} at {disk.mount}")
    for pair in pairs:
        was, now = (f"{size(disk)}, {disk.filesystem} at {disk.mount}" for disk in pair)
        yield Shift("places", "other", f"{pair[1].what}: {was} → {now}")


def _price(old: Review, new: Review) -> Iterator[Shift]:
    def shift(name: str, before: float | None, after: float | None, unit: str = "", *, percent: bool = False) -> Shift:
        text = f"{name}: {_usd(before)} → {_usd(after)}{unit}"
        if before is None or after is None:
            return Shift("price", "other", text)
        share = f"{abs(after - before) / before:.0%} {'dearer' if after > before else 'cheaper'}" if percent and before else ""
        return Shift("price", "wider" if after > before else "narrower", text, share)

    _, _, pairs = _compared(old.places, new.places, _place)
    for before, after in pairs:
        if before.usd_per_hour != after.usd_per_hour:
            yield shift(" ".join(_place(after)), before.usd_per_hour, after.usd_per_hour, " an hour", percent=True)
    was, now = old.money, new.money
    if was.limit_usd_per_hour != now.limit_usd_per_hour:
        yield shift("limit", was.limit_usd_per_hour, now.limit_usd_per_hour, " an hour")
    if was.deadline_h != now.deadline_h:
        longer = now.deadline_h > was.deadline_h
        yield Shift("price", "wider" if longer else "narrower", f"deadline: {was.deadline_h} h → {now.deadline_h} h")
    yield from _machines(was.machines, now.machines)
    if was.limit_to_deadline_usd != now.limit_to_deadline_usd:
        yield shift("limit to the deadline", was.limit_to_deadline_usd, now.limit_to_deadline_usd, percent=True)
    if was.ceiling_usd is None and now.ceiling_usd is not None:
        yield Shift("price", "narrower", "the ceiling is enforced now")
    if was.ceiling_usd is not None and now.ceiling_usd is None:
        yield Shift("price", "wider", "the ceiling is no longer enforced")


def _machines(was: int | None, now: int | None) -> Iterator[Shift]:
    if was != now:
        wider = now is None or (was is not None and now > was)
        text = f"machines of one launch: {was or 'any number'} → {now or 'any number'}"
        yield Shift("price", "wider" if wider else "narrower", text)


def _usd(figure: float | None) -> str:
    return "not known" if figure is None else f"{figure:.2f} USD"


def _exposure(old: Review, new: Review) -> Iterator[Shift]:
    additions, removals, _ = _compared(old.doors, new.doors, lambda door: (door.direction, door.port, door.network))
    for door in additions:
        yield Shift("exposure", "wider", f"opened: {door.port} from {door.network}", door.meaning)
    for door in removals:
        yield Shift("exposure", "narrower", f"closed: {door.port} from {door.network}", door.meaning)
    for login in sorted(set(new.logins) - set(old.logins)):
        yield Shift("exposure", "wider", f"login added: {login}")
    for login in sorted(set(old.logins) - set(new.logins)):
        yield Shift("exposure", "narrower", f"login removed: {login}")


def _software(old: Review, new: Review) -> Iterator[Shift]:
    was, now = dict(old.stack), dict(new.stack)
    for part in dict.fromkeys((*was, *now)):
        if was.get(part) != now.get(part):
            yield Shift("software", "other", f"{part}: {was.get(part, 'none')} → {now.get(part, 'none')}")
    yield from _repositories(old, new)
    yield from _packages(old, new)
    then = {environment.name: environment for environment in old.environments}
    today = {environment.name: environment for environment in new.environments}
    for name in dict.fromkeys((*then, *today)):
        yield from _wheels(name, then.get(name), today.get(name))


def _packages(old: Review, new: Review) -> Iterator[Shift]:
    def origin(package: PackageItem) -> str:
        return f"{package.version or 'the newest available'} from {package.origin}"

    additions, removals, pairs = _compared(old.packages, new.packages, lambda package: package.name)
    for package in additions:
        yield Shift("software", "other", f"package added: {package.name} {package.version or ''}".rstrip(), f"from {package.origin}")
    for package in removals:
        yield Shift("software", "other", f"package removed: {package.name}")
    for before, after in pairs:
        if origin(before) != origin(after):
            yield Shift("software", "other", f"package {after.name}: {origin(before)} → {origin(after)}")


def _repositories(old: Review, new: Review) -> Iterator[Shift]:
    additions, removals, pairs = _compared(old.repositories, new.repositories, lambda each: (each.kind, each.name, each.url))
    for repository in additions:
        yield Shift("software", "wider", f"repository added: {repository.name} at {repository.url}", f"trusted by {repository.trust}")
    for repository in removals:
        yield Shift("software", "narrower", f"repository removed: {repository.name} at {repository.url}")
    for before, after in pairs:
        yield Shift("software", "wider", f"repository {after.name}: {before.trust} → {after.trust}", "another key is trusted")


def _wheels(name: str, old: EnvironmentItem | None, new: EnvironmentItem | None) -> Iterator[Shift]:
    if old and new and old.index != new.index:
        yield Shift("software", "other", f"{name}: wheels from {old.index} → {new.index}", "each wheel must still have a hash of the lock")
    additions, removals, pairs = _compared(old.wheels if old else (), new.wheels if new else (), lambda wheel: wheel.name)
    for wheel in additions:
        yield Shift("software", "other", f"{name}: {wheel.name} {wheel.version} added")
    for wheel in removals:
        yield Shift("software", "other", f"{name}: {wheel.name} {wheel.version} removed")
    for before, after in pairs:
        if before.version == after.version:
            means = "the same version with other contents: ask why"
            yield Shift("software", "wider", f"{name}: {after.name} {after.version} has other hashes", means)
        else:
            yield Shift("software", "other", f"{name}: {after.name} {before.version} → {after.version}")


def _host(old: Review, new: Review) -> Iterator[Shift]:
    additions, removals, pairs = _compared(old.changes, new.changes, lambda change: (change.role, change.kind, change.target))
    for change in additions:
        yield Shift("host", "other", f"{change.role} also changes {change.kind} {change.target}", change.says)
    for change in removals:
        yield Shift("host", "other", f"{change.role} no longer changes {change.kind} {change.target}")
    for before, after in pairs:
        if before.says != after.says:
            yield Shift("host", "other", f"{after.target}: {before.says} → {after.says}")
    if old.reboots != new.reboots:
        yield Shift("host", "other", f"reboots: {old.reboots} → {new.reboots} at most")


def _proof(old: Review, new: Review) -> Iterator[Shift]:
    if old.tier != new.tier:
        yield Shift("proof", "other", f"tier: {old.tier} → {new.tier}")
    was_judged = {control.check: control.applies for control in old.controls}
    for control in new.controls:
        if control.applies and not was_judged.get(control.check):
            yield Shift("proof", "narrower", f"{control.check} is judged now")
        elif was_judged.get(control.check) and not control.applies:
            yield Shift("proof", "wider", f"{control.check} is no longer judged", control.why)
    was, now = ([replace(waiver, line=None) for waiver in review.waivers] for review in (old, new))
    additions, removals, pairs = _compared(was, now, lambda waiver: waiver.check)
    for waiver in (*additions, *(after for _, after in pairs)):
        yield Shift("proof", "wider", f"waived: {waiver.check} until {waiver.expires}, by {waiver.owner}", waiver.reason)
    for waiver in removals:
        yield Shift("proof", "narrower", f"no longer waived: {waiver.check}")


def _permissions(old: Review, new: Review) -> Iterator[Shift]:
    was, now = ({permission.cloud: permission for permission in review.permissions} for review in (old, new))
    for cloud in dict.fromkeys((*was, *now)):
        before, after = was.get(cloud), now.get(cloud)
        old_actions, new_actions = (set(permission.actions or ()) if permission else set[str]() for permission in (before, after))
        for action in sorted(new_actions - old_actions):
            yield Shift("permissions", "wider", f"{cloud}: {action} is needed now")
        for action in sorted(old_actions - new_actions):
            yield Shift("permissions", "narrower", f"{cloud}: {action} is no longer needed")
        if before and after and old_actions == new_actions and before.document != after.document:
            yield Shift("permissions", "other", f"{cloud}: the policy document differs", "regions, types or names in its conditions")


def _fleet(old: Review, new: Review) -> Iterator[Shift]:
    before, after = old.fleet, new.fleet
    if before is None or after is None:
        if after is not None:
            yield Shift(
                "fleet", "wider", f"a fleet may be launched, with its store at {after.store}", "the cloud keeps a group of machines"
            )
        elif before is not None:
            yield Shift("fleet", "narrower", "no fleet may be launched")
        return
    if before.store != after.store:
        yield Shift("fleet", "other", f"store: {before.store} → {after.store}", "members read their program there, and post their evidence")
    if (before.cloud, before.region, before.machine) != (after.cloud, after.region, after.machine):
        was, now = (f"{each.machine} in {each.cloud} {each.region}" for each in (before, after))
        yield Shift("fleet", "other", f"members: {was} → {now}")
    if before.identity != after.identity:
        yield Shift("fleet", "other", f"identity of the members: {before.identity} → {after.identity}")
    if before.member != after.member:
        yield Shift("fleet", "other", "the policy document of the members differs", "what a machine may do in the cloud")
    if before.refusal != after.refusal:
        yield Shift("fleet", "other", f"{before.refusal or 'can be made'} → {after.refusal or 'can be made'}")

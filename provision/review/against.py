"""What changed between two reviews, and what that means: computed from their values, never from their text."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

from provision.errors import counted
from provision.profile.differences import compare, parted
from provision.profile.locked import Lock
from provision.review.tree import SEVERITIES, DiskItem, EnvironmentItem, PackageItem, PlaceItem, Review
from provision.structs import Struct, asdict, replace

T = TypeVar("T")
Direction = Literal["wider", "narrower", "other"]
# What the top-level keys of a lock are about; all others are about software.
_SUBJECTS: Final = {"places": "places", "counters": "risks", "warnings": "risks", "unresolved": "risks"}
SIGNS: Final[dict[Direction, str]] = {"wider": "+", "narrower": "-", "other": "~"}
_LONG: Final = 160  # characters of two values that fit in one line
_VERSION: Final = re.compile(r"(-cu)?[-.\d]*\d")  # in the name of a package or wheel, such as cuda-toolkit-13-2


class Shift(Struct):
    """One thing that changed.

    Attributes:
        subject: risks, price, exposure, places, software, host, proof, permissions, fleet or profile.
        direction: whether it allows more than before (`wider`), less, or neither.
        text: what changed, from what to what.
        means: what follows from it; empty when that is plain.
        old, new: the whole values of what has one before and after.
    """

    subject: str
    direction: Direction
    text: str
    means: str = ""
    old: str = ""
    new: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The shift as JSON-compatible data."""
        return asdict(self)


def shifts(old: Review, new: Review) -> tuple[Shift, ...]:
    """Everything that differs, in the order of the page."""
    parts = (_profile, _risks, _places, _disks, _price, _exposure, _software, _host, _proof, _permissions, _fleet)
    return tuple(shift for part in parts for shift in part(old, new))


def by_subject(changes: Sequence[Shift]) -> dict[str, list[Shift]]:
    """The changes of each subject, in their order."""
    return {subject: [each for each in changes if each.subject == subject] for subject in dict.fromkeys(each.subject for each in changes)}


def legend(changes: Sequence[Shift]) -> str:
    """How many there are, and what their signs mean."""
    return f"{counted(len(changes), 'change')} (+ wider, - narrower, ~ neutral)" if changes else "nothing changed"


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


def _compared(
    old: Iterable[T], new: Iterable[T], key: Callable[[T], Hashable], *looser: Callable[[T], Hashable]
) -> tuple[list[T], list[T], list[tuple[T, T]]]:
    """What was added, what was removed, and what changed, by a key; then by each looser one where one of each is left."""
    before, after = {key(each): each for each in old}, {key(each): each for each in new}
    added = [each for name, each in after.items() if name not in before]
    removed = [each for name, each in before.items() if name not in after]
    pairs = [(each, after[name]) for name, each in before.items() if name in after and after[name] != each]
    for loose in looser:
        for name in dict.fromkeys(map(loose, removed)):
            gone, come = ([each for each in side if loose(each) == name] for side in (removed, added))
            if len(gone) == len(come) == 1:
                pairs.append((gone[0], come[0]))
                removed.remove(gone[0])
                added.remove(come[0])
    return added, removed, pairs


def _pair(subject: str, direction: Direction, what: str, old: object, new: object, *, means: str = "", unit: str = "") -> Shift:
    """Something that has one value before and another after; of two long values the earlier one stands below."""
    was, now = str(old), str(new)
    text = parted(was, now)
    if text is None and len(was) + len(now) > _LONG:
        return Shift(subject, direction, f"{what}: {now}{unit}", means or f"before: {was}", was, now)
    return Shift(subject, direction, f"{what}: {text or f'{was} → {now}'}{unit}", means, was, now)


def _listed(what: str, count: tuple[int, int], added: Sequence[str], removed: Sequence[str], means: str = "") -> Iterator[Shift]:
    """A list that has other entries now: how many it had and has, and which came and went."""
    changed = "; ".join(f"{sign} {', '.join(names)}" for sign, names in (("+", added), ("-", removed)) if names)
    if changed:
        yield Shift("software", "other", f"{what}: {count[0]} → {count[1]} ({changed})", means, *map(str, count))


def _profile(old: Review, new: Review) -> Iterator[Shift]:
    for name in ("profile", "purpose", "owner", "owner_email", "system", "gpu"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield _pair("profile", "other", name.replace("_", " "), before, after)


def _risks(old: Review, new: Review) -> Iterator[Shift]:
    # A line that moved does not change the risk.
    was, now = ([replace(risk, line=None, written=True) for risk in review.risks] for review in (old, new))
    additions, removals, pairs = _compared(was, now, lambda risk: (risk.id, risk.title, risk.key), lambda risk: (risk.id, risk.key))
    for risk in additions:
        yield Shift("risks", "wider", f"new, {risk.severity}: {risk.title}", risk.reason)
    for risk in removals:
        yield Shift("risks", "narrower", f"gone, {risk.severity}: {risk.title}")
    for before, after in pairs:
        if before.severity != after.severity:
            worse = SEVERITIES.index(after.severity) < SEVERITIES.index(before.severity)
            yield _pair("risks", "wider" if worse else "narrower", after.title, before.severity, after.severity, means=after.reason)
        elif before.title != after.title:
            yield _pair("risks", "other", after.severity, before.title, after.title, means=after.reason)
        elif before.reason != after.reason:
            yield _pair("risks", "other", f"{after.title}, for another reason", before.reason, after.reason)
        else:
            yield _pair("risks", "other", f"{after.title}, reduce it by", before.narrower, after.narrower)


def _places(old: Review, new: Review) -> Iterator[Shift]:
    additions, removals, pairs = _places_of(old, new)
    for place in additions:
        yield Shift("places", "wider", f"added: {' '.join(_place(place))}", "the machine may be launched there")
    for place in removals:
        yield Shift("places", "narrower", f"removed: {' '.join(_place(place))}")
    for before, after in pairs:
        name = " ".join(_place(after))
        if _place(before) != _place(after):
            yield _pair("places", "wider", "place", " ".join(_place(before)), name, means="the machine may be launched there")
        if (before.image, before.image_id) != (after.image, after.image_id):
            means = "pinned by its id now" if after.image_id and not before.image_id else "the machine boots another image"
            images = before.image_id or before.image, after.image_id or after.image
            yield _pair("places", "other", f"image of {name}", *images, means=means)
        if before.passed_over != after.passed_over:
            yield _pair("places", "other", name, before.passed_over or "tried", after.passed_over or "tried")


def _places_of(old: Review, new: Review) -> tuple[list[PlaceItem], list[PlaceItem], list[tuple[PlaceItem, PlaceItem]]]:
    """A machine type or market that changed is the same place in other words, and so is another region of one cloud."""
    return _compared(old.places, new.places, _place, lambda p: (p.cloud, p.region), lambda p: (p.cloud, p.instance_type, p.market))


def _disks(old: Review, new: Review) -> Iterator[Shift]:
    def size(disk: DiskItem) -> str:
        return f"{disk.size_gb} GB" if disk.size_gb else "of the machine type's size"

    additions, removals, pairs = _compared(old.disks, new.disks, lambda disk: disk.what, lambda disk: disk.mount)
    for disk in additions:
        yield Shift("places", "other", f"added: {disk.what} at {disk.mount}, {size(disk)}")
    for disk in removals:
        yield Shift("places", "other", f"removed: {disk.what} at {disk.mount}")
    for pair in pairs:
        was, now = (f"{disk.what}, {size(disk)}, {disk.filesystem} at {disk.mount}" for disk in pair)
        yield _pair("places", "other", "disk", was, now)


def _price(old: Review, new: Review) -> Iterator[Shift]:
    def shift(name: str, before: float | None, after: float | None, unit: str = "", digits: int = 2) -> Shift:
        was, now = ("not known" if figure is None else f"{figure:.{digits}f}" for figure in (before, after))
        if before is None or after is None:
            return _pair("price", "other", name, was, now)
        share = f" ({(after - before) / before:+.0%})".replace("%", " %") if before else ""
        return _pair("price", "wider" if after > before else "narrower", name, was, now, unit=f" USD{unit}{share}")

    for before, after in _places_of(old, new)[2]:
        if before.usd_per_hour != after.usd_per_hour:
            yield shift(" ".join(_place(after)), before.usd_per_hour, after.usd_per_hour, " an hour", 3)
    was, now = old.money, new.money
    if was.limit_usd_per_hour != now.limit_usd_per_hour:
        yield shift("limit", was.limit_usd_per_hour, now.limit_usd_per_hour, " an hour")
    if was.deadline_h != now.deadline_h:
        longer = now.deadline_h > was.deadline_h
        yield _pair("price", "wider" if longer else "narrower", "deadline", f"{was.deadline_h} h", f"{now.deadline_h} h")
    yield from _machines(was.machines, now.machines)
    if was.limit_to_deadline_usd != now.limit_to_deadline_usd:
        yield shift("limit to the deadline", was.limit_to_deadline_usd, now.limit_to_deadline_usd)
    if was.ceiling_usd is None and now.ceiling_usd is not None:
        yield Shift("price", "narrower", "the ceiling is enforced now")
    if was.ceiling_usd is not None and now.ceiling_usd is None:
        yield Shift("price", "wider", "the ceiling is no longer enforced")


def _machines(was: int | None, now: int | None) -> Iterator[Shift]:
    if was != now:
        wider = now is None or (was is not None and now > was)
        yield _pair("price", "wider" if wider else "narrower", "machines of one launch", was or "any number", now or "any number")


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
            yield _pair("software", "other", part, was.get(part, "none"), now.get(part, "none"))
    yield from _repositories(old, new)
    yield from _packages(old, new)
    then = {environment.name: environment for environment in old.environments}
    today = {environment.name: environment for environment in new.environments}
    for name in dict.fromkeys((*then, *today)):
        yield from _wheels(name, then.get(name), today.get(name))


def _packages(old: Review, new: Review) -> Iterator[Shift]:
    def origin(package: PackageItem) -> str:
        return f"{package.version or 'the newest available'} from {package.origin}"

    additions, removals, pairs = _compared(old.packages, new.packages, lambda each: each.name, lambda each: _VERSION.sub("", each.name))
    added, removed = ([package.name for package in side] for side in (additions, removals))
    origins = ", ".join(dict.fromkeys(package.origin for package in additions))
    yield from _listed("packages to install", (len(old.packages), len(new.packages)), added, removed, origins and f"from {origins}")
    for before, after in pairs:
        if before.name != after.name:
            yield _pair("software", "other", "package", before.name, after.name)
        if origin(before) != origin(after):
            yield _pair("software", "other", f"package {after.name}", origin(before), origin(after))


def _repositories(old: Review, new: Review) -> Iterator[Shift]:
    additions, removals, pairs = _compared(
        old.repositories, new.repositories, lambda each: (each.kind, each.name, each.url), lambda each: (each.kind, each.name)
    )
    for repository in additions:
        yield Shift("software", "wider", f"repository added: {repository.name} at {repository.url}", f"trusted by {repository.trust}")
    for repository in removals:
        yield Shift("software", "narrower", f"repository removed: {repository.name} at {repository.url}")
    for before, after in pairs:
        if before.url != after.url:
            yield _pair("software", "wider", f"repository {after.name}", before.url, after.url, means="packages come from there")
        if before.trust != after.trust:
            yield _pair("software", "wider", f"repository {after.name}", before.trust, after.trust, means="another key is trusted")


def _wheels(name: str, old: EnvironmentItem | None, new: EnvironmentItem | None) -> Iterator[Shift]:
    if old and new and old.index != new.index:
        yield _pair(
            "software", "other", f"{name}: wheels from", old.index, new.index, means="each wheel must still have a hash of the lock"
        )
    was, now = (each.wheels if each else () for each in (old, new))
    additions, removals, pairs = _compared(was, now, lambda wheel: wheel.name, lambda wheel: _VERSION.sub("", wheel.name))
    added, removed = ([f"{wheel.name} {wheel.version}".rstrip() for wheel in side] for side in (additions, removals))
    yield from _listed(f"{name}, wheels", (len(was), len(now)), added, removed)
    for before, after in pairs:
        if before.name != after.name:
            yield _pair("software", "other", f"{name}, wheel", f"{before.name} {before.version}", f"{after.name} {after.version}")
        elif before.version == after.version:
            means = "the same version with other contents: ask why"
            yield Shift("software", "wider", f"{name}, {after.name} {after.version} has other hashes", means)
        else:
            yield _pair("software", "other", f"{name}, {after.name}", before.version, after.version)


def _host(old: Review, new: Review) -> Iterator[Shift]:
    # The packages are counted under software.
    was, now = ([change for change in review.changes if change.kind != "packages"] for review in (old, new))
    additions, removals, pairs = _compared(was, now, lambda each: (each.role, each.kind, each.target), lambda each: (each.role, each.kind))
    for change in additions:
        yield Shift("host", "other", f"{change.role} also changes {change.kind} {change.target}", change.says)
    for change in removals:
        yield Shift("host", "other", f"{change.role} no longer changes {change.kind} {change.target}")
    for before, after in pairs:
        if before.target != after.target:
            yield _pair("host", "other", f"{after.role}, {after.kind}", before.target, after.target)
        if before.says != after.says:
            yield _pair("host", "other", after.target, before.says, after.says)
    if old.reboots != new.reboots:
        yield _pair("host", "other", "reboots", old.reboots, new.reboots, unit=" at most")


def _proof(old: Review, new: Review) -> Iterator[Shift]:
    if old.tier != new.tier:
        yield _pair("proof", "other", "tier", old.tier, new.tier)
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
        if more := sorted(new_actions - old_actions):
            yield Shift("permissions", "wider", f"{cloud}, needed now: {', '.join(more)}")
        if fewer := sorted(old_actions - new_actions):
            yield Shift("permissions", "narrower", f"{cloud}, no longer needed: {', '.join(fewer)}")
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
        yield _pair("fleet", "other", "store", before.store, after.store, means="members read their program there, and post their evidence")
    if (before.cloud, before.region, before.machine) != (after.cloud, after.region, after.machine):
        was, now = (f"{each.machine} in {each.cloud} {each.region}" for each in (before, after))
        yield _pair("fleet", "other", "members", was, now)
    if before.identity != after.identity:
        yield _pair("fleet", "other", "identity of the members", before.identity, after.identity)
    if before.member != after.member:
        yield Shift("fleet", "other", "the policy document of the members differs", "what a machine may do in the cloud")
    if before.refusal != after.refusal:
        yield _pair("fleet", "other", "fleet", before.refusal or "can be made", after.refusal or "can be made")

"""What changed between two reviews, and what that means: compared by what things are, never as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

from provision.profile import lockfile
from provision.profile.locked import Lock
from provision.review.tree import EnvironmentItem, PlaceItem, Review

__all__ = ["Shift", "as_reviewed", "of_locks", "shifts"]

T = TypeVar("T")
Direction = Literal["wider", "narrower", "other"]
# How a line of `lockfile.changes` begins, and what it is about.
_SUBJECTS = (("places", "places"), ("counters", "risks"), ("repositories", "software"), ("warnings", "risks"), ("unresolved", "risks"))


@dataclass(frozen=True, slots=True)
class Shift:
    """One thing that is not as it was.

    Attributes:
        subject: risks, price, exposure, places, software, host, proof, permissions or profile.
        direction: whether it gives more away than before (`wider`), less, or neither.
        text: what, before and after.
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
    return tuple(
        shift for part in (_profile, _risks, _places, _price, _exposure, _software, _host, _proof, _permissions) for shift in part(old, new)
    )


def of_locks(old: Lock, new: Lock) -> tuple[Shift, ...]:
    """What differs between two locks alone, where there is no profile to read the rest from."""
    found = []
    for line in lockfile.changes(old, new):
        subject = next((subject for prefix, subject in _SUBJECTS if line.startswith(prefix)), "software")
        if not line.startswith(("catalogue:", "profile.sha256:")):
            found.append(Shift(subject, "other", line, "the same version with other hashes" if line.endswith("(other hashes)") else ""))
    return tuple(found)


def as_reviewed(review: Review, written: bytes) -> Review:
    """A review that was made again, with the prices that its `review.json` had: the catalogue may know others by now."""
    try:
        rows = json.loads(written)["places"]
        prices = {(r["cloud"], r["region"], r["instance_type"], r["market"]): (r["usd_per_hour"], r["usd_to_deadline"]) for r in rows}
    except (ValueError, KeyError, TypeError):
        return review

    def then(place: PlaceItem) -> PlaceItem:
        hourly, whole = prices.get(_place(place), (place.usd_per_hour, place.usd_to_deadline))
        if not all(figure is None or isinstance(figure, int | float) for figure in (hourly, whole)):
            return place
        return replace(place, usd_per_hour=hourly, usd_to_deadline=whole)

    return replace(review, places=tuple(then(place) for place in review.places))


def _place(place: PlaceItem) -> tuple[str, str, str, str]:
    return place.cloud, place.region, place.instance_type, place.market


def _paired(old: Iterable[T], new: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[tuple[T | None, T | None]]:
    """What came, went or changed, by a key; equal ones are left out."""
    before, after = {key(each): each for each in old}, {key(each): each for each in new}
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            yield before.get(name), after.get(name)


def _profile(old: Review, new: Review) -> Iterator[Shift]:
    for what in ("profile", "purpose", "owner", "owner_email", "system", "gpu"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            yield Shift("profile", "other", f"{what.replace('_', ' ')}: {before} → {after}")


def _risks(old: Review, new: Review) -> Iterator[Shift]:
    # A line that moved is no change of the risk.
    was, now = ([replace(r, line=None, written=True) for r in review.risks] for review in (old, new))
    for before, after in _paired(was, now, lambda r: (r.id, r.title, r.key)):
        if before is None and after is not None:
            yield Shift("risks", "wider", f"new, {after.severity}: {after.title}", after.reason)
        elif after is None and before is not None:
            yield Shift("risks", "narrower", f"gone, {before.severity}: {before.title}")
        elif before and after and before.severity != after.severity:
            order = ["note", "low", "medium", "high"]
            wider = order.index(after.severity) > order.index(before.severity)
            text = f"{after.title}: {before.severity} → {after.severity}"
            yield Shift("risks", "wider" if wider else "narrower", text, after.reason)
        elif before and after and before.reason != after.reason:
            yield Shift("risks", "other", f"{after.title}, for another reason: {after.reason}", f"before: {before.reason}")
        elif before and after:
            yield Shift("risks", "other", f"{after.title}, narrower: {before.narrower} → {after.narrower}")


def _places(old: Review, new: Review) -> Iterator[Shift]:
    for before, after in _paired(old.places, new.places, _place):
        name = " ".join(_place(after or before)) if (after or before) else ""  # type: ignore[arg-type]
        if before is None:
            yield Shift("places", "wider", f"added: {name}", "the machine may be launched there")
        elif after is None:
            yield Shift("places", "narrower", f"removed: {name}")
        else:
            if (before.image, before.image_id) != (after.image, after.image_id):
                images = f"{before.image_id or before.image} → {after.image_id or after.image}"
                means = "pinned by its id now" if after.image_id and not before.image_id else "another system is booted"
                yield Shift("places", "other", f"image of {name}: {images}", means)
            if before.passed_over != after.passed_over:
                yield Shift("places", "other", f"{name}: {before.passed_over or 'tried'} → {after.passed_over or 'tried'}")
    for disk, now in _paired(old.disks, new.disks, lambda d: d.what):
        if disk is None and now is not None:
            yield Shift("places", "other", f"added: {now.what} at {now.mount}, {now.size_gb or 'as the type has'} GB")
        elif now is None and disk is not None:
            yield Shift("places", "other", f"removed: {disk.what} at {disk.mount}")
        elif disk and now:
            was, is_now = (f"{d.size_gb or 'as the type has'} GB {d.filesystem} at {d.mount}" for d in (disk, now))
            yield Shift("places", "other", f"{now.what}: {was} → {is_now}")


def _price(old: Review, new: Review) -> Iterator[Shift]:
    for before, after in _paired(old.places, new.places, _place):
        if before and after and before.usd_per_hour != after.usd_per_hour:
            text = f"{' '.join(_place(after))}: {_usd(before.usd_per_hour)} → {_usd(after.usd_per_hour)} an hour"
            yield Shift("price", _more(before.usd_per_hour, after.usd_per_hour), text, _by(before.usd_per_hour, after.usd_per_hour))
    was, now = old.money, new.money
    if was.limit_usd_per_hour != now.limit_usd_per_hour:
        text = f"limit: {_usd(was.limit_usd_per_hour)} → {_usd(now.limit_usd_per_hour)} an hour"
        yield Shift("price", _more(was.limit_usd_per_hour, now.limit_usd_per_hour), text)
    if was.deadline_h != now.deadline_h:
        yield Shift("price", _more(was.deadline_h, now.deadline_h), f"deadline: {was.deadline_h} h → {now.deadline_h} h")
    if was.limit_to_deadline_usd != now.limit_to_deadline_usd:
        figures = was.limit_to_deadline_usd, now.limit_to_deadline_usd
        yield Shift("price", _more(*figures), f"limit to the deadline: {_usd(figures[0])} → {_usd(figures[1])}", _by(*figures))
    if (was.ceiling_usd is None) != (now.ceiling_usd is None):
        enforced = now.ceiling_usd is not None
        yield Shift("price", "narrower" if enforced else "wider", f"the ceiling is {'enforced now' if enforced else 'no longer enforced'}")


def _usd(figure: float | None) -> str:
    return "not known" if figure is None else f"{figure:.2f} USD"


def _more(before: float | None, after: float | None) -> Direction:
    if before is None or after is None:
        return "other"
    return "wider" if after > before else "narrower"


def _by(before: float | None, after: float | None) -> str:
    if not before or after is None:
        return ""
    return f"{abs(after - before) / before:.0%} {'dearer' if after > before else 'cheaper'}"


def _exposure(old: Review, new: Review) -> Iterator[Shift]:
    for before, after in _paired(old.doors, new.doors, lambda d: (d.direction, d.port, d.network)):
        if before is None and after is not None:
            yield Shift("exposure", "wider", f"opened: {after.port} from {after.network}", after.meaning)
        elif before is not None:
            yield Shift("exposure", "narrower", f"closed: {before.port} from {before.network}", before.meaning)
    for came, went in ((set(new.logins) - set(old.logins), False), (set(old.logins) - set(new.logins), True)):
        for login in sorted(came):
            yield Shift("exposure", "narrower" if went else "wider", f"login {'gone' if went else 'added'}: {login}")


def _software(old: Review, new: Review) -> Iterator[Shift]:
    for part, now in _paired(old.stack, new.stack, lambda s: s[0]):
        yield Shift("software", "other", f"{(now or part or ('',))[0]}: {part[1] if part else 'none'} → {now[1] if now else 'none'}")
    yield from _repositories(old, new)
    for before, after in _paired(old.packages, new.packages, lambda p: p.name):
        if before is None and after is not None:
            yield Shift("software", "other", f"package added: {after.name} {after.version or ''}".rstrip(), f"from {after.origin}")
        elif after is None and before is not None:
            yield Shift("software", "other", f"package removed: {before.name}")
        elif before and after and (before.version, before.origin) != (after.version, after.origin):
            was, is_now = (f"{p.version or 'the newest there'} from {p.origin}" for p in (before, after))
            yield Shift("software", "other", f"package {after.name}: {was} → {is_now}")
    for was_in, is_in in _paired(old.environments, new.environments, lambda e: e.name):
        yield from _wheels(was_in, is_in)


def _repositories(old: Review, new: Review) -> Iterator[Shift]:
    for repository, other in _paired(old.repositories, new.repositories, lambda r: (r.kind, r.name, r.url)):
        if repository is None and other is not None:
            yield Shift("software", "wider", f"repository added: {other.name} at {other.url}", f"trusted by {other.trust}")
        elif other is None and repository is not None:
            yield Shift("software", "narrower", f"repository removed: {repository.name} at {repository.url}")
        elif repository and other:
            yield Shift("software", "wider", f"repository {other.name}: {repository.trust} → {other.trust}", "another key is trusted")


def _wheels(old: EnvironmentItem | None, new: EnvironmentItem | None) -> Iterator[Shift]:
    name = new.name if new else old.name if old else ""
    if old and new and old.index != new.index:
        yield Shift("software", "other", f"{name}: wheels from {old.index} → {new.index}", "hashes stay what decides")
    for before, after in _paired(old.wheels if old else (), new.wheels if new else (), lambda w: w.name):
        if before is None and after is not None:
            yield Shift("software", "other", f"{name}: {after.name} {after.version} added")
        elif after is None and before is not None:
            yield Shift("software", "other", f"{name}: {before.name} {before.version} removed")
        elif before and after and before.version == after.version:
            means = "the same version with other contents: ask why"
            yield Shift("software", "wider", f"{name}: {after.name} {after.version} has other hashes", means)
        elif before and after:
            yield Shift("software", "other", f"{name}: {after.name} {before.version} → {after.version}")


def _host(old: Review, new: Review) -> Iterator[Shift]:
    for before, after in _paired(old.changes, new.changes, lambda c: (c.role, c.kind, c.target)):
        if before is None and after is not None:
            yield Shift("host", "other", f"{after.role} also changes {after.kind} {after.target}", after.says)
        elif after is None and before is not None:
            yield Shift("host", "other", f"{before.role} no longer changes {before.kind} {before.target}")
        elif before and after and before.says != after.says:
            yield Shift("host", "other", f"{after.target}: {before.says} → {after.says}")
    if old.reboots != new.reboots:
        yield Shift("host", "other", f"reboots: {old.reboots} → {new.reboots} at most")


def _proof(old: Review, new: Review) -> Iterator[Shift]:
    if old.tier != new.tier:
        yield Shift("proof", "other", f"tier: {old.tier} → {new.tier}")
    judged = [{c.check: c.why for c in review.controls} for review in (old, new)]
    for check, why in judged[1].items():
        before = judged[0].get(check, "did not exist")
        if bool(before) != bool(why):
            yield Shift("proof", "wider" if why else "narrower", f"{check} is {'no longer judged' if why else 'judged now'}", why)
    was, now = ([replace(w, line=None) for w in review.waivers] for review in (old, new))
    for waived, other in _paired(was, now, lambda w: w.check):
        if other is not None:
            yield Shift("proof", "wider", f"waived: {other.check} until {other.expires}, by {other.owner}", other.reason)
        elif waived is not None:
            yield Shift("proof", "narrower", f"no longer waived: {waived.check}")


def _permissions(old: Review, new: Review) -> Iterator[Shift]:
    for before, after in _paired(old.permissions, new.permissions, lambda p: p.cloud):
        was, now = (set(p.actions or ()) if p else set() for p in (before, after))
        cloud = after.cloud if after else before.cloud if before else ""
        for action in sorted(now - was):
            yield Shift("permissions", "wider", f"{cloud}: {action} is needed now")
        for action in sorted(was - now):
            yield Shift("permissions", "narrower", f"{cloud}: {action} is no longer needed")
        if before and after and was == now and before.document != after.document:
            yield Shift("permissions", "other", f"{cloud}: the policy document differs", "regions, types or names in its conditions")

"""A plan for people and for programs. Nothing is decided here."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from provision import clouds
from provision.catalog.records.base import Grade
from provision.clouds.base import Answer
from provision.clouds.terms import Price, RefusalKind
from provision.errors import counted
from provision.launch.edits import nearest_edits
from provision.launch.plan import Plan, PlannedDisk, PlannedDoor, PlannedPlace, Sacrifice
from provision.profile.locked import Lock
from provision.profile.network import Network
from provision.report.base import broken
from provision.structs import Struct, asdict

_SACRIFICES: Final[Mapping[Sacrifice, str]] = {
    "counters-open": "performance counters open to all local users: re-opens the side channel of CVE-2018-6260 between them",
}
_HANGING: Final = 4  # columns by which what a line continues with stands behind its beginning
_FEW: Final = 3  # other regions; the catalog lists all
_MARKS: Final = {True: "yes", False: "NO", None: "unknown"}
Answers = Mapping[PlannedPlace, Sequence[Answer]]


def as_dict(plan: Plan, path: Path, answers: Answers | None = None) -> dict[str, Any]:
    """The plan as JSON-compatible data, with what the clouds answered where they were asked."""
    profile = plan.profile
    return {
        "profile": profile.name,
        "profile_path": str(path.absolute()),
        "profile_digest": plan.profile_sha256,
        "name": plan.name,
        "purpose": profile.purpose,
        "owner": _owner(plan),
        "offers": [_offer(plan, place, (answers or {}).get(place, ())) for place in plan.places],
        "edits": [asdict(edit) for edit in nearest_edits(plan)],
        "image": _image(plan),
        "disks": [_disk(disk, doubt=_doubtful(plan)) for disk in plan.disks],
        "reached": _reach(profile.network),
        "opens": _doors(plan),
        "secured": _secured(plan),
        "gives_up": [_SACRIFICES[sacrifice] for sacrifice in plan.sacrifices],
        "deadline_h": profile.limits.deadline_h,
        "cheapest_first": plan.cheapest,
        "limit_per_hour_usd": profile.limits.price_per_hour_usd,
        "permissions": {needed.cloud: list(needed.actions) for needed in plan.permissions},
        "calls": [asdict(call) for call in plan.calls],
        "gone": _withdrawn(plan),
        "lock_digest": plan.lock.digest,
        "stack": _stack(plan.lock),
        "warnings": list(plan.lock.warnings),
        "unresolved": list(plan.lock.unresolved),
    }


class Shown(Struct):
    """What the text of a plan is asked for beside the plan.

    Attributes:
        asked_as: the profile as the user named it, for the next command.
        origin: whose the profile is: its path, or that it is shipped.
        answers: of the clouds, None where they were not asked.
        signatures: how many the organisation's rules demand, None where there is no such demand.
        rules: the name of these rules; `violations` are what breaks them.
        prices, permissions, calls: whether these are listed.
        width: of the terminal in columns, where long lines are to be broken.
    """

    asked_as: str
    origin: str
    answers: Answers | None = None
    signatures: int | None = None
    rules: str = ""
    violations: tuple[str, ...] = ()
    prices: bool = False
    permissions: bool = False
    calls: bool = False
    width: int | None = None


def as_text(plan: Plan, shown: Shown) -> str:
    """The plan for a terminal: whether it can be launched, then what that takes, and the next command."""
    limits = plan.profile.limits
    order = "the cheapest first" if plan.cheapest else "in this order"
    sections = [
        ("no longer available", _withdrawn(plan)),
        (f"stack (sha256:{plan.lock.digest[:16]}…)", _stack(plan.lock)),
        ("against advice", plan.lock.warnings),
        ("not known", plan.lock.unresolved),
        ("image", [_image(plan)]),
        ("disks", [_disk(disk, doubt=_doubtful(plan)) for disk in plan.disks]),
        ("reached", _reach(plan.profile.network)),
        ("opens", _doors(plan)),
        ("secured", _guards(plan)),
        ("gives up", [_SACRIFICES[sacrifice] for sacrifice in plan.sacrifices]),
        ("signatures needed", [str(shown.signatures)] if shown.signatures else []),
        (f"against the rules {shown.rules}: `up` will refuse", shown.violations),
        *_permissions(plan, whole=shown.permissions),
        *([("calls", [f"{call.cloud} {call.action}: {call.purpose}" for call in plan.calls])] if shown.calls else []),
    ]
    lines = [
        _verdict(plan, shown),
        f"profile: {plan.profile.name}, {shown.origin} (sha256:{plan.profile_sha256[:16]}…)",
        f"purpose: {plan.profile.purpose}",
        f"owner: {_owner(plan)}",
        "",
        f"places, {order} (limit {limits.price_per_hour_usd:.2f} USD an hour, ends after {limits.deadline_h} h):",
        *(line for place in plan.places for line in _place_lines(plan, place, (shown.answers or {}).get(place, ()), prices=shown.prices)),
        *([] if shown.prices else _price_sources(plan)),
        *(f"nearest edit: {edit}" for edit in nearest_edits(plan)),
        *(line for title, entries in sections if entries for line in _section(title, entries)),
        *_next(plan, shown),
    ]
    return "\n".join(part for line in lines for part in _fitted(line, shown.width))


def _fitted(line: str, width: int | None) -> Iterator[str]:
    text = line.lstrip(" ")
    lead = line[: -len(text)] if text else ""
    return broken(lead, text, width, len(lead) + _HANGING)


def _section(title: str, entries: Sequence[str]) -> list[str]:
    return [f"{title}: {entries[0]}"] if len(entries) == 1 else [f"{title}:", *(f"  {entry}" for entry in entries)]


def _verdict(plan: Plan, shown: Shown) -> str:
    """Whether the plan can be launched, as far as that is known."""
    usable = [place for place in plan.places if place.refusal is None]
    if not usable:
        return f"{plan.name} cannot be launched: no place of its profile can be used"
    if shown.violations:
        return f"{plan.name} cannot be launched: it violates {counted(len(shown.violations), 'rule')} of {shown.rules}"
    where = f"{counted(len(usable), 'place')}{f' of {len(plan.places)}' if len(usable) < len(plan.places) else ''}"
    if shown.answers is None:
        return f"{plan.name} can be launched in {where}, says the catalog; no cloud was asked"
    held = [{answer.holds for answer in shown.answers.get(place, ())} or {None} for place in usable]
    if all(each == {None} for each in held):
        return f"{plan.name} is not known to be launchable: no cloud answered about {where}"
    refused, open_ = sum(False in each for each in held), sum(None in each and False not in each for each in held)
    if refused == len(usable):
        return f"{plan.name} cannot be launched: the clouds say no in {where}"
    no, unknown = f"; they say no in {refused}" if refused else "", f"; not everything is known about {open_}" if open_ else ""
    return f"{plan.name} can be launched, the clouds say, in {len(usable) - refused} of {counted(len(plan.places), 'place')}{no}{unknown}"


def _next(plan: Plan, shown: Shown) -> list[str]:
    profile = shlex.quote(shown.asked_as)
    if shown.violations or all(place.refusal for place in plan.places):
        return []  # the error that follows says what to do
    if shown.signatures:
        return [f"next: `gpuprov review {profile}` writes what is signed"]
    held = [{a.holds for a in (shown.answers or {}).get(p, ())} for p in plan.places if p.refusal is None]
    if shown.answers and (all(False in each for each in held) or all(each <= {None} for each in held)):
        return [f"next: see what the clouds refuse or do not answer, then `gpuprov plan {profile} --ask` again"]
    name = "" if plan.name == plan.profile.name else f" --name {plan.name}"
    ask = "" if shown.answers is not None else f"`gpuprov plan {profile}{name} --ask` asks the clouds, "
    return [f"next: {ask}`gpuprov up {profile}{name}` launches"]


def _permissions(plan: Plan, *, whole: bool) -> list[tuple[str, Sequence[str]]]:
    if whole:
        return [(f"permissions needed on {needed.cloud}", needed.actions) for needed in plan.permissions]
    return [("permissions", [", ".join(f"{len(needed.actions)} on {needed.cloud}" for needed in plan.permissions) + " (--permissions)"])]


def _place_lines(plan: Plan, place: PlannedPlace, answers: Sequence[Answer], *, prices: bool) -> Iterator[str]:
    """A place in one line, with more lines where it is passed over, has something of its own, or more is asked for."""
    enabled = ", opt-in region" if place.opt_in else ""
    cost = "price unknown"
    if place.price:
        least = "" if place.price.whole else "at least "
        to_deadline = place.price.usd_per_hour * plan.profile.limits.deadline_h
        cost = f"{least}{place.price.usd_per_hour:.3f} USD/h, {to_deadline:.2f} USD in all"
    outcome = f"passed over: {place.refusal}" if place.refusal else cost
    yield f"  {place.cloud} {place.zone or place.region} {place.place.instance_type} ({place.place.market}{enabled}): {outcome}"
    if place.refusal.is_about_money if place.refusal else prices or place.price is None or not place.price.whole:
        if place.price:
            yield f"      {price_parts(place.price)}"
        yield from (f"      {line}" for line in price_notes(place, whole=prices))
    elif place.refusal and place.elsewhere:
        more = len(place.elsewhere) - _FEW
        others = f" and {more} more: `gpuprov catalog where {place.place.instance_type}`" if more > 0 else ""
        yield f"      it is in {', '.join(place.elsewhere[:_FEW])}{others}"
    if place.refusal and place.refusal.kind is not RefusalKind.OVER_LIMIT and place.refusal.hint:
        yield f"      {place.refusal.hint}"
    yield from (f"      {option.summary}" for option in place.cloud_options)
    for answer in answers:
        yield f"      {answer.about}: {_MARKS[answer.holds]}: {answer.said}"


def _offer(plan: Plan, place: PlannedPlace, answers: Sequence[Answer]) -> dict[str, Any]:
    hourly = place.price.usd_per_hour if place.price else None
    return {
        "cloud": place.cloud,
        "region": place.region,
        "instance_type": place.place.instance_type,
        "market": place.place.market,
        "price_per_hour_usd": hourly,
        "price_to_deadline_usd": round(hourly * plan.profile.limits.deadline_h, 2) if hourly is not None else None,
        "price_parts": [asdict(part) for part in place.price.parts] if place.price else [],
        "price_missing": list(place.price.missing) if place.price else [],
        "price_note": price_note(place),
        "note": f"passed over: {place.refusal}" if place.refusal else "",
        "refusal": place.refusal.kind.value if place.refusal else None,
        "zone": place.zone,
        "opt_in": place.opt_in,
        "elsewhere": list(place.elsewhere),
        "options": [asdict(option) for option in place.cloud_options],
        "answers": [asdict(answer) for answer in answers],
        "price_whole": place.price is None or place.price.whole,
    }


def price_parts(price: Price) -> str:
    """What the price is made of, such as `machine 0.526, 200 GB of gp3 0.022, public IPv4 address 0.005`."""
    return ", ".join(f"{part.item} {part.usd_per_hour:.3f}" for part in price.parts)


def _price_sources(plan: Plan) -> list[str]:
    """What kinds of sources the prices have, and the oldest day, in one line."""
    used = [clouds.sources()[key] for place in plan.places if place.price for key in place.price.sources]
    grades = sorted({source.grade for source in used}, key=get_args(Grade).index)
    unverified = "" if {"measured", "documented"}.issuperset(grades) else " [unverified]"
    oldest = min((source.date for source in used), default=None)
    return [f"prices: {', '.join(grades)} sources since {oldest}{unverified}; details: --prices, `gpuprov catalog age`"] if used else []


def price_note(place: PlannedPlace) -> str:
    """What `price_notes` has, in one line."""
    return "; ".join(price_notes(place))


def price_notes(place: PlannedPlace, *, whole: bool = True) -> list[str]:
    """Where the price was read and when (if `whole`), each with its address, and what it leaves out; or why there is none."""
    if place.price is None:
        unpriced = next((option.unpriced for option in place.cloud_options if option.unpriced), "")
        if unpriced:
            return [f"unknown: {unpriced}"]
        spot = place.place.market == "spot"
        return [f"unknown: {'the price of spot machines changes by the hour' if spot else 'the catalog has no price for this type there'}"]
    known = [clouds.sources()[key] for key in place.price.sources] if whole else []
    notes = [f"{', '.join(filter(None, (source.title, source.url)))} ({source.grade}, {source.date})" for source in known]
    return [*notes, *([f"without its {' and '.join(place.price.missing)}"] if place.price.missing else [])]


def _owner(plan: Plan) -> str:
    return f"{plan.profile.owner.name} <{plan.profile.owner.email}>"


def _image(plan: Plan) -> str:
    """How the images are found, and what they are, as far as that is known before the launch."""
    published = f"newest {plan.profile.os.name} {plan.profile.os.version} of its publisher"
    found = [_found(place) if place.place.own_image is not None or place.image_about else published for place in plan.places]
    return "; ".join(dict.fromkeys(found)) or published


def _found(place: PlannedPlace) -> str:
    about = f" ({place.image_about})" if place.image_about else ""
    return f"{place.cloud} {place.location}: {place.image_id or place.image}{about}"


def _doubtful(plan: Plan) -> bool:
    """Whether nobody knows of a place that its boot disks are encrypted."""
    return any(clouds.provider(place.cloud).boot_disk_doubt for place in plan.places)


def _disk(disk: PlannedDisk, *, doubt: bool) -> str:
    if disk.kind == "root":
        return f"root: {disk.size_gb} GB{', and it is unknown whether it is encrypted' if doubt else ' network disk, encrypted'}"
    own = disk.kind == "instance-store"
    what = "the machine's own NVMe, empty after each stop" if own else f"{disk.size_gb} GB network disk, encrypted"
    return f"{disk.mount}: {what}, {disk.filesystem}"


def _reach(network: Network) -> list[str]:
    """Its address, its network, and the way in with what that takes."""
    private = "a private address only, so its subnet must lead out (NAT) for packages to be installed"
    lines = [private if network.address == "private" else "a public IPv4 address"]
    lines += [f"in {network.subnet}"] if network.subnet else []
    if network.jump is not None:
        lines.append(f"through {network.jump}, as your own ssh configuration knows it")
    return [*lines, *(network.way.needs if network.way else ())]


def _doors(plan: Plan) -> list[str]:
    return [f"tcp/22 from {_door(door)}" for door in plan.doors] or ["nothing"]


def _door(door: PlannedDoor) -> str:
    if door.kind == "caller":
        return "the address gpuprov runs from"
    return f"{door.network}, {door.way.origin}" if door.way else door.network


def _secured_everywhere(plan: Plan) -> list[str]:
    billed = next(filter(None, (clouds.provider(place.cloud).stopped_costs for place in plan.places)), "")
    end = f"powers itself off, and is billed until it is removed ({billed})," if billed else "ends itself"
    return ["data volumes encrypted" if _doubtful(plan) else "disks encrypted", "login by key only", f"{end} at the deadline"]


def _secured(plan: Plan) -> list[str]:
    return [*_secured_everywhere(plan), *(f"{cloud}: {guard.summary}" for cloud, guard in plan.safeguards)]


def _guards(plan: Plan) -> list[str]:
    """What is secured, in a line for all clouds and one for each."""
    guards: dict[str, list[str]] = {}
    for cloud, guard in plan.safeguards:
        guards.setdefault(cloud, []).append(guard.summary)
    return ["; ".join(_secured_everywhere(plan)), *(f"{cloud}: {'; '.join(each)}" for cloud, each in guards.items())]


def _withdrawn(plan: Plan) -> list[str]:
    return [f"{cloud} {instance_type} was withdrawn everywhere by {day}" for cloud, instance_type, day in plan.withdrawn]


def _stack(lock: Lock) -> list[str]:
    """What would be installed, in a few lines."""
    frameworks = [f"{name} {env.version} (CUDA {env.cuda}, {counted(len(env.wheels), 'wheel')})" for name, env in lock.frameworks.items()]
    return [
        f"driver {lock.driver.branch}, {lock.driver.flavour} kernel modules",
        f"CUDA {lock.cuda.version} with gcc {lock.cuda.gcc}, cuDNN {lock.cudnn.version}",
        *frameworks,
        f"clocks: {lock.clocks.mode}",
    ]

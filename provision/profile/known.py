"""What the catalog, the list of checks and the calendar say about a profile whose form is right.

A region, zone or type that the catalog does not have may be newer than the catalog, so not to be in it is a warning: only the cloud knows.
It is an error where the name cannot be a new one, because a word of it is one slip of the keyboard away from a word that clouds use
(`us-esat-1`, `g4nd.xlarge`): clouds grow by new numbers and new words, not by their old words misspelt.

An expired waiver is a warning. It excuses nothing from that day on, which `verify` says, and a machine that runs must still be reached.
"""

import datetime as dt
import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from provision import clouds
from provision.catalog import read
from provision.catalog.refused import refused_system
from provision.clouds.offline import PlaceBase
from provision.clouds.terms import RefusalKind
from provision.nearest import slips
from provision.profile import image_driver, mig
from provision.profile.check_ids import CHECK_IDS
from provision.profile.model import Profile
from provision.profile.plain import Complaint, ComplaintKind, KeyPath, Lines, dotted

_SHORTEST: Final = 3  # letters of a word that one slip is looked for in; of shorter ones too many are alike
_NEAREST: Final = 3
# Refusals of a whole place, whatever the location.
_OF_PLACE: Final = {
    RefusalKind.WITHDRAWN: "instance_type",
    RefusalKind.WRONG_GPU: "instance_type",
    RefusalKind.TOO_FEW_GPUS: "instance_type",
    RefusalKind.BAD_SHAPE: "instance_type",
    RefusalKind.NOT_SOLD: "market",
}


def errors(profile: Profile, lines: Lines) -> list[Complaint]:
    """Why a profile is refused."""
    return [
        complaint
        for complaint in (*_systems(profile, lines), *_checks(profile, lines), *_places(profile, lines), *_split(profile, lines))
        if complaint.is_error
    ]


def warnings(profile: Profile, lines: Lines, today: dt.date) -> list[Complaint]:
    """What its author should know.

    Args:
        profile: it has no errors.
        lines: the line of every key.
        today: the day from which a waiver has expired.
    """
    doubts = [complaint for complaint in _places(profile, lines) if not complaint.is_error]
    return [*_expired(profile, lines, today), *doubts, *_unavailable(profile, lines)]


def _at(lines: Lines, where: KeyPath, problem: str, instead: str, kind: ComplaintKind) -> Complaint:
    around = where
    while around and around not in lines:
        around = around[:-1]
    return Complaint(lines.get(around, 1), dotted(where), problem, instead, kind)


def _expired(profile: Profile, lines: Lines, today: dt.date) -> Iterator[Complaint]:
    for number, waiver in enumerate(profile.verify.waivers):
        if waiver.expires < today:
            where = ("verify", "waivers", number, "expires")
            problem = f"the waiver of {waiver.check} expired on {waiver.expires} and excuses nothing"
            yield _at(lines, where, problem, "remove it, or let its owner renew it", ComplaintKind.EXPIRED_WAIVER)


def _checks(profile: Profile, lines: Lines) -> Iterator[Complaint]:
    for number, waiver in enumerate(profile.verify.waivers):
        if waiver.check not in CHECK_IDS:
            near = difflib.get_close_matches(waiver.check, CHECK_IDS, n=_NEAREST, cutoff=0)
            where = ("verify", "waivers", number, "check")
            yield _at(lines, where, f"{waiver.check!r} is not a check", f"the nearest are {', '.join(near)}", ComplaintKind.UNKNOWN_CHECK)


def _split(profile: Profile, lines: Lines) -> Iterator[Complaint]:
    for where, problem, instead in (*mig.problems(profile), *image_driver.problems(profile)):
        yield _at(lines, where, problem, instead, ComplaintKind.STACK)


def _systems(profile: Profile, lines: Lines) -> Iterator[Complaint]:
    problem = _system_problem(profile)
    if problem:
        yield _at(lines, ("os",), *problem, ComplaintKind.SYSTEM)
    yield from _lacking(profile, lines)


def _lacking(profile: Profile, lines: Lines) -> Iterator[Complaint]:
    """Parts of the stack that the system does not have."""
    for record in (s for s in read.systems().systems if (s.name, s.version) == (profile.os.name, profile.os.version)):
        for part, why in record.lacks.items():
            if getattr(profile.stack, part):
                having = ", ".join(s.key for s in read.systems().systems if part not in s.lacks)
                problem, instead = f"{record.key} has no {part}: {why}", f"leave it out, or take one of: {having}"
                yield _at(lines, ("stack", part), problem, instead, ComplaintKind.SYSTEM)


def _system_problem(profile: Profile) -> tuple[str, str] | None:
    """What is wrong with the system, and what to write; None when it is supported."""
    system, systems = (profile.os.name, profile.os.version), read.systems().systems
    refusal = refused_system(*system)
    if refusal:
        return refusal.why, refusal.instead
    if system not in {(s.name, s.version) for s in systems}:
        return f"{' '.join(system)} is not supported", f"write one of: {', '.join(s.key for s in systems)}"
    why = next(s.subscribed for s in systems if (s.name, s.version) == system)
    if why and profile.places:
        instead = f"write `places: []` and set up a host that exists (`gpuprov apply HOST`), or take rocky or alma {system[1]}"
        return f"no machine is launched with {' '.join(system)}: {why}", instead
    for cloud in dict.fromkeys(place.cloud for place in profile.places if place.own_image is None):
        provider = clouds.provider(cloud)
        if system not in provider.image_systems():
            offered = ", ".join(f"{name} {version}" for name, version in provider.image_systems())
            instead = f"name one in `image:` of the place, or write one of: {offered}"
            return f"no image of {' '.join(system)} is known on {provider.title}", instead
    return None


def _places(profile: Profile, lines: Lines) -> Iterator[Complaint]:
    """Types, regions and zones that are in no catalog."""
    for number, place in enumerate(profile.places):
        provider, at = clouds.provider(place.cloud), ("places", number)
        against = provider.refusal(place, place.locations[0], profile.gpu.model, profile.gpu.count)
        if against is not None and against.kind is RefusalKind.UNKNOWN_TYPE:
            types = {offer.instance_type for offer in provider.offers()}
            yield _unknown(lines, (*at, "instance_type"), place.instance_type, types, f"a machine type with a GPU on {provider.title}")
        for index, location in enumerate(place.locations):
            region = place.region_of(location)
            if region not in provider.regions():
                where, zone = (*at, place.locations_key, index), location.removeprefix(region)
                known = [f"{each}{zone}" for each in provider.regions()]
                yield _unknown(lines, where, location, known, f"a {'zone' if place.zonal else 'region'} of {provider.title}")


def _unknown(lines: Lines, where: KeyPath, name: str, known: Iterable[str], kind: str) -> Complaint:
    near = misspelt(name, known)
    if near is not None:
        return _at(lines, where, f"{name!r} is not {kind}", f"did you mean {near!r}?", ComplaintKind.MISSPELT)
    problem = f"the catalog of {read.BASE_DATE} does not have {name} as {kind}"
    return _at(lines, where, problem, "check its name; `up` asks the cloud, if it is newer than the catalog", ComplaintKind.NOT_IN_CATALOG)


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The nearest known name where a name cannot be a new one: a word of it is a known word with one slip, or with its letters mixed."""
    names = list(known)
    words = {word for each in names for word in _words(each)}
    if any(word not in words and any(_is_slip(word, each) for each in words) for word in _words(name)):
        return min(names, key=lambda each: (slips(name, each), sorted(name) != sorted(each), each))
    return None


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name)


def _is_slip(word: str, other: str) -> bool:
    return sorted(word) == sorted(other) or (min(len(word), len(other)) >= _SHORTEST and slips(word, other) == 1)


def _unavailable(profile: Profile, lines: Lines) -> Iterator[Complaint]:
    """Locations that `up` skips, and those of which nothing is recorded; each reason once a place."""
    for number, place in enumerate(profile.places):
        regions, told = clouds.provider(place.cloud).regions(), set()
        for index, location in enumerate(place.locations):
            against = clouds.refusal(place, location, profile.gpu.model, profile.gpu.count)
            unknown = against is None or against.kind is RefusalKind.UNKNOWN_TYPE or place.region_of(location) not in regions
            if against is None or unknown or against.message in told:
                continue
            told.add(against.message)
            kind = ComplaintKind.NOT_IN_CATALOG if against.is_ignorance else ComplaintKind.UNAVAILABLE
            instead = "`up` asks the cloud" if against.is_ignorance else "`up` skips it; remove it, or name another"
            yield _at(lines, _key(place, number, index, against.kind), against.message, against.hint or instead, kind)


def _key(place: PlaceBase, number: int, index: int, kind: RefusalKind) -> KeyPath:
    return ("places", number, _OF_PLACE[kind]) if kind in _OF_PLACE else ("places", number, place.locations_key, index)

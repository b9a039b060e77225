"""Where a launch is tried: the profile's places in their order, a region at a time, and the zones of a region one after the other.

Places that the catalog rules out are known before any call. The class of a cloud's error decides what happens next: without capacity
the next zone is tried, without quota the next region, and every other error ends the launch.
"""

from collections.abc import Callable, Sequence
from typing import Any

from provision.clouds import CLOUDS
from provision.clouds.terms import Refusal, RefusalKind
from provision.errors import (
    CapacityError,
    CloudUnsupportedError,
    GpuprovError,
    PriceOverLimitError,
    PriceUnknownError,
    ShortageError,
    UsageError,
)
from provision.launch.edits import nearest_edits
from provision.launch.plan import Plan, PlannedPlace
from provision.profile.model import Profile
from provision.structs import Struct, asdict


class Attempt(Struct):
    """One attempt to launch, and its result.

    Attributes:
        zone: empty where the cloud chooses.
        outcome: `launched`, `adopted`, `skipped` (no call was made), or the code of the error.
        detail: the machines' ids, or the reason that the cloud or the catalog gives.
        count: the number of machines in the request.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    market: str
    outcome: str
    detail: str
    seconds: float
    count: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        keys = {"detail": "said", "count": "asked"}
        return {keys.get(name, name): value for name, value in asdict(self).items()} | {"seconds": round(self.seconds, 3)}


class Option(Struct):
    """Planned places of one region that are one attempt: one where the cloud chooses the zone, else all zones of the region.

    Attributes:
        places: at least one; they differ in their zone alone.
    """

    places: tuple[PlannedPlace, ...]

    @property
    def first(self) -> PlannedPlace:
        """The place that is tried first."""
        return self.places[0]

    @property
    def index(self) -> int:
        """The index of the place in the profile."""
        return self.first.index

    @property
    def cloud(self) -> str:
        """The cloud's name."""
        return self.first.cloud

    @property
    def region(self) -> str:
        """The region's name."""
        return self.first.region

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in the profile, in its order; empty where the cloud chooses among all zones of the region."""
        return tuple(place.zone for place in self.places if place.zone)

    @property
    def refusal(self) -> Refusal | None:
        """Why nothing is launched there; None when it would be tried."""
        return self.first.refusal

    def __str__(self) -> str:
        return str(self.first)

    def attempt(self, outcome: str, detail: str, seconds: float = 0.0, *, zone: str = "", count: int = 1) -> Attempt:
        """A row about this option."""
        place = self.first.place
        return Attempt(self.cloud, self.region, zone, place.instance_type, place.market, outcome, detail, seconds, count)


def options(plan: Plan, only: str | None = None) -> list[Option]:
    """Every place of a plan, region by region, in its order. A zone with a refusal is an option of its own.

    Args:
        plan: has the places.
        only: the one cloud whose places count; None for all.

    Raises:
        UsageError: the profile has no place on that cloud.
    """
    places = [place for place in plan.places if only in {None, place.cloud}]
    if not places:
        msg = f"profile {plan.profile.name} has no place on {only}"
        others = " or ".join(dict.fromkeys(place.cloud for place in plan.places))
        raise UsageError(msg, hint=f"it has places on {others}; add one on {only}, or omit the cloud")
    groups: dict[tuple[object, ...], list[PlannedPlace]] = {}
    for place in places:
        # The usable zones of one region are one attempt.
        own = place.location if place.refusal or not place.zone else ""
        groups.setdefault((place.index, place.region, own), []).append(place)
    return [Option(tuple(members)) for members in groups.values()]


def check_has_places(profile: Profile) -> None:
    """Check that machines can be launched from a profile at all.

    Raises:
        UsageError: it is for hosts that exist.
    """
    if not profile.places:
        msg = f"profile {profile.name} has no places, so nothing can be launched from it: it is for hosts that exist"
        hint = f"`gpuprov apply HOST --profile {profile.name}` sets up a host, `gpuprov verify HOST --profile {profile.name}` checks one"
        raise UsageError(msg, hint=hint)


def check_machines(profile: Profile, count: int) -> None:
    """Check that a profile allows so many machines of one launch, or of one fleet.

    Raises:
        UsageError: it allows fewer.
    """
    most = profile.limits.machines
    if most is not None and count > most:
        msg = f"limits.machines of profile {profile.name} is {most}, and {count} are asked for"
        raise UsageError(msg, hint="ask for fewer; a higher limit is another profile, which is reviewed and signed again")


def check_any(plan: Plan, candidates: Sequence[Option]) -> None:
    """Check that at least one place has no refusal.

    Raises:
        PriceOverLimitError, PriceUnknownError: the price is the reason, at one place at least.
        CloudUnsupportedError: the catalog or the lock is the reason everywhere.
    """
    if all(option.refusal for option in candidates):
        msg = f"no place of profile {plan.profile.name} can be launched in"
        edits = nearest_edits(plan, [place for option in candidates for place in option.places])
        raise refused(msg, [option.first for option in candidates], "; or ".join(map(str, edits)))


def refused(message: str, places: Sequence[PlannedPlace], edits: str = "") -> GpuprovError:
    """The error for places that all have a refusal: about the price if that is the reason at one of them, else about the catalog.

    Args:
        message: what cannot be done; the reasons follow it.
        places: the places, each with its refusal.
        edits: the nearest edits of the profile where the price is the reason, if there are any.
    """
    reasons = dict.fromkeys(f"{place.region} {place.place.instance_type}: {place.refusal}" for place in places)
    text = f"{message}: {'; '.join(reasons)}"
    money = [place.refusal for place in places if place.refusal and place.refusal.is_about_money]
    over = next((refusal for refusal in money if refusal.kind is RefusalKind.OVER_LIMIT), None)
    if over:
        return PriceOverLimitError(text, hint=f"nearest edit: {edits}" if edits else over.hint)
    if money:
        return PriceUnknownError(text, hint=money[0].hint)
    return CloudUnsupportedError(text, hint=f"add a place on {' or '.join(CLOUDS)} that `gpuprov catalog instances` lists")


def try_zones(option: Option, *, ask: Callable[[str], int], all_zones: Callable[[], list[str]]) -> ShortageError | None:
    """Try one option: first without a zone where the cloud chooses, then each zone once, beginning with the zones a cloud suggests.

    Args:
        option: the place and region.
        ask: launches in a zone (or without one), and returns how many machines are still to be launched.
        all_zones: the zones of the region that have the type; called only when they are needed.

    Returns:
        None when there are enough machines. Otherwise the last error of the cloud, or a CapacityError of our own when no zone failed and
        together they still have too few.
    """
    queue, visited = list(option.zones) or [""], set[str]()
    last: ShortageError | None = None
    while queue:
        zone = queue.pop(0)
        visited.add(zone)
        suggestions: Sequence[str] = ()
        try:
            if ask(zone) == 0:
                return None
        except CapacityError as error:
            last, suggestions = error, error.elsewhere
        except ShortageError as error:
            return error  # of the region: another zone cannot help
        if not zone:
            queue = all_zones()
        first = [z for z in suggestions if not option.zones or z in option.zones]  # never a zone outside the signed profile
        queue = [z for z in dict.fromkeys([*first, *queue]) if z not in visited]
    return last or CapacityError(f"too few machines of {option}", hint="try again later, or add a place to the profile")

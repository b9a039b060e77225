"""The nearest edits of a profile with which a place would be within its price limit."""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from provision import clouds
from provision.clouds import search
from provision.clouds.terms import Offer, Price, RefusalKind
from provision.launch.plan import Plan, PlannedPlace
from provision.launch.price import whole_price
from provision.structs import Struct, replace

_FREE_DISK: Final = "instance-store"


class Edit(Struct):
    """One key of a profile with the value to write.

    Attributes:
        line: of the key in the profile's file; None where the file is not at hand.
        effect: what holds afterwards.
    """

    key: str
    value: str
    line: int | None
    effect: str

    def __str__(self) -> str:
        return f"{self.key}: {self.value}{f' (line {self.line})' if self.line else ''}: {self.effect}"


def nearest_edits(plan: Plan, places: Iterable[PlannedPlace] | None = None) -> tuple[Edit, ...]:
    """The edits for the places over the limit, or for some of them: the limit itself, a type that is nearly as dear, a cheaper region."""
    dear = [
        place
        for place in (plan.places if places is None else places)
        if place.refusal and place.refusal.kind is RefusalKind.OVER_LIMIT and place.price
    ]
    edits = [next(each, None) for each in (_limits(plan, dear), _types(plan, dear), _regions(plan, dear))]
    return tuple(edit for edit in edits if edit)


def _limits(plan: Plan, dear: list[PlannedPlace]) -> Iterator[Edit]:
    """The lowest limit in whole cents that admits a place; a place with a part of unknown price is admitted by no limit alone."""
    allowed = plan.profile.limits.unknown_price == "allow"
    prices = {place: place.price.usd_per_hour for place in dear if place.price and (place.price.whole or allowed)}
    for place in sorted(prices, key=lambda each: prices[each]):
        limit = math.ceil(round(prices[place] * 100, 6)) / 100
        yield _edit(plan, "limits.price_per_hour_usd", f"{limit:.2f}", f"{place.place.instance_type} in {place.location} is within it")


def _types(plan: Plan, dear: list[PlannedPlace]) -> Iterator[Edit]:
    """Another type with the same GPUs in the same location, the dearest that is within the limit: it is the most like the first."""
    data = plan.profile.disks.data
    for place in dear:
        provider = clouds.provider(place.cloud)
        offers = search.offers(gpu=place.gpu, region=place.region, cloud=place.cloud)
        priced = [replace(offer, price=_price(plan, place, offer)) for offer in offers]
        fitting = search.affordable(priced, plan.profile.limits.price_per_hour_usd)
        for offer in sorted(fitting, key=lambda each: -(each.price.usd_per_hour if each.price else 0)):
            other = place.place.model_copy(update={"instance_type": offer.instance_type})
            disk = data is None or data.source != _FREE_DISK or provider.local_disks(offer.instance_type) != 0
            if offer.gpus == place.gpu_count and disk and provider.refusal(other, place.location, place.gpu, place.gpu_count) is None:
                effect = f"it costs {offer.price.usd_per_hour if offer.price else 0:.3f} USD/h in {place.location}"
                yield _edit(plan, f"places.{place.index}.instance_type", offer.instance_type, effect)


def _regions(plan: Plan, dear: list[PlannedPlace]) -> Iterator[Edit]:
    """The region that has the same type at the lowest price within the limit, and that need not be enabled in the account first."""
    for place in dear:
        provider, prices = clouds.provider(place.cloud), dict[str, float]()
        for region, zones in provider.offered_in(place.place.instance_type, place.gpu).items():
            price = whole_price(plan.profile, place.place, region)
            location = next(iter(zones), "") if place.place.zonal else region
            record = provider.regions().get(region)
            usd = price.usd_per_hour if price and price.whole else math.inf
            if location and record and not record.opt_in and usd <= plan.profile.limits.price_per_hour_usd:
                prices[location] = usd
        for location in sorted(prices, key=lambda each: (prices[each], each)):
            effect = f"{place.place.instance_type} costs {prices[location]:.3f} USD/h there"
            yield _edit(plan, f"places.{place.index}.{place.place.locations_key}", f"[{location}]", effect)


def _price(plan: Plan, place: PlannedPlace, offer: Offer) -> Price | None:
    """The price of another machine in the same place, with the profile's disks and address."""
    return whole_price(plan.profile, place.place.model_copy(update={"instance_type": offer.instance_type}), place.region)


def _edit(plan: Plan, key: str, value: str, effect: str) -> Edit:
    return Edit(key, value, plan.lines.get(key), effect)

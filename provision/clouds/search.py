"""Offers of all clouds: those that fit, their prices, and where one type is offered."""

from collections.abc import Sequence

from provision import clouds
from provision.clouds.terms import Offer, Price
from provision.structs import Struct, replace


def offers(*, gpu: str | None = None, region: str | None = None, cloud: str | None = None) -> list[Offer]:
    """The offers that fit: with a region in that region, else one for each type, with the region of its lowest known price.

    Args:
        gpu: a model of the catalog.
        region: a region of any cloud.
        cloud: the one cloud that counts; None for all.
    """
    fitting = [
        offer
        for name in clouds.CLOUDS
        if cloud in {None, name}
        for offer in clouds.offering(name).offers()
        if (gpu is None or offer.gpu == gpu) and (region is None or region in offer.regions)
    ]
    return [_in_region(offer, region) if region is not None else _at_its_lowest(offer) for offer in fitting]


def affordable(fitting: Sequence[Offer], max_price_usd: float) -> list[Offer]:
    """The offers whose whole price is known and within a limit."""
    return [offer for offer in fitting if offer.price and offer.price.whole and offer.price.usd_per_hour <= max_price_usd]


def _price(offer: Offer, region: str) -> Price | None:
    return clouds.offering(offer.cloud).price(offer.instance_type, region, offer.gpu or "", int(offer.gpus))


def _in_region(offer: Offer, region: str) -> Offer:
    zones = clouds.offering(offer.cloud).offered_in(offer.instance_type, offer.gpu).get(region, ())
    return replace(offer, region=region, zones=zones, price=_price(offer, region))


def _at_its_lowest(offer: Offer) -> Offer:
    """The offer with its lowest whole price, or its lowest price when none is whole, and the region that has it."""
    prices = {region: price for region in offer.regions if (price := _price(offer, region))}
    if not prices:
        return offer
    region = min(prices, key=lambda name: (not prices[name].whole, prices[name].usd_per_hour, name))
    return replace(offer, region=region, price=prices[region])


class Whereabouts(Struct):
    """Where one type is offered.

    Attributes:
        zones: region → zones; empty when it is offered nowhere.
        opt_in: the regions that must be enabled in the account once.
        source: the id of the source that says so; empty when it is offered nowhere.
        reason: why it is offered nowhere, for people.
        known: whether it is known where it is offered, and be it nowhere.
    """

    cloud: str
    zones: dict[str, tuple[str, ...]]
    opt_in: frozenset[str]
    source: str
    reason: str
    known: bool = True


def whereabouts(instance_type: str, gpu: str | None = None) -> Whereabouts:
    """Where a type is offered, or why nowhere.

    Args:
        instance_type: as its cloud calls it.
        gpu: which GPU is attached, where a type has none of its own.

    Raises:
        UsageError: only with a GPU can that be said.
    """
    provider = next((each for each in clouds.providers() if each.names_type(instance_type)), clouds.providers()[-1])
    zones = provider.offered_in(instance_type, gpu)
    if not zones:
        against = provider.why_nowhere(instance_type, gpu)
        reason = str(clouds.with_elsewhere(against, gpu or provider.gpu_of(instance_type)))
        if against.is_ignorance:
            reason = f"it is not known where {instance_type} is offered: {reason}; look at {provider.where_to_look}"
        return Whereabouts(provider.name, {}, frozenset(), "", reason, known=not against.is_ignorance)
    opt_in = frozenset(code for code, region in provider.regions().items() if region.opt_in)
    return Whereabouts(provider.name, zones, opt_in, provider.source_of(instance_type), "")


def regions() -> list[str]:
    """The regions of all clouds."""
    return [code for name in clouds.CLOUDS for code in clouds.offering(name).regions()]

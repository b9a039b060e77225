"""Which machines a new profile asks for: the smallest of each cloud that has the GPU in the regions that a user names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from provision import clouds
from provision.catalog import read
from provision.clouds.search import affordable, offers
from provision.errors import UsageError
from provision.nearest import suggested
from provision.structs import Struct, replace

if TYPE_CHECKING:
    from provision.clouds.offline import PlaceBase, Provider
    from provision.clouds.terms import Offer, Price

_LEAST_MEMORY_GB: Final = 15  # for each GPU: a machine with less has one or two vCPUs, which cannot load data as fast as a GPU takes it
_MARKET: Final = "on-demand"


class OfferedMachine(Struct):
    """A machine type in some regions of one cloud.

    Attributes:
        place: the same as a profile has it.
        prices: region → price on demand; None where the catalog has none.
        opt_in: the regions that must be enabled in the account once.
    """

    offer: Offer
    place: PlaceBase
    prices: dict[str, Price | None]
    opt_in: tuple[str, ...]


def sellers(gpu: str) -> dict[str, list[str]]:
    """Cloud → the regions in which the catalog knows machines with this GPU, in alphabetical order; a cloud without any is omitted."""
    regions: dict[str, set[str]] = {}
    for offer in _fitting(gpu):
        regions.setdefault(offer.cloud, set()).update(offer.regions)
    return {cloud: sorted(names) for cloud, names in regions.items() if names}


def cheapest_region(gpu: str, cloud: str | None = None) -> str:
    """The region with the lowest known price of the GPU, or else any that has it; empty when none has."""
    known = [offer for offer in offers(gpu=gpu, cloud=cloud) if _is_fit(offer) and offer.region in _placeable(offer)]
    whole = affordable(known, float("inf"))
    if whole:
        return min(whole, key=lambda offer: (offer.price.usd_per_hour if offer.price else 0, offer.region)).region or ""
    return next((region for name, regions in sellers(gpu).items() if cloud in {None, name} for region in regions), "")


def default_region(gpu: str, count: int | None, cloud: str | None = None) -> tuple[str, str, str]:
    """The cloud, the region that its own tools are set to, and where that is set, if it offers the GPU; else three empty texts."""
    for provider in clouds.providers():
        with contextlib.suppress(UsageError):
            region, where = provider.default_region()
            if region and cloud in {None, provider.name} and choose(gpu, [region], count=count, cloud=provider.name):
                return provider.name, region, where
    return "", "", ""


def choose(gpu: str, regions: Sequence[str], *, count: int | None = None, cloud: str | None = None) -> list[OfferedMachine]:
    """The smallest machine with the GPU for each region, in the order of the regions; those with the same machine are one.

    Args:
        gpu: a model of the catalog.
        regions: of any cloud.
        count: how many GPUs a machine must have; None for the fewest that are sold together.
        cloud: the one cloud that counts; None for all.

    Raises:
        UsageError: a region does not exist or has no such machine; the message or hint says which have.
    """
    chosen: dict[tuple[str, str, int], tuple[Offer, list[str]]] = {}
    for region in dict.fromkeys(regions):
        provider = _of_region(region, cloud)
        fitting = [offer for offer in _fitting(gpu, provider.name) if region in offer.regions]
        if not fitting:
            raise _not_offered(gpu, region, provider, cloud)
        matching = [offer for offer in fitting if count in {None, int(offer.gpus)}]
        if not matching:
            sold = ", ".join(map(str, sorted({int(offer.gpus) for offer in fitting})))
            msg = f"{region} has no machine with {count} x {read.gpu(gpu).name}"
            raise UsageError(msg, hint=f"a machine there has {sold} of them; leave the number out for the fewest")
        offer = min(matching, key=lambda each: (each.gpus, each.vcpus, each.memory_gb))
        chosen.setdefault((offer.cloud, offer.instance_type, int(offer.gpus)), (offer, []))[1].append(region)
    return [_offered(offer, where) for offer, where in chosen.values()]


def _fitting(gpu: str, cloud: str | None = None) -> Iterator[Offer]:
    """The offers that somebody can work with; a fraction of a GPU is none of them."""
    for provider in clouds.providers():
        if cloud in {None, provider.name}:
            fitting = (offer for offer in provider.offers() if offer.gpu == gpu and _is_fit(offer))
            yield from (replace(offer, regions=_placeable(offer)) for offer in fitting)


def _placeable(offer: Offer) -> tuple[str, ...]:
    """The regions in which a profile can name a place: where places are zones, the zones must be known."""
    provider = clouds.provider(offer.cloud)
    if not provider.place.zonal:
        return offer.regions
    return tuple(region for region, zones in provider.offered_in(offer.instance_type, offer.gpu).items() if zones)


def _is_fit(offer: Offer) -> bool:
    return offer.gpus >= 1 and offer.memory_gb >= _LEAST_MEMORY_GB * offer.gpus and _MARKET in offer.markets


def _of_region(region: str, cloud: str | None) -> Provider:
    """The cloud that has a region."""
    among = [provider for provider in clouds.providers() if cloud in {None, provider.name}]
    for provider in among:
        if region in provider.regions():
            return provider
    names = [code for provider in among for code in provider.regions()]
    msg = f"{region!a} is not a region of {' or '.join(provider.title for provider in among)}"
    others = [f"it is a region of {provider.title}" for provider in clouds.providers() if region in provider.regions()]
    raise UsageError(
        msg, hint=next(iter(others), "") or suggested(region, names) or "`gpuprov catalog instances --gpu GPU` lists where a GPU is offered"
    )


def _not_offered(gpu: str, region: str, provider: Provider, cloud: str | None) -> UsageError:
    """The error for a region without the GPU: where it is, or how to learn that."""
    title = read.gpu(gpu).name
    refresh = f"`gpuprov catalog refresh --only {next(iter(provider.refreshes))}` asks {provider.title}"
    elsewhere = [f"{clouds.provider(name).title}: {', '.join(codes)}" for name, codes in sellers(gpu).items() if cloud in {None, name}]
    hint = "; ".join([*elsewhere, refresh] if provider.name not in sellers(gpu) else elsewhere)
    if not provider.regions()[region].recorded:
        return UsageError(f"what {region} offers is not in the catalog", hint="; ".join([refresh, *elsewhere]))
    if provider.name not in sellers(gpu):
        return UsageError(f"the catalog knows no region of {provider.title} with {title}", hint=hint)
    return UsageError(f"{region} has no {title}", hint=hint)


def _offered(offer: Offer, regions: Sequence[str]) -> OfferedMachine:
    provider = clouds.provider(offer.cloud)
    known = provider.regions()
    return OfferedMachine(
        offer=offer,
        place=provider.place_at(offer, regions),
        prices={region: provider.price(offer.instance_type, region, offer.gpu or "", int(offer.gpus)) for region in regions},
        opt_in=tuple(region for region in regions if known[region].opt_in),
    )

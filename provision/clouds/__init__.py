"""The clouds. Each is a folder of its own, and one name here; two contracts describe it: `offline.Provider` and `base.Cloud`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, Final, cast

from provision.catalog import read
from provision.errors import CloudUnsupportedError
from provision.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provision.catalog.records.base import Source
    from provision.clouds.base import Cloud
    from provision.clouds.offline import Offering, PlaceBase, Provider
from provision.clouds.terms import Refusal, Safeguard, Way

CLOUDS: Final = ("aws", "digitalocean", "gcp")
"""The folders here, in the order in which they are listed."""


@functools.cache
def _module(cloud: str, name: str) -> Any:
    """A module of a cloud's folder, imported on use: an SDK costs up to 1.6 s, and some install without those that they do not use."""
    if cloud not in CLOUDS:
        msg = f"launching on {cloud} is not part of this release"
        raise CloudUnsupportedError(msg, hint=f"add a place on {', '.join(CLOUDS)} to the profile")
    try:
        return importlib.import_module(f"{__name__}.{cloud}.{name}")
    except ModuleNotFoundError as error:
        msg = f"{error.name} is not installed, without which gpuprov cannot ask {cloud}"
        raise importlib.import_module(f"{__name__}.base").NotSetUpError(msg, hint="install gpuprov with all that it depends on") from error


def provider(cloud: str) -> Provider:
    """What a cloud says without being contacted.

    Raises:
        CloudUnsupportedError: there is no such cloud here.
    """
    return cast("Provider", _module(cloud, "provider"))


def offering(cloud: str) -> Offering:
    """What a cloud offers where. It is loaded faster than its provider."""
    return cast("Offering", _module(cloud, "offers"))


def providers() -> list[Provider]:
    """All of them."""
    return [provider(cloud) for cloud in CLOUDS]


def safeguards(places: Sequence[PlaceBase]) -> Iterator[tuple[str, Safeguard]]:
    """What each cloud's requests contain whatever a profile says, but for what one of its places takes away."""
    for cloud in dict.fromkeys(place.cloud for place in places):
        taken = {option.key for place in places if place.cloud == cloud for option in provider(cloud).cloud_options(place)}
        yield from ((cloud, guard) for guard in provider(cloud).safeguards if guard.unless not in taken)


def connect(cloud: str, region: str, access: Any = None) -> Cloud:
    """The client of one region.

    Args:
        cloud: one of `CLOUDS`.
        region: region code.
        access: whose account, as `access_from` makes it; None for the user's own.

    Raises:
        CloudUnsupportedError: there is no such cloud here.
    """
    return cast("Cloud", _module(cloud, "cloud").connect(region, access))


def fleets(cloud: str) -> Any:
    """What a cloud has for fleets: `connect(region, access)` and `plan(order, region)`, as `clouds.fleet` describes them.

    Raises:
        CloudUnsupportedError: this release has no fleets there.
    """
    if cloud in CLOUDS and not _has_fleets(cloud):
        able = [each for each in CLOUDS if _has_fleets(each)]
        msg = f"this release has no fleets on {cloud}"
        raise CloudUnsupportedError(msg, hint=f"add a place on {', '.join(able)} to the profile, or launch hosts with `gpuprov up --count`")
    return _module(cloud, "fleet")


def fleet_stores(names: Sequence[str]) -> dict[str, str]:
    """Those of the named clouds that have fleets: what the address of a store there begins with → the cloud, in the given order."""
    buckets = {cloud: provider(cloud).bucket for cloud in names if _has_fleets(cloud)}
    return {bucket.scheme: cloud for cloud, bucket in buckets.items() if bucket}


def _has_fleets(cloud: str) -> bool:
    return importlib.util.find_spec(f"{__name__}.{cloud}.fleet") is not None


def access_from(cloud: str, settings: dict[str, str]) -> Any:
    """Whose account is meant, from plain settings such as those of the embedded cloud."""
    return _module(cloud, "access").access_from(settings)


def refresh_module(cloud: str) -> Any:
    """What asks a cloud for today's catalog; its functions are named by `Provider.refreshes`."""
    return _module(cloud, "refresh")


def refreshes() -> dict[str, str]:
    """What can be refreshed → the cloud that is asked, or empty for what no cloud knows; the cheap parts first.

    The first part of each cloud is a few calls, its others are hundreds, and the wheels take minutes.
    """
    ranked = [(rank, name, cloud) for cloud in CLOUDS for rank, name in enumerate(offering(cloud).refreshes)]
    return {name: cloud for _, name, cloud in sorted(ranked, key=lambda part: part[0])} | {"packages": "", "wheels": ""}


def runbook(cloud: str) -> Any:
    """The steps of a runbook that are the cloud's own."""
    return _module(cloud, "forms.runbook")


@functools.cache
def ways() -> dict[str, tuple[str, Way]]:
    """Name of a way in → the cloud that offers it, and the way."""
    return {way.name: (each.name, way) for each in providers() for way in each.ways.values()}


def credential_variables() -> tuple[str, ...]:
    """Environment variables that tell the programs of all ways in where to find credentials; none of them holds a secret."""
    return tuple(variable for _, way in ways().values() for variable in way.credential_variables)


def sources() -> dict[str, Source]:
    """Every source by its id: those of the catalog, and those of each cloud's own data."""
    merged = dict(read.sources())
    for cloud in CLOUDS:
        merged |= offering(cloud).sources()
    return merged


def elsewhere(gpu: str) -> str:
    """Where a GPU can be had, in a few words: `g4dn.xlarge in 21 regions of AWS; 49 zones of GCP`."""
    return "; ".join(filter(None, (each.smallest_with(gpu) for each in providers()))) or "nowhere in this catalog"


def refusal(place: PlaceBase, location: str, gpu: str, count: int) -> Refusal | None:
    """What the catalog knows against a location of a place; for a withdrawn type with where else the GPU is.

    Args:
        place: of the profile.
        location: one of its regions or zones.
        gpu: the model that the profile asks for.
        count: how many of them.
    """
    return with_elsewhere(provider(place.cloud).refusal(place, location, gpu, count), gpu)


def with_elsewhere(against: Refusal | None, gpu: str | None) -> Refusal | None:
    """The same refusal; if the type was withdrawn, with where else its GPU can be had."""
    if against is None or not against.was_withdrawn or not gpu:
        return against
    return replace(against, message=f"{against.message}; {read.gpu(gpu).name} is at {elsewhere(gpu)}")

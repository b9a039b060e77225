"""Where our things can be: the regions of profiles and journal, and those of the catalogue; each cloud asked no oftener than it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from provision.catalog import places, read
from provision.clouds import CLOUDS
from provision.clouds import base as clouds
from provision.launch.journal import Record
from provision.launch.place import region_of
from provision.profile.model import AwsPlace, Profile

__all__ = ["Connect", "everywhere", "regions_of"]

Connect = Callable[[str, str], clouds.Cloud]


def regions_of(profiles: Iterable[Profile], records: Iterable[Record]) -> set[tuple[str, str]]:
    """The (cloud, region) pairs where our instances can be: those of the profiles and those of the journal."""
    named = {
        (place.cloud, region_of(place, where))
        for profile in profiles
        for place in profile.places
        for where in (place.regions if isinstance(place, AwsPlace) else place.zones)
    }
    known = named | {pair for record in records for pair in record.regions}
    return {pair for pair in known if pair[0] in CLOUDS}


def everywhere() -> set[tuple[str, str]]:
    """Every region that the catalogue knows and that need not be enabled first."""
    known = {("aws", code) for code, region in read.aws().regions.codes.items() if not region.opt_in}
    known |= {("gcp", region) for region in places.gcp_regions()}
    return {pair for pair in known if pair[0] in CLOUDS}

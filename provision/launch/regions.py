"""Where our things can be: the regions of the profiles and the journal, and those of the catalog."""

from collections.abc import Callable, Iterable

from provision import clouds
from provision.clouds.base import Cloud
from provision.launch.journal import Record
from provision.profile.model import Profile

Connect = Callable[[str, str], Cloud]


def regions_of(profiles: Iterable[Profile], records: Iterable[Record]) -> set[tuple[str, str]]:
    """The (cloud, region) pairs where our instances can be: those of the profiles and those of the journal."""
    planned = {(place.cloud, place.region_of(location)) for profile in profiles for place in profile.places for location in place.locations}
    return {pair for pair in planned | {pair for record in records for pair in record.regions} if pair[0] in clouds.CLOUDS}


def everywhere() -> set[tuple[str, str]]:
    """Every region that the catalog knows and that need not be enabled first."""
    return {(each.name, region.code) for each in clouds.providers() for region in each.regions().values() if not region.opt_in}

"""What the clouds of a plan must allow: the actions of its orders, and the smallest policy that grants them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from provision import clouds
from provision.clouds.base import Order
from provision.clouds.terms import Grant
from provision.profile.model import Profile
from provision.structs import Struct

if TYPE_CHECKING:
    from provision.launch.plan import PlannedPlace


class PlannedPermissions(Struct):
    """What one cloud must allow: the actions, the smallest policy document where the cloud has policies, and a note."""

    cloud: str
    actions: tuple[str, ...]
    document: dict[str, Any] | None
    note: str


def planned_permissions(
    profile: Profile, name: str, places: Sequence["PlannedPlace"], draft: Sequence[Order]
) -> Iterator[PlannedPermissions]:
    """What each cloud of a profile must allow.

    Args:
        profile: the profile.
        name: of the launch.
        places: as planned.
        draft: the order of the first attempt at each of them.
    """
    way = profile.network.way
    for cloud in dict.fromkeys(place.cloud for place in profile.places):
        provider = clouds.provider(cloud)
        mine = [place for place in places if place.cloud == cloud]
        actions = {
            action for place, each in zip(places, draft, strict=True) if place.cloud == cloud for action in provider.permissions(each)
        }
        granted = grant(profile, name, mine)
        yield PlannedPermissions(cloud, tuple(sorted(actions | set(way.permissions if way else ()))), *provider.policy(granted))


def grant(profile: Profile, name: str, places: Sequence["PlannedPlace"]) -> Grant:
    """The launches of a profile under a name at places of one cloud."""
    return Grant(
        name=name,
        regions=tuple(dict.fromkeys(place.region for place in places)),
        instance_types=tuple(sorted({place.place.instance_type for place in places})),
        spot=any(place.place.market == "spot" for place in places),
        subnet=profile.network.subnet or "",
        places=tuple(dict.fromkeys(place.place for place in places)),
        os=(profile.os.name, profile.os.version),
    )

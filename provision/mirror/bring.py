"""Bring a folder that was checked to a host, with what its apt or dnf is told of it."""

from collections.abc import Callable
from typing import Final

from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.host.carry import Parcel, carry
from provision.host.ssh import Target
from provision.mirror import rpms
from provision.mirror.folder import CarriedFolder
from provision.mirror.origins import configuration, origins, preferences, sources
from provision.profile.locked import Lock
from provision.profile.model import Profile

# apt's own user reads there; nobody but root writes there.
_ON_HOST: Final = "/var/cache/gpuprov"


def carry_to(target: Target, carried: CarriedFolder, profile: Profile, lock: Lock, say: Callable[[str], None]) -> str:
    """Have the folder on the host, and return its path there.

    Raises:
        MirrorRefusedError: the folder lacks an index.
        IndexUnreachableError: an index of dnf is not what the repository's key has signed.
        HostUnreachableError: it does not arrive.
    """
    place = f"{_ON_HOST}/{lock.digest[:16]}"
    of = origins(lock)
    if any(origin.repository.kind == "dnf" for origin in of):
        rpms.check(carried.folder, of)  # on the host nobody looks at the signatures of the indices again
        texts = rpms.configuration(place, of)
    else:
        texts = {
            "apt.conf": configuration(place, place, alone=False),
            "apt.sources": sources(place, of),
            "preferences": preferences(variables(profile, lock, ROLES), of, carried.folder),
            "lists/partial/.keep": "",
        }
    parcels = [Parcel(carried.folder / file.path, file.path, file.sha256, file.bytes) for file in carried.files]
    carry(target, parcels, texts, place, say)
    return place

"""Whether the machines of a profile have NVSwitches, which need the fabric manager. The profile and the catalog alone decide it."""

from provision import clouds
from provision.catalog import read
from provision.catalog.records.base import version
from provision.clouds.offline import PlaceBase
from provision.profile.model import Profile


def has_nvswitch(profile: Profile) -> bool:
    """Whether one of the machines has NVSwitches.

    A machine type says so itself. For a host that exists, and for a type that the catalog does not have, the number of GPUs does: boards
    with that many of the model have NVSwitches. Eight cards in PCIe slots are not told apart here; `verify` sees that they have no switch.
    """
    return any(_switched(profile, place) for place in profile.places) if profile.places else _by_count(profile.gpu.model, profile.gpu.count)


def _switched(profile: Profile, place: PlaceBase) -> bool:
    told = clouds.provider(place.cloud).has_nvswitch(place.instance_type)
    return _by_count(*place.gpus(profile.gpu.model, profile.gpu.count)) if told is None else told


def _by_count(model: str, count: int) -> bool:
    board = read.gpu(model).nvswitch_from
    return board is not None and count >= board


def has_nvlink5(profile: Profile) -> bool:
    """Whether the GPU has NVLink 5, whose switches are configured through a subnet manager and are not devices of NVIDIA's on the bus."""
    return version(read.gpu(profile.gpu.model).compute_capability) >= version(read.driver().fabric.nvlink5.from_capability)


def why_not(profile: Profile) -> str:
    """Why there is no need of the fabric manager, in words."""
    if profile.places:
        return f"{', '.join(dict.fromkeys(place.instance_type for place in profile.places))}: no NVSwitch"
    return f"{profile.gpu.count} x {profile.gpu.model.upper()}: no board with NVSwitches"

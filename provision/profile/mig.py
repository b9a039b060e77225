"""How the GPUs of a profile are split (Multi-Instance GPU): whether the card can be split so, and what does not go with it."""

from collections.abc import Iterator

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.gpus import GpuRecord
from provision.profile.model import Profile
from provision.profile.plain import KeyPath

# A process sees one MIG device, and there is no path between two of them.
_TOGETHER = frozenset({"nccl"})


def slices(profile: Profile) -> tuple[str, ...]:
    """The slices of each GPU, one by one, the largest first: created in this order they all find room."""
    every = [each.slice for each in profile.gpu.mig for _ in range(each.count)]
    return tuple(sorted(every, key=_size, reverse=True))


def problems(profile: Profile) -> Iterator[tuple[KeyPath, str, str]]:
    """Why the GPUs cannot be split as a profile says: the key, what is wrong, and what to write instead."""
    if not profile.gpu.mig:
        return
    gpu, key = read.gpu(profile.gpu.model), ("gpu", "mig")
    if not gpu.mig:
        able = ", ".join(card.model for card in read.gpus().gpus if card.mig)
        yield key, f"{gpu.name} cannot be split: the catalog knows no MIG of it", f"remove mig, or choose one of {able}"
        return
    for number, each in enumerate(profile.gpu.mig):
        if each.slice not in gpu.mig:
            yield (*key, number, "slice"), f"{gpu.name} has no slice {each.slice}", f"write one of: {', '.join(gpu.mig)}"
    if all(each.slice in gpu.mig for each in profile.gpu.mig):
        full = _overfull(gpu, slices(profile))
        if full:
            yield key, full, f"alone, {gpu.name} takes {', '.join(f'{most} x {name}' for name, most in gpu.mig.items())}"
    if profile.gpu.application_clocks != "default":
        why = "clocks cannot be set on a GPU that is split with MIG"
        yield ("gpu", "application_clocks"), why, "write default, or remove gpu.mig"
    for name in sorted(_TOGETHER & set(profile.stack.extras)):
        why = f"{name} joins GPUs, and a MIG device has no NVLink and no path to another one"
        yield ("stack", "extras"), why, f"remove {name}, or gpu.mig"


def driver_problem(profile: Profile, branch: str) -> str:
    """Why a driver branch cannot split the profile's GPUs; empty where it can, or need not."""
    gpu = read.gpu(profile.gpu.model)
    if not profile.gpu.mig or gpu.mig_driver is None or version(branch) >= version(gpu.mig_driver)[:1]:
        return ""
    return f"MIG on {gpu.name} needs driver {gpu.mig_driver} or later, not {branch}"


def _size(name: str) -> tuple[int, int]:
    """Compute slices and GB of a slice such as 1g.10gb."""
    compute, memory = name.removesuffix("gb").split("g.")
    return int(compute), int(memory)


def _overfull(gpu: GpuRecord, every: tuple[str, ...]) -> str:
    """What slices need more of than the card has; empty where they fit.

    The largest slice is the whole card. Memory is handed out in parts as large as the smallest slice's, of which the larger ones have two,
    four or eight; so 3g.40gb of an 80 GB card takes four of eight parts with its three of seven compute slices.
    """
    for name in dict.fromkeys(every):
        if every.count(name) > gpu.mig[name]:
            return f"{every.count(name)} x {name} is more than {gpu.name} has, which is {gpu.mig[name]}"
    part = min(_size(name)[1] for name in gpu.mig)
    whole = max(map(_size, gpu.mig))
    compute, memory = sum(_size(name)[0] for name in every), sum(round(_size(name)[1] / part) for name in every)
    text = " + ".join(f"{every.count(name)} x {name}" for name in dict.fromkeys(every))
    if compute > whole[0]:
        return f"{text} needs {compute} compute slices, and {gpu.name} has {whole[0]}"
    parts = round(whole[1] / part)
    return f"{text} needs {memory} of the {parts} parts of the memory of {gpu.name}" if memory > parts else ""

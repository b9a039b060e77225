"""Which machine types GCP offers with GPUs, where and at what price, and why a place cannot be had. Nothing is asked of GCP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from provision.clouds.gcp import data
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.terms import Offer, Price, PricePart, Refusal, RefusalKind

_MARKETS: Final = ("on-demand", "spot")
_SHOWN: Final = 4
_LOCAL_SSDS: Final = 8
_LOCAL_SSD_GB: Final = 375  # the smallest that GCP has; a larger total is one or several


def offers() -> Iterator[Offer]:
    """N1 with each GPU that can be attached to it, and the machine types with GPUs inside."""
    n1 = data.gcp().n1
    for attached in data.gcp().attached:
        regions = regions_with(attached.accelerator)
        for shape in attached.shapes:
            for vcpus in n1.vcpus:
                memory_gb = vcpus * n1.gb_per_vcpu["standard"]
                if vcpus <= shape.vcpus and memory_gb <= shape.memory_gb:
                    size = (shape.gpus, vcpus, memory_gb, 0)
                    yield Offer("gcp", f"n1-standard-{vcpus}", attached.gpu, *size, regions, _MARKETS, attached.source)
    for machine in data.gcp().machines:
        size = (machine.gpus, machine.vcpus, machine.memory_gb, machine.local_ssd_gb)
        regions = regions_with(data.accelerator(machine.gpu))
        yield Offer("gcp", machine.type, machine.gpu, *size, regions, _MARKETS, machine.source)


def regions_with(accelerator: str) -> tuple[str, ...]:
    """The regions that have an accelerator."""
    return tuple(sorted({zone.rpartition("-")[0] for zone in data.zones(accelerator)}))


def regions() -> list[str]:
    """The regions that have any accelerator."""
    zones = [zone for listed in data.gcp().zones.values() if isinstance(listed, list) for zone in listed]
    return sorted({zone.rpartition("-")[0] for zone in zones})


def offered_in(machine_type: str, gpu: str | None) -> dict[str, tuple[str, ...]]:
    """Region → zones of a machine type; N1 is wherever the GPU is."""
    machine = data.machine(machine_type)
    model = machine.gpu if machine else gpu
    by_region: dict[str, tuple[str, ...]] = {}
    for zone in sorted(data.zones(data.accelerator(model))) if model else ():
        region = zone.rpartition("-")[0]
        by_region[region] = (*by_region.get(region, ()), zone)
    return by_region


def price(machine_type: str, region: str, gpu: str, count: float) -> Price | None:
    """The on-demand price of a machine with its GPUs; for N1 the GPUs, the vCPUs and the memory are three parts."""
    prices = data.gcp().prices
    machine = next((entry for entry in prices if entry.machine == machine_type), None)
    if machine:
        return Price((PricePart("machine", machine.usd_per_hour, machine.source),))
    attached = next((entry for entry in prices if entry.gpu_only and entry.gpu == gpu), None)
    size = _n1_size(machine_type)
    if attached is None or size is None:
        return None
    gpus = PricePart(f"{count:g} x {gpu}", round(attached.usd_per_hour * count, 4), attached.source)
    rates = data.gcp().n1_prices
    rate = rates.regions.get(region)
    if rate is None:
        return Price((gpus,), missing=("vCPUs", "memory"))
    vcpus, memory_gb = size
    source = rate.source or rates.source
    cpu = PricePart(f"{vcpus} vCPUs", round(rate.vcpu * vcpus, 6), source)
    memory = PricePart(f"{memory_gb:g} GB of memory", round(rate.memory_gb * memory_gb, 6), source)
    return Price((gpus, cpu, memory))


def _n1_size(machine_type: str) -> tuple[int, float] | None:
    """The vCPUs and GB of memory of an N1 type; None for another family."""
    family, _, rest = machine_type.partition("-")
    kind, _, vcpus = rest.partition("-")
    ratios = data.gcp().n1.gb_per_vcpu
    if family != "n1" or kind not in ratios or not vcpus.isdigit():
        return None
    return int(vcpus), int(vcpus) * ratios[kind]


def local_disks(machine_type: str) -> int | None:
    """How many local SSDs a machine has when the data disk is to be there; None where only their total is known."""
    attached, machine = attached_ssds(machine_type), data.machine(machine_type)
    if attached:
        return attached
    if machine and machine.local_ssd_gb <= _LOCAL_SSD_GB:
        return 1 if machine.local_ssd_gb else 0
    return None


def attached_ssds(machine_type: str) -> int:
    """How many local SSDs are attached for a data disk inside the machine; 0 where they are built in, or impossible.

    N1 takes 1 to 8, 16 or 24 (AllowedLocalSSDCount of cockroachdb/cockroach). A2 and G2 take one for each GPU, at most 8 (from memory).
    """
    if machine_type.startswith("n1-"):
        return 1
    machine = data.machine(machine_type)
    fits = machine is not None and not machine.local_ssd_gb and machine_type.startswith(("a2-", "g2-"))
    return min(machine.gpus, _LOCAL_SSDS) if machine and fits else 0


def smallest_with(gpu: str) -> str:
    """Where a GPU can be had, in a few words; empty when nowhere."""
    accelerator = data.accelerator(gpu)
    zones = data.zones(accelerator)
    return f"{len(zones)} zones of GCP ({_few(regions_with(accelerator))})" if zones else ""


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{len(names)} regions"


def refusal(place: GcpPlace, zone: str, gpu: str, count: int) -> Refusal | None:
    """What the catalog knows against a place.

    Args:
        place: of the profile.
        zone: one of its zones.
        gpu: the model that the profile asks for.
        count: how many of them, at least.
    """
    against = _shape_problem(place)
    if against is None and (place.gpu != gpu or place.gpu_count < count):
        message = f"the place has {place.gpu_count} x {place.gpu}, and the profile asks for {count} x {gpu}"
        against = Refusal(RefusalKind.WRONG_GPU if place.gpu != gpu else RefusalKind.TOO_FEW_GPUS, message)
    if against:
        return against
    accelerator = data.accelerator(place.gpu)
    zones = data.zones(accelerator)
    if not zones:
        return Refusal(RefusalKind.UNRECORDED, f"the zones with {accelerator or place.gpu} are not recorded")
    if zone not in zones:
        return Refusal(RefusalKind.NOT_OFFERED, f"{zone} has no {accelerator}; it is in {_few(regions_with(accelerator))}")
    return None


def _shape_problem(place: GcpPlace) -> Refusal | None:
    """Why there is no such machine with such GPUs."""
    name, gpu, count = place.instance_type, place.gpu, place.gpu_count
    machine = data.machine(name)
    if machine:
        if (machine.gpu, machine.gpus) == (gpu, count):
            return None
        message = f"{name} has {machine.gpus} x {machine.gpu} built in, and the place names {count} x {gpu}"
        return Refusal(RefusalKind.BAD_SHAPE, message)
    attached = next((record for record in data.gcp().attached if record.gpu == gpu), None)
    size = _n1_size(name)
    if attached is None or size is None:
        return Refusal(RefusalKind.UNKNOWN_TYPE, f"{f'{name} with {gpu}' if gpu else name} is not in the catalog")
    shape = next((record for record in attached.shapes if record.gpus == count), None)
    if shape is None:
        counts = ", ".join(str(record.gpus) for record in attached.shapes)
        return Refusal(RefusalKind.BAD_SHAPE, f"{gpu} is attached {counts} at a time, not {count}")
    vcpus, memory_gb = size
    if vcpus > shape.vcpus or memory_gb > shape.memory_gb:
        most = f"with {count} x {gpu} a machine has at most {shape.vcpus} vCPUs and {shape.memory_gb:g} GB"
        return Refusal(RefusalKind.BAD_SHAPE, f"{most}, and {name} has more")
    return None

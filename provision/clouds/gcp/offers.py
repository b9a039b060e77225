"""Which machine types Google offers where, and at what price."""

from collections.abc import Iterator, Mapping
from typing import Final

from provision.clouds.gcp import data
from provision.clouds.gcp.data import sources as sources  # noqa: PLC0414 - part of the Offering
from provision.clouds.gcp.prices import price as price  # noqa: PLC0414 - part of the Offering
from provision.clouds.gcp.prices import sold_note
from provision.clouds.terms import Offer, Region

refreshes: Mapping[str, str] = {"gcp": "refresh_offers", "gcp-prices": "refresh_prices"}
_MARKETS: Final = ("on-demand", "spot")


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
        regions = regions_with(data.accelerator_of(machine.type, None))
        markets = tuple(market for market in machine.markets if market in _MARKETS)
        yield Offer("gcp", machine.type, machine.gpu, *size, regions, markets, machine.source, note=sold_note(machine))


def regions_with(accelerator: str) -> tuple[str, ...]:
    """The regions that have an accelerator."""
    return tuple(sorted({zone.rpartition("-")[0] for zone in data.zones(accelerator)}))


def regions() -> dict[str, Region]:
    """The regions that have any accelerator."""
    zones = [zone for entry in data.gcp().zones.values() if isinstance(entry, list) for zone in entry]
    return {code: Region(code) for code in sorted({zone.rpartition("-")[0] for zone in zones})}


def offered_in(instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:
    """Region → zones of a machine type; N1 is wherever the GPU is."""
    by_region: dict[str, tuple[str, ...]] = {}
    for zone in sorted(data.zones(data.accelerator_of(instance_type, gpu))):
        region = zone.rpartition("-")[0]
        by_region[region] = (*by_region.get(region, ()), zone)
    return by_region

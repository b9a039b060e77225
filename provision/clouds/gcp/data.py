"""GCP's data as typed records: what ships with gpuprov, and what was refreshed since laid over it."""

import functools
from pathlib import Path
from typing import Literal

import msgspec

from provision.catalog import overlay, read
from provision.catalog.records.base import CatalogRecord, Source

_DATA = Path(__file__).parent / "data"
_LOCAL_SSDS = 8
FLEX_START = "flex-start"
# docs.cloud.google.com/compute/docs/instances/about-flex-start-vms: all accelerator-optimized types except A4X and G4
NO_FLEX_START = ("n1-", "a4x-", "g4-")
HYPERDISK_ONLY = ("a3-ultragpu-", "a4-", "a4x-", "g4-")  # take no persistent disk (from memory)


class Shape(CatalogRecord, frozen=True):
    """How large an N1 machine may be with so many GPUs."""

    gpus: int
    vcpus: int
    memory_gb: float


class Attached(CatalogRecord, frozen=True):
    """A GPU that is attached to an N1 machine."""

    accelerator: str
    gpu: str
    shapes: list[Shape]
    source: str


class N1(CatalogRecord, frozen=True):
    """The machine types of N1."""

    source: str
    vcpus: list[int]
    gb_per_vcpu: dict[str, float]
    smallest: dict[str, int]


class N1Rate(CatalogRecord, frozen=True):
    """What N1 costs beside its GPU in one region: US dollars an hour for a vCPU and for a GB of memory."""

    vcpu: float
    memory_gb: float


class N1Prices(CatalogRecord, frozen=True):
    """Region → rate."""

    source: str
    regions: dict[str, N1Rate]


class GcpMachine(CatalogRecord, frozen=True):
    """A machine type with its GPUs built in.

    Attributes:
        accelerator: what Compute Engine calls the GPU of this type, where that is not the usual name of the model.
        markets: how it is sold; `reservation` and `flex-start` are ways beside those of a profile.
    """

    type: str
    gpu: str
    gpus: int
    vcpus: int
    memory_gb: float
    source: str
    local_ssd_gb: int = 0
    accelerator: str = ""
    markets: list[str] = msgspec.field(default_factory=lambda: ["on-demand", "spot"])


class GcpPrice(CatalogRecord, frozen=True):
    """US dollars an hour on demand, of an attached GPU alone."""

    gpu: str
    usd_per_hour: float
    source: str


class DiskRate(CatalogRecord, frozen=True):
    """US dollars for a GB and month of a balanced persistent disk, and of a local SSD that is attached."""

    balanced: float
    local_ssd: float


class DiskPrices(CatalogRecord, frozen=True):
    """Region → rate."""

    source: str
    regions: dict[str, DiskRate]


class GcpAddressPrice(CatalogRecord, frozen=True):
    """What a public IPv4 address costs in US dollars an hour while a standard machine uses it, in every region."""

    source: str
    usd_per_hour: float


class GcpQuotas(CatalogRecord, frozen=True):
    """Regional quota metrics by GPU model, and the one over all regions."""

    all_regions: str
    source: str
    metrics: dict[str, str]


class GcpImage(CatalogRecord, frozen=True):
    """An image family; `first_boot` is the item of the metadata that its images run."""

    os: str
    version: str
    project: str
    family: str
    login: str
    source: str
    first_boot: Literal["user-data", "startup-script"]
    first_boot_source: str


class GcpImageFacts(CatalogRecord, frozen=True):
    """What Compute Engine said of an image."""

    name: str
    project: str
    created: str


class AcceleratorImage(CatalogRecord, frozen=True):
    """An image family with a driver inside."""

    project: str
    family: str
    os: str
    version: str
    driver: str
    source: str


class SwitchedMachines(CatalogRecord, frozen=True):
    """The machine types with NVSwitches."""

    source: str
    types: list[str]


class Gcp(CatalogRecord, frozen=True):
    """gcp.yaml; `zones` maps an accelerator to its zones, beside one entry for their source; `zone_sources` has other sources."""

    zones: dict[str, str | list[str]]
    zone_sources: dict[str, str]
    attached: list[Attached]
    n1: N1
    n1_prices: N1Prices
    accelerators: dict[str, str]
    machines: list[GcpMachine]
    prices: list[GcpPrice]
    machine_prices: dict[str, dict[str, dict[str, float]]]
    disk_prices: DiskPrices
    address_price: GcpAddressPrice
    quotas: GcpQuotas
    images: list[GcpImage]
    accelerator_images: list[AcceleratorImage]
    nvswitch: SwitchedMachines


class GcpOverlay(CatalogRecord, frozen=True, eq=False):
    """What a refresh learnt.

    Attributes:
        zones: accelerator → zones; an accelerator that is nowhere any more has none.
        images: `ubuntu 24.04` → image, as `projects/PROJECT/global/images/NAME`.
        described: such an image → what was said of it.
        rates: what Google bills one of, such as `gpu:t4`, `core:n1`, `ram:n1`, `disk:balanced` or `address` → region → US dollars an hour;
            of disks and local SSDs for a GB and month.
    """

    zones: dict[str, list[str]] = msgspec.field(default_factory=dict)
    images: dict[str, str] = msgspec.field(default_factory=dict)
    described: dict[str, GcpImageFacts] = msgspec.field(default_factory=dict)
    rates: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


overlay.register("gcp", GcpOverlay)


def refreshed() -> GcpOverlay:
    """What a refresh learnt about GCP; empty when there was none."""
    return overlay.part("gcp", GcpOverlay)


@functools.cache
def sources() -> dict[str, Source]:
    """The sources of the figures here."""
    return read.load(_DATA / "sources.yaml", dict[str, Source])


@functools.cache
def shipped() -> Gcp:
    """All of it but for what a refresh learnt."""
    return read.load(_DATA / "cloud.yaml", Gcp)


@functools.lru_cache(maxsize=2)
def _gcp(layer: GcpOverlay) -> Gcp:
    return msgspec.structs.replace(shipped(), zones=shipped().zones | layer.zones)


def gcp() -> Gcp:
    """All of it; zones refreshed since replace the shipped ones."""
    return _gcp(refreshed())


def accelerator(gpu: str) -> str:
    """What Compute Engine calls a GPU model; empty where it has none of it."""
    return gcp().accelerators.get(gpu, "")


def zones(accelerator_type: str) -> list[str]:
    """The zones that have an accelerator."""
    entry = gcp().zones.get(accelerator_type, [])
    return entry if isinstance(entry, list) else []


def accelerator_of(machine_type: str, gpu: str | None) -> str:
    """What Compute Engine calls the GPU of a machine type, or of N1 with a GPU model; empty where it has none of it."""
    record = machine(machine_type)
    return (record.accelerator or accelerator(record.gpu)) if record else accelerator(gpu or "")


def zones_source(accelerator_type: str) -> str:
    """The id of the source of an accelerator's zones."""
    return gcp().zone_sources.get(accelerator_type) or str(gcp().zones["source"])


def machine(machine_type: str) -> GcpMachine | None:
    """A machine type with its GPUs built in."""
    return next((record for record in shipped().machines if record.type == machine_type), None)


def machine_price(machine_type: str, region: str) -> tuple[float, str] | None:
    """US dollars an hour for a machine with its GPUs, and the id of the source; None where it is not known."""
    found = ((by_type.get(machine_type, {}).get(region), source) for source, by_type in shipped().machine_prices.items())
    return next(((usd, source) for usd, source in found if usd is not None), None)


def image(os: tuple[str, str]) -> GcpImage | None:
    """The image family of a system."""
    return next((record for record in gcp().images if (record.os, record.version) == os), None)


def quota(gpu: str | None, market: str) -> str | None:
    """The metric of the regional quota that a GPU counts against."""
    metric = gcp().quotas.metrics.get(gpu or "")
    return f"PREEMPTIBLE_{metric}" if metric and market != "on-demand" else metric


def attached_ssds(machine_type: str) -> int:
    """How many local SSDs are attached for a data disk inside the machine; 0 where they are built in, or impossible.

    N1 takes 1 to 8, 16 or 24 (AllowedLocalSSDCount of cockroachdb/cockroach). A2 and G2 take one for each GPU, at most 8 (from memory).
    """
    if machine_type.startswith("n1-"):
        return 1
    record = machine(machine_type)
    fits = record is not None and not record.local_ssd_gb and machine_type.startswith(("a2-", "g2-"))
    return min(record.gpus, _LOCAL_SSDS) if record and fits else 0

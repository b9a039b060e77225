"""The shapes of GCP's data: accelerators, machine types, zones, images, prices, quotas."""

from __future__ import annotations

from provision.catalog.records.base import CatalogRecord


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
    """What N1 costs beside its GPU in one region: US dollars an hour for a vCPU and for a GB of memory; a source of its own."""

    vcpu: float
    memory_gb: float
    source: str | None = None


class N1Prices(CatalogRecord, frozen=True):
    """Region → rate."""

    source: str
    regions: dict[str, N1Rate]


class GcpMachine(CatalogRecord, frozen=True):
    """A machine type with its GPUs built in."""

    type: str
    gpu: str
    gpus: int
    vcpus: int
    memory_gb: float
    source: str
    local_ssd_gb: int = 0


class GcpPrice(CatalogRecord, frozen=True):
    """US dollars an hour on demand, of a machine or of an attached GPU alone."""

    gpu_only: bool
    usd_per_hour: float
    source: str
    gpu: str | None = None
    machine: str | None = None


class GcpQuotas(CatalogRecord, frozen=True):
    """Regional quota metrics by GPU model, and the one over all regions."""

    all_regions: str
    source: str
    metrics: dict[str, str]


class GcpImage(CatalogRecord, frozen=True):
    """An image family."""

    os: str
    version: str
    project: str
    family: str
    login: str
    source: str


class AcceleratorImage(CatalogRecord, frozen=True):
    """An image family with a driver inside."""

    project: str
    family: str
    os: str
    version: str
    driver: str
    source: str


class Gcp(CatalogRecord, frozen=True):
    """gcp.yaml; `zones` maps an accelerator to the zones that have it, beside one entry for their source."""

    zones: dict[str, str | list[str]]
    attached: list[Attached]
    n1: N1
    n1_prices: N1Prices
    accelerators: dict[str, str]
    machines: list[GcpMachine]
    prices: list[GcpPrice]
    quotas: GcpQuotas
    images: list[GcpImage]
    accelerator_images: list[AcceleratorImage]

"""What AWS and GCP offer: instance types, regions, images, prices, quotas."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from provision.catalog.records.base import CatalogRecord


class AwsType(CatalogRecord, frozen=True):
    """An EC2 instance type; `offered` maps a region to the numbers of its zone ids, `trap` says what surprises."""

    type: str
    vendor: Literal["nvidia", "amd"]
    gpu: str | None
    gpu_name: str
    gpus: float
    gpu_mib: int
    vcpus: int
    memory_gib: float
    nvme_gb: list[int]
    network: str
    boot: list[Literal["legacy-bios", "uefi"]]
    markets: list[str]
    machine: Literal["x86_64", "arm64"]
    source: str
    offered: dict[str, list[int]]
    trap: str = ""
    withdrawn: dt.date | None = None


class AwsTypes(CatalogRecord, frozen=True):
    """aws-instances.yaml."""

    types: list[AwsType]


class AwsRegion(CatalogRecord, frozen=True):
    """A region; `zones` begins the ids of its zones, and is None where nothing was recorded of it."""

    zones: str | None = None
    opt_in: bool = False


class AwsRegions(CatalogRecord, frozen=True):
    """All regions."""

    source: str
    zones_source: str
    opt_in_source: str
    codes: dict[str, AwsRegion]


class AwsImage(CatalogRecord, frozen=True):
    """How the newest image of a system is found: an SSM parameter, or its publisher's name pattern."""

    os: str
    version: str
    login: str
    root_device: str
    source: str
    parameter: str | None = None
    owner: str | None = None
    pattern: str | None = None


class AwsPrice(CatalogRecord, frozen=True):
    """US dollars an hour, Linux, on demand."""

    instance_type: str
    region: str
    usd_per_hour: float
    source: str


class AwsQuota(CatalogRecord, frozen=True):
    """A quota on vCPUs and its code."""

    families: list[str]
    market: Literal["on-demand", "spot"]
    code: str
    source: str


class Withdrawn(CatalogRecord, frozen=True):
    """An instance family that left the offerings."""

    family: str
    last_seen: str
    source: str


class Aws(CatalogRecord, frozen=True):
    """aws.yaml."""

    regions: AwsRegions
    images: list[AwsImage]
    prices: list[AwsPrice]
    quotas: list[AwsQuota]
    withdrawn: list[Withdrawn]


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
    machines: list[GcpMachine]
    prices: list[GcpPrice]
    quotas: GcpQuotas
    images: list[GcpImage]
    accelerator_images: list[AcceleratorImage]

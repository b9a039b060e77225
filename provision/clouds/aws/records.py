"""The shapes of AWS's data: instance types, regions, images, prices, quotas."""

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
    gpu_names: dict[str, str]
    images: list[AwsImage]
    prices: dict[str, dict[str, dict[str, float]]]
    quotas: list[AwsQuota]
    withdrawn: list[Withdrawn]

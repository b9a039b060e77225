"""AWS's data as typed records: what ships with gpuprov, and what was refreshed since laid over it."""

import datetime as dt
import functools
from pathlib import Path
from typing import Literal

import msgspec

from provision.catalog import overlay, read
from provision.catalog.records.base import CatalogRecord, Source
from provision.errors import ImageNotFoundError

_DATA = Path(__file__).parent / "data"


class AwsType(CatalogRecord, frozen=True):
    """An EC2 instance type; `offered` maps a region to the numbers of its zone ids, `efa` counts its fabric adapters, `trap` warns.

    `efa_first` is the network card that the first adapter is on: 1 where the card of the IP traffic can have none.
    """

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
    efa: int = 0
    efa_first: int = 0
    trap: str = ""
    withdrawn: dt.date | None = None


class AwsTypes(CatalogRecord, frozen=True):
    """instances.json: GPU instance types of EC2, in JSON because YAML of this size takes each command 0.06 s.

    `offered` maps a region to the numbers of its zone ids (6 in us-east-1 is use1-az6); letters of zones differ from account to account,
    ids do not. An empty list says that the region has it and that its zones are not known.
    """

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


class AwsDriverImage(CatalogRecord, frozen=True):
    """A public image with a driver on it, and the parameter that holds its id."""

    os: str
    version: str
    parameter: str
    driver: str
    flavour: Literal["open", "proprietary"]
    source: str


class AwsImageFacts(CatalogRecord, frozen=True):
    """What DescribeImages said of an image."""

    name: str
    owner: str
    created: str


class AwsPrice(CatalogRecord, frozen=True):
    """US dollars an hour, Linux, on demand."""

    instance_type: str
    region: str
    usd_per_hour: float
    source: str


class AwsSpotPrice(CatalogRecord, frozen=True):
    """The last spot price of a type in each zone of a region, in US dollars an hour, and when it was asked for."""

    instance_type: str
    region: str
    zones: dict[str, float]
    at: dt.datetime


class AddressPrice(CatalogRecord, frozen=True):
    """What a public IPv4 address costs in US dollars an hour, in every region."""

    source: str
    usd_per_hour: float


class AwsQuota(CatalogRecord, frozen=True):
    """A quota on vCPUs and its code; `families` are what the names of its instance types begin with."""

    families: list[str]
    market: Literal["on-demand", "spot"]
    code: str
    source: str


class FamilyDriver(CatalogRecord, frozen=True):
    """The kernel modules that instance families are better off with, and whether with the GSP's firmware; `why` follows a family's name."""

    families: list[str]
    flavour: Literal["open", "proprietary"]
    gsp: bool
    why: str
    source: str


class LicensedDriver(CatalogRecord, frozen=True):
    """Instance families whose GPUs need another driver than gpuprov installs; `why` follows a type's name."""

    families: list[str]
    why: str
    instead: str
    source: str


class Withdrawn(CatalogRecord, frozen=True):
    """An instance family that left the offerings."""

    family: str
    last_seen: str
    source: str


class Switched(CatalogRecord, frozen=True):
    """The instance types with NVSwitches."""

    source: str
    types: list[str]


class Aws(CatalogRecord, frozen=True):
    """aws.yaml."""

    regions: AwsRegions
    gpu_names: dict[str, str]
    images: list[AwsImage]
    driver_images: list[AwsDriverImage]
    prices: dict[str, dict[str, dict[str, float]]]
    disk_prices: dict[str, dict[str, float]]
    address_price: AddressPrice
    quotas: list[AwsQuota]
    withdrawn: list[Withdrawn]
    nvswitch: Switched
    drivers: list[FamilyDriver]
    licensed: list[LicensedDriver]


class AwsOverlay(CatalogRecord, frozen=True, eq=False):
    """What a refresh learnt.

    Attributes:
        types: instance types, their `offered` holding the refreshed regions only.
        regions: the regions that were asked; what they no longer offer is taken away.
        images: region → `ubuntu 24.04` → image id.
        described: image id → what EC2 said of it.
        disks: region → US dollars for a GB and month of gp3.
    """

    types: list[AwsType] = msgspec.field(default_factory=list)
    regions: list[str] = msgspec.field(default_factory=list)
    prices: list[AwsPrice] = msgspec.field(default_factory=list)
    images: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    described: dict[str, AwsImageFacts] = msgspec.field(default_factory=dict)
    disks: dict[str, float] = msgspec.field(default_factory=dict)
    spot: list[AwsSpotPrice] = msgspec.field(default_factory=list)


overlay.register("aws", AwsOverlay)


def refreshed() -> AwsOverlay:
    """What a refresh learnt about AWS; empty when there was none."""
    return overlay.part("aws", AwsOverlay)


@functools.cache
def sources() -> dict[str, Source]:
    """The sources of the figures here."""
    return read.load(_DATA / "sources.yaml", dict[str, Source])


@functools.cache
def aws() -> Aws:
    """Regions, images, prices and quotas as shipped."""
    return read.load(_DATA / "cloud.yaml", Aws)


@functools.cache
def _shipped_types() -> dict[str, AwsType]:
    return {record.type: record for record in read.load(_DATA / "instances.json", AwsTypes).types}


@functools.lru_cache(maxsize=2)
def _types(layer: AwsOverlay) -> dict[str, AwsType]:
    """The shipped instance types with the refreshed regions in place of the old ones."""
    shipped = _shipped_types()
    fresh = {record.type: record for record in layer.types}
    merged = {}
    for name, record in (shipped | fresh).items():
        old, new = shipped.get(name), fresh.get(name)
        offered = {region: zones for region, zones in old.offered.items() if region not in layer.regions} if old else {}
        offered |= new.offered if new else {}
        merged[name] = msgspec.structs.replace(record, trap=old.trap if old else record.trap, offered=offered)
    return merged


def types() -> dict[str, AwsType]:
    """EC2 instance type → its record."""
    return _types(refreshed())


@functools.cache
def _shipped_prices() -> dict[tuple[str, str], tuple[float, str]]:
    return {
        (instance_type, region): (usd, source)
        for source, by_type in aws().prices.items()
        for instance_type, by_region in by_type.items()
        for region, usd in by_region.items()
    }


@functools.lru_cache(maxsize=2)
def _prices(layer: AwsOverlay) -> dict[tuple[str, str], tuple[float, str]]:
    return _shipped_prices() | {(price.instance_type, price.region): (price.usd_per_hour, price.source) for price in layer.prices}


def prices() -> dict[tuple[str, str], tuple[float, str]]:
    """(instance type, region) → US dollars an hour on demand, and the id of the source; refreshed prices come first."""
    return _prices(refreshed())


def disk_price(region: str) -> tuple[float, str] | None:
    """US dollars for a GB and month of gp3 in a region, and the id of the source; None where it is not known."""
    fresh = refreshed().disks.get(region)
    if fresh is not None:
        return fresh, "refreshed-prices"
    return next(((by_region[region], source) for source, by_region in aws().disk_prices.items() if region in by_region), None)


def image(os: tuple[str, str]) -> AwsImage | None:
    """How AWS finds the newest image of a system."""
    return next((record for record in aws().images if (record.os, record.version) == os), None)


def image_of(os: tuple[str, str]) -> AwsImage:
    """The same.

    Raises:
        ImageNotFoundError: the catalog has none.
    """
    record = image(os)
    if record is None:
        msg = f"how AWS names its images of {' '.join(os)} is not in the catalog"
        raise ImageNotFoundError(msg, hint="name one in `image:` of the place, or choose a system of `gpuprov catalog systems`")
    return record


def quota(instance_type: str, market: str) -> str | None:
    """The code of the quota that an instance type counts against."""
    return next((quota.code for quota in aws().quotas if quota.market == market and instance_type.startswith(tuple(quota.families))), None)

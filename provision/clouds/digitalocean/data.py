"""DigitalOcean's data as typed records: what ships with gpuprov, and what was refreshed since laid over it."""

import functools
from pathlib import Path

import msgspec

from provision.catalog import overlay, read
from provision.catalog.records.base import CatalogRecord, Source

_DATA = Path(__file__).parent / "data"
_FRESH = "refreshed-digitalocean"


class DropletSize(CatalogRecord, frozen=True):
    """A size of droplets with GPUs of NVIDIA.

    Attributes:
        memory_gb, disk_gb, scratch_gb: in GiB, as the API counts.
        regions: where it is sold to somebody; an account may see fewer.
    """

    slug: str
    gpu: str
    gpus: int
    vcpus: int
    memory_gb: int
    disk_gb: int
    regions: list[str]
    source: str
    scratch_gb: int = 0


class ReadAt(CatalogRecord, frozen=True):
    """Where figures were read that stand beside others."""

    source: str


class SwitchedSizes(CatalogRecord, frozen=True):
    """The sizes with NVSwitches."""

    source: str
    sizes: list[str]


class VolumePrice(CatalogRecord, frozen=True):
    """US dollars for a GiB and month of a volume, in every region."""

    source: str
    usd_per_month: float


class DigitalOceanImage(CatalogRecord, frozen=True):
    """The public image of a system; `login` is the user that our user data makes."""

    os: str
    version: str
    slug: str
    login: str
    source: str


class DigitalOceanData(CatalogRecord, frozen=True):
    """cloud.yaml; `machine_prices` are by source; `amd` are beginnings of sizes whose GPUs are AMD's."""

    sizes: list[DropletSize]
    machine_prices: dict[str, dict[str, float]]
    regions: ReadAt
    scratch: ReadAt
    amd: list[str]
    nvswitch: SwitchedSizes
    volume_price: VolumePrice
    images: list[DigitalOceanImage]


class RefreshedSize(CatalogRecord, frozen=True):
    """What the API said of a size: US dollars an hour, and the regions in which this account may have it."""

    usd_per_hour: float
    regions: list[str]


class DigitalOceanOverlay(CatalogRecord, frozen=True, eq=False):
    """What a refresh learnt.

    Attributes:
        sizes: slug → what was said of it.
        images: slug → the id of the image that it named then.
        days: such an id → the day on which it was made.
    """

    sizes: dict[str, RefreshedSize] = msgspec.field(default_factory=dict)
    images: dict[str, str] = msgspec.field(default_factory=dict)
    days: dict[str, str] = msgspec.field(default_factory=dict)


overlay.register("digitalocean", DigitalOceanOverlay)


def refreshed() -> DigitalOceanOverlay:
    """What a refresh learnt about DigitalOcean; empty when there was none."""
    return overlay.part("digitalocean", DigitalOceanOverlay)


@functools.cache
def sources() -> dict[str, Source]:
    """The sources of the figures here."""
    return read.load(_DATA / "sources.yaml", dict[str, Source])


@functools.cache
def _shipped() -> DigitalOceanData:
    return read.load(_DATA / "cloud.yaml", DigitalOceanData)


@functools.lru_cache(maxsize=2)
def _digitalocean(layer: DigitalOceanOverlay) -> DigitalOceanData:
    def renewed(size: DropletSize) -> DropletSize:
        fresh = layer.sizes.get(size.slug)
        return msgspec.structs.replace(size, regions=fresh.regions) if fresh else size

    shipped = _shipped()
    return msgspec.structs.replace(shipped, sizes=[renewed(size) for size in shipped.sizes])


def digitalocean() -> DigitalOceanData:
    """All of it; regions refreshed since replace the shipped ones."""
    return _digitalocean(refreshed())


def size(slug: str) -> DropletSize | None:
    """A size with GPUs of NVIDIA."""
    return next((record for record in digitalocean().sizes if record.slug == slug), None)


def price_of(slug: str) -> tuple[float, str] | None:
    """US dollars an hour for a size, and the id of the source; None where it is not known."""
    fresh = refreshed().sizes.get(slug)
    if fresh:
        return fresh.usd_per_hour, _FRESH
    return next(((usd[slug], source) for source, usd in digitalocean().machine_prices.items() if slug in usd), None)


def is_amd(slug: str) -> bool:
    """Whether the GPUs of a size are AMD's."""
    return slug.startswith(tuple(digitalocean().amd))


def image(os: tuple[str, str]) -> DigitalOceanImage | None:
    """The public image of a system."""
    return next((record for record in digitalocean().images if (record.os, record.version) == os), None)

"""GCP's data as typed records: what ships with gpuprov, and what was refreshed since laid over it."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from provision.catalog import overlay, read
from provision.catalog.records.base import CatalogRecord, Source
from provision.clouds.gcp.records import Gcp, GcpImage, GcpMachine

_DATA = Path(__file__).parent / "data"


class GcpOverlay(CatalogRecord, frozen=True, eq=False):
    """What a refresh learnt.

    Attributes:
        zones: accelerator → zones; an accelerator that is nowhere any more has none.
        images: `ubuntu 24.04` → image, as `projects/PROJECT/global/images/NAME`.
    """

    zones: dict[str, list[str]] = msgspec.field(default_factory=dict)
    images: dict[str, str] = msgspec.field(default_factory=dict)


overlay.register("gcp", GcpOverlay)


def refreshed() -> GcpOverlay:
    """What a refresh learnt about GCP; empty when there was none."""
    return overlay.part("gcp", GcpOverlay)


@functools.cache
def sources() -> dict[str, Source]:
    """The sources of the figures here."""
    return read.load(_DATA / "sources.yaml", dict[str, Source])


@functools.lru_cache(maxsize=2)
def _gcp(layer: GcpOverlay) -> Gcp:
    shipped = read.load(_DATA / "cloud.yaml", Gcp)
    return msgspec.structs.replace(shipped, zones=shipped.zones | layer.zones)


def gcp() -> Gcp:
    """All of it; zones refreshed since replace the shipped ones."""
    return _gcp(refreshed())


def accelerator(gpu: str) -> str:
    """What Compute Engine calls a GPU model; empty where it has none of it."""
    return gcp().accelerators.get(gpu, "")


def zones(accelerator_type: str) -> list[str]:
    """The zones that have an accelerator."""
    listed = gcp().zones.get(accelerator_type, [])
    return listed if isinstance(listed, list) else []


def machine(machine_type: str) -> GcpMachine | None:
    """A machine type with its GPUs built in."""
    return next((record for record in gcp().machines if record.type == machine_type), None)


def image(os: tuple[str, str]) -> GcpImage | None:
    """The image family of a system."""
    return next((record for record in gcp().images if (record.os, record.version) == os), None)


def quota(gpu: str | None, market: str) -> str | None:
    """The metric of the regional quota that a GPU counts against."""
    metric = gcp().quotas.metrics.get(gpu or "")
    return f"PREEMPTIBLE_{metric}" if metric and market == "spot" else metric

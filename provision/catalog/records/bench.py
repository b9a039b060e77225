"""What the figures of `gpuprov bench` are compared with, and the mini-batch table of 2016."""

from typing import TypeAlias

import msgspec

from provision.catalog.records.base import CatalogRecord

Rows: TypeAlias = list[list[float | None]]


class Figure(CatalogRecord, frozen=True):
    """What somebody measured; a floor is what a healthy card exceeds."""

    value: float
    source: str
    floor: bool = False


class BenchGates(CatalogRecord, frozen=True):
    """How far below a figure another may lie. See bench.yaml."""

    source: str
    settled_warn: float
    settled_fail: float
    fleet: float
    fleet_hosts: int
    spread: float
    holds: float
    launch_most_us: float


class PublishedTable(CatalogRecord, frozen=True):
    """Network → seconds, a row for each device and a column for each framework."""

    source: str
    frameworks: list[str]
    devices: list[str]
    networks: dict[str, Rows]


class BenchRecord(CatalogRecord, frozen=True):
    """Card → figure → what it is compared with."""

    gates: BenchGates
    published: PublishedTable
    cards: dict[str, dict[str, Figure]] = msgspec.field(default_factory=dict)

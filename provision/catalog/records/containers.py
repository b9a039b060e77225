"""NVIDIA's Container Toolkit and the container engines of the systems."""

from typing import Literal

import msgspec

from provision.catalog.records.base import CatalogRecord, Covers

Engine = Literal["docker", "podman"]
GpuWay = Literal["cdi", "runtime"]


class ContainerToolkit(CatalogRecord, frozen=True):
    """NVIDIA's Container Toolkit: its packages, which all have one version, and its units."""

    packages: list[str]
    release: str
    units: list[str]
    sources: Covers


class EngineRecord(CatalogRecord, frozen=True):
    """A container engine on some systems.

    Attributes:
        gpus: how its containers get GPUs; None where it cannot be had.
        refused: why it cannot be had; empty where it can.
    """

    engine: Engine
    systems: list[str]
    source: str
    gpus: GpuWay | None = None
    packages: list[str] = msgspec.field(default_factory=list)
    refused: str = ""


class ContainersRecord(CatalogRecord, frozen=True):
    """containers.yaml."""

    toolkit: ContainerToolkit
    engines: list[EngineRecord]

"""Where packages come from, and what systems call them."""

from __future__ import annotations

from typing import Literal

from provision.catalog.records.base import CatalogRecord

Manager = Literal["apt", "dnf"]


class RepositoryRecord(CatalogRecord, frozen=True):
    """NVIDIA's repository for one package manager; `key` lies beside its index, and only its fingerprint is trusted."""

    packages: Manager
    url: str
    key: str
    fingerprint: str
    source: str


class Archive(CatalogRecord, frozen=True):
    """One suite of a distribution's archive."""

    url: str
    suite: str


class Distribution(CatalogRecord, frozen=True):
    """A distribution's own packages of the driver and the toolkit.

    Attributes:
        gcc: the major version that its toolkit compiles with.
        module: what the kernel module is called, which is what its options must name.
        open: the driver with open kernel modules; empty where that cannot be installed.
        cuda_home: where its toolkit lies.
    """

    system: str
    archives: list[Archive]
    components: list[str]
    keyring: str
    driver: str
    cuda: str
    gcc: int
    module: str
    open: list[str]
    proprietary: list[str]
    video: list[str]
    toolkit: list[str]
    cuda_home: str
    cupti: list[str]
    nsys: list[str]
    ncu: list[str]
    nvprof: list[str]
    source: str


class BasePackages(CatalogRecord, frozen=True):
    """What every host gets, what the profile's tools are called, what builds and holds the driver, and what builds for Python."""

    packages: Manager
    always: list[str]
    tools: dict[str, list[str]]
    gcc: list[str]
    ffmpeg: list[str]
    xfs: list[str]
    stripe: list[str]
    driver: list[str]
    build: list[str]
    source: str


class Repositories(CatalogRecord, frozen=True):
    """repositories.yaml."""

    nvidia: list[RepositoryRecord]
    distributions: list[Distribution]
    base: list[BasePackages]

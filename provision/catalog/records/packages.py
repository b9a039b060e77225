"""Package repositories, and the names of packages."""

from typing import Literal

import msgspec

from provision.catalog.records.base import CatalogRecord

Manager = Literal["apt", "dnf"]


class RepositoryRecord(CatalogRecord, frozen=True):
    """NVIDIA's repositories that are signed with one key; only its fingerprint is trusted.

    Attributes:
        repositories: their folders, as `System.repository` names them.
        fingerprint: None where it is not known, so that nothing is installed from there.
    """

    packages: Manager
    repositories: list[str]
    url: str
    key: str
    fingerprint: str | None
    source: str


class Archive(CatalogRecord, frozen=True):
    """One suite of a distribution's archive."""

    url: str
    suite: str


class Distribution(CatalogRecord, frozen=True):
    """A distribution's own packages of the driver and the toolkit.

    Attributes:
        drivers: the driver branches in the archive; `<branch>` stands for one in the names of packages.
        passing: those of them that become an empty package which depends on the next branch.
        gcc: the major version that its toolkit works with.
        module: the name of the kernel module, which its options must use.
        open: packages of the driver with open kernel modules; empty where they cannot be installed.
        cuda_home: the folder of its toolkit.
    """

    system: str
    archives: list[Archive]
    components: list[str]
    keyring: str
    drivers: list[str]
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
    passing: list[str] = msgspec.field(default_factory=list)


class BasePackages(CatalogRecord, frozen=True):
    """Packages for every host, for the profile's tools, for building and holding the driver, and for building with Python.

    Attributes:
        python_headers: what Triton and torch.compile compile against on the host; `<python>` stands for the interpreter's package.
    """

    packages: Manager
    always: list[str]
    tools: dict[str, list[str]]
    gcc: list[str]
    ffmpeg: list[str]
    xfs: list[str]
    stripe: list[str]
    driver: list[str]
    python_headers: list[str]
    build: list[str]
    source: str


class Repositories(CatalogRecord, frozen=True):
    """repositories.yaml."""

    nvidia: list[RepositoryRecord]
    distributions: list[Distribution]
    base: list[BasePackages]

"""The optional components of a stack: extras.yaml."""

from typing import Literal

import msgspec

from provision.catalog.records.base import Capabilities, CatalogRecord
from provision.catalog.records.libraries import LibraryRelease, SourceBuild


class Extra(CatalogRecord, frozen=True):
    """A component that `stack.extras` may name.

    Attributes:
        how: it comes with a framework's own wheels, is added to PyTorch's environment as wheels, comes as packages, is a part of the driver
            that needs packages of the distribution, is built once from its source, or is refused.
        frameworks: those it comes with, or the one whose environment it goes into.
        wheel: major version of CUDA, or `any` → the framework's wheel that contains it.
        requirement: the same → the requirement for the index.
        packages: package manager → names; `<major>` stands for the major version of CUDA, `<soname>` for that of the component.
        beside_driver: distribution → packages of the driver's own version that it needs in addition.
        files: path → the one line of a file that the packages may leave out.
        version: of the packages.
        releases: for packages whose release depends on the rest of the stack, the newest first.
        build: for what is built from source.
        unit: the service that comes with it.
        compute_capability: the GPUs it works on; None for all.
        why: the reason of a refusal.
    """

    name: str
    title: str
    how: Literal["framework", "wheels", "packages", "driver", "source", "refused"]
    source: str
    frameworks: list[str] = msgspec.field(default_factory=list)
    wheel: dict[str, str] = msgspec.field(default_factory=dict)
    requirement: dict[str, str] = msgspec.field(default_factory=dict)
    packages: dict[str, list[str]] = msgspec.field(default_factory=dict)
    beside_driver: dict[str, list[str]] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    version: str = ""
    releases: list[LibraryRelease] = msgspec.field(default_factory=list)
    build: SourceBuild | None = None
    unit: str = ""
    compute_capability: Capabilities | None = None
    why: str = ""

    def of_major(self, table: dict[str, str], cuda: str) -> str | None:
        """The entry of a table for a CUDA version; None where there is none."""
        return table.get("any") or table.get(cuda.split(".", maxsplit=1)[0])


class ExtrasRecord(CatalogRecord, frozen=True):
    """extras.yaml."""

    extras: list[Extra]

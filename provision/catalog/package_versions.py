"""Package repositories, and the versions of packages in them that the last refresh read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from provision.catalog import overlay, read
from provision.catalog.records.packages import Distribution
from provision.catalog.records.stack import System
from provision.structs import Struct


class Repository(Struct):
    """One repository, and what it is trusted by: the fingerprint of its key, or a keyring of the system's image.

    Attributes:
        suite: of apt; `/` for a repository without suites, None for dnf.
        key: the address of its key, which is trusted by its fingerprint only.
    """

    kind: Literal["apt", "dnf"]
    name: str
    url: str
    suite: str | None = None
    components: tuple[str, ...] = ()
    keyring: str | None = None
    key: str | None = None
    fingerprint: str | None = None


def of_nvidia(system: System) -> Repository:
    """NVIDIA's repository for a system; its fingerprint is None where the catalog does not have it."""
    record = next(each for each in read.repositories().nvidia if system.repository in each.repositories)
    url = record.url.replace("<repository>", system.repository)
    return Repository(
        kind=record.packages,
        name="nvidia",
        url=url,
        suite="/" if record.packages == "apt" else None,
        key=f"{url}{record.key}",
        fingerprint=record.fingerprint,
    )


def of_distribution(own: Distribution) -> tuple[Repository, ...]:
    """The archives of a distribution."""
    return tuple(
        Repository("apt", archive.suite, archive.url, archive.suite, tuple(own.components), own.keyring) for archive in own.archives
    )


def all_groups() -> list[tuple[Repository, ...]]:
    """What one host can install from: NVIDIA's repository of each system, and the archives of each distribution."""
    nvidia = dict.fromkeys((of_nvidia(system),) for system in read.systems().systems)
    return [*nvidia, *(of_distribution(own) for own in read.repositories().distributions)]


def group_key(addresses: Iterable[tuple[str, str | None]]) -> str:
    """The key under which the overlay keeps the versions of a group of repositories, by their addresses and suites."""
    return " ".join(f"{url.rstrip('/')}|{suite or ''}" for url, suite in addresses)


def known(group: str) -> Mapping[str, Sequence[str]]:
    """Package → its versions in a group of repositories, the newest first; nothing where no refresh has read it."""
    return overlay.read().packages.get(group, {})

"""Exact versions of packages: chosen from what a refresh read in the repositories' indices, and looked for again before a lock is used."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from provision.catalog import package_versions
from provision.errors import PackageVanishedError, StackConflictError
from provision.profile.locked import Lock, LockedRepository
from provision.profile.pins import PackagePin
from provision.structs import Struct

_MOST_NAMED: Final = 3  # in a message of one line


@dataclass(slots=True)
class Exact:
    """The versions in the repositories that a host installs from.

    Attributes:
        versions: package → its versions, the newest first; empty where no refresh has read the repositories.
        driver: the upstream version that the driver's packages share, once they are chosen.
    """

    manager: Literal["apt", "dnf"]
    versions: Mapping[str, Sequence[str]]
    driver: str = field(default="", init=False)

    @classmethod
    def of(cls, manager: Literal["apt", "dnf"], repositories: Iterable[LockedRepository]) -> "Exact":
        """What the last refresh read of these repositories."""
        return cls(manager, package_versions.known(package_versions.group_key((r.url, r.suite) for r in repositories)))

    def pin_driver(self, packages: Sequence[str], branch: str) -> list[str]:
        """The driver's packages, all of one upstream version where there is one that all of them have.

        Raises:
            StackConflictError: a package is not in the repositories, or not in this branch.
        """
        if not self.versions:
            return list(packages)
        pins = [PackagePin(name, f"{branch}.*") for name in packages]
        upstream = [[_upstream(version) for version in self._fitting(pin)] for pin in pins]
        shared = set(upstream[0]).intersection(*upstream[1:])
        self.driver = next((version for version in upstream[0] if version in shared), "")
        return self.pin([pin.text(self.manager) for pin in pins])

    def pin(self, packages: Iterable[str]) -> list[str]:
        """Packages with the newest version that fits them; as they are where no refresh has read the repositories.

        Raises:
            StackConflictError: a package is not in the repositories, or not in such a version.
        """
        if not self.versions:
            return list(packages)
        pinned = []
        for package in packages:
            pin = PackagePin.parse(package)
            fitting = self._fitting(pin)
            best = next((version for version in fitting if self.driver and _upstream(version) == self.driver), fitting[0])
            pinned.append(PackagePin(pin.name, best).text(self.manager))
        return pinned

    def _fitting(self, pin: PackagePin) -> Sequence[str]:
        """The versions that a pin admits, the newest first."""
        every = self.versions.get(pin.name, ())
        fitting = [version for version in every if pin.version is None or _admits(pin.version, version)]
        if self.versions and not fitting:
            msg = f"the repositories have no {pin.name} {pin.version or ''}".rstrip()
            msg += f"; the nearest of {len(every)} is {nearest(pin.version or '', every)}" if every else ""
            raise StackConflictError(msg, hint="choose another driver, CUDA or cuDNN in the profile, or refresh the catalog", of="stack")
        return fitting


class Vanished(Struct):
    """A package that a lock pins to a version which its repositories no longer have; `nearest` is the version most like it."""

    name: str
    version: str
    nearest: str


def vanished(lock: Lock) -> list[Vanished]:
    """The packages of a lock that can no longer be installed, as far as a refresh has read their repositories."""
    manager = lock.repositories[0].kind if lock.repositories else "apt"
    versions = Exact.of(manager, lock.repositories).versions
    pins = dict.fromkeys(PackagePin.parse(package) for packages in lock.packages.values() for package in packages)
    return [
        Vanished(pin.name, pin.version, nearest(pin.version, versions[pin.name]))
        for pin in pins
        if pin.version and "*" not in pin.version and versions.get(pin.name) and pin.version not in versions[pin.name]
    ]


def refuse_vanished(lock: Lock) -> None:
    """Refuse a lock whose packages can no longer be installed.

    Raises:
        PackageVanishedError: there is one; it names each with the nearest version.
    """
    gone = vanished(lock)
    if gone:
        listed = ", ".join(f"{each.name} {each.version} (nearest: {each.nearest})" for each in gone[:_MOST_NAMED])
        rest = f", and {len(gone) - _MOST_NAMED} more" if len(gone) > _MOST_NAMED else ""
        msg = f"the repositories no longer have {listed}{rest}"
        raise PackageVanishedError(msg, hint=f"`gpuprov lock {lock.profile.name}` chooses from the versions that there are now")


def nearest(version: str, others: Sequence[str]) -> str:
    """Of other versions, the newest first, the first one that shares the longest beginning with a version."""
    parts = _upstream(version).split(".")

    def shared(other: str) -> int:
        theirs = _upstream(other).split(".")
        return next((at for at, pair in enumerate(zip(parts, theirs, strict=False)) if pair[0] != pair[1]), min(len(parts), len(theirs)))

    return max(others, key=shared)


def _admits(pattern: str, version: str) -> bool:
    """Whether a version fits a pattern, which may leave out the epoch."""
    return any(fnmatch.fnmatchcase(text, pattern) for text in (version, version.partition(":")[2]))


def _upstream(version: str) -> str:
    """A version without its epoch and without the revision of the package."""
    return version.rpartition(":")[2].partition("-")[0]

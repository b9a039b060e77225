"""The pins of a lock: packages as apt and dnf take them, and wheels as pip takes them with --require-hashes."""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path
from typing import Final, Literal

from provision import paths
from provision.errors import ProfileInvalidError
from provision.structs import Struct

# A source distribution has the same form as a wheel.
_WHEEL: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)((?: --hash=sha256:[0-9a-f]{64})+)")
_MOST_OWN_BYTES: Final = 256 * 1024
_EXACT: Final = re.compile(r"(.+)-(\d+:[^-]+-[^-]+)")  # for dnf


class PackagePin(Struct):
    """A package by name; `version` may end in `*`, and is None where any version will do."""

    name: str
    version: str | None = None

    @classmethod
    def parse(cls, text: str) -> PackagePin:
        """Read a package of a lock: `name`, `name=1.2*` (apt), `name-1.2*` or `name-0:1.2-3` (dnf)."""
        name, mark, version = text.partition("=")
        if mark:
            return cls(name, version)
        # Names hold hyphens and figures, so only the epoch tells where a whole version begins.
        exact = _EXACT.fullmatch(text)
        if exact:
            return cls(exact[1], exact[2])
        name, mark, version = text.rpartition("-")
        return cls(name, version) if mark and version.endswith("*") else cls(text)

    def text(self, manager: Literal["apt", "dnf"]) -> str:
        """The package as the package manager takes it."""
        return self.name if self.version is None else f"{self.name}{'=' if manager == 'apt' else '-'}{self.version}"


class WheelPin(Struct):
    """One wheel, with the SHA-256 hashes that it may have."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> WheelPin | None:
        """Read a wheel of a lock; None for any other line, such as an option that pip would obey."""
        match = _WHEEL.fullmatch(text)
        return match and cls(match[1], match[2], tuple(match[3].split(" --hash=sha256:")[1:]))


class EnvironmentWheels(Struct):
    """The wheels that are in an environment already: the framework's title, its Python, and the pins as a lock has them."""

    title: str
    python: str
    pins: tuple[str, ...]


class Resolved(Struct):
    """What a file adds to an environment: its own digest, and the wheels as pip takes them with --require-hashes."""

    file: str
    sha256: str
    wheels: tuple[str, ...]


def read_own(path: Path) -> bytes:
    """The bytes of a team's file of packages.

    Raises:
        ProfileInvalidError: it cannot be read, or is too large.
    """
    try:
        return paths.read_bounded(path, _MOST_OWN_BYTES)
    except OSError as error:
        why = f"is larger than {_MOST_OWN_BYTES >> 10} KiB" if error.errno == errno.EFBIG else f"cannot be read: {error.strerror}"
        msg = f"{path} {why}"
        raise ProfileInvalidError(msg, hint="stack.python names a file beside the profile") from error


def digest(path: Path) -> str:
    """SHA-256 of such a file; ProfileInvalidError as for `read_own`."""
    return hashlib.sha256(read_own(path)).hexdigest()

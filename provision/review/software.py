"""The part of a review that is installed and changed on the host: packages, wheels, and what the roles declare."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from typing import Final

from provision.converge.declared import changes
from provision.converge.roles import all_roles
from provision.profile.locked import Lock, LockedEnvironment
from provision.profile.model import Profile
from provision.review.exposure import first_boot
from provision.review.tree import Change, EnvironmentItem, PackageItem, RepositoryItem, WheelItem

__all__ = ["environments", "host_changes", "packages", "repositories", "stack", "undo"]

# As pip takes one with --require-hashes; a source distribution has the same form.
_PIN: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)")


def stack(lock: Lock) -> tuple[tuple[str, str], ...]:
    """The parts of the stack and their versions, in words."""
    clocks = lock.clocks
    pair = "" if clocks.graphics_mhz is None else f" at {clocks.memory_mhz} and {clocks.graphics_mhz} MHz"
    return (
        ("driver", f"branch {lock.driver.branch}, {lock.driver.flavour} kernel modules"),
        ("CUDA", f"{lock.cuda.version}, compiled with gcc {lock.cuda.gcc}"),
        ("cuDNN", lock.cudnn.version),
        *((name, f"{e.version}{f' built with CUDA {e.cuda}' if e.cuda else ''}") for name, e in lock.frameworks.items()),
        *((("opencv", lock.opencv.environment.version),) if lock.opencv.environment else ()),
        *((name, extra.version) for name, extra in lock.extras.items()),
        ("clocks", f"{lock.clocks.mode}{pair}"),
    )


def repositories(lock: Lock) -> tuple[RepositoryItem, ...]:
    """Every repository that is added to those of the image."""
    return tuple(
        RepositoryItem(
            name=r.name,
            kind=r.kind,
            url=r.url if r.suite in {None, "/"} else f"{r.url} {r.suite} {' '.join(r.components)}",
            trust=f"key {r.fingerprint}" if r.fingerprint else f"the image's own keyring {r.keyring}",
        )
        for r in lock.repositories
    )


def packages(profile: Profile, lock: Lock) -> tuple[PackageItem, ...]:
    """Every package that is asked for by name, once, with the roles that ask."""
    roles: dict[str, list[str]] = {}
    for role in all_roles(profile, without_gpu=False):
        for name in lock.packages.get(role, ()):
            roles.setdefault(name, []).append(role)
    own = "the image's own repositories"
    added = ", ".join(dict.fromkeys(r.name for r in lock.repositories))
    found = []
    for asked, asking in roles.items():
        name, version = _split(asked)
        ours = bool(added) and any(fnmatch.fnmatchcase(name, pattern) for pattern in (*lock.hold, "datacenter-gpu-manager*"))
        found.append(PackageItem(name, version, added if ours else own, tuple(asking)))
    return tuple(found)


def _split(asked: str) -> tuple[str, str | None]:
    """Name and version, as apt (`name=1.2*`) or dnf (`name-1.2*`) takes them together; None where no version is asked for."""
    name, mark, version = asked.partition("=")
    if mark:
        return name, version
    head, mark, version = asked.rpartition("-")
    return (head, version) if mark and version.endswith("*") else (asked, None)


def environments(lock: Lock) -> tuple[EnvironmentItem, ...]:
    """Every virtual environment, and what OpenCV is built with where it is."""
    index = lock.wheel_index or "the default package index"
    found = [_environment(name, environment, index) for name, environment in lock.frameworks.items()]
    if lock.opencv.environment:
        found.append(_environment("opencv", lock.opencv.environment, index))
    if lock.opencv.tools:
        found.append(_environment("opencv, built with", lock.opencv.tools, index))
    if lock.opencv.source:
        found.append(EnvironmentItem("opencv, built from", "source", index, _wheels([lock.opencv.source])))
    found += [
        EnvironmentItem(f"{name}, added to pytorch", e.version, index, _wheels(e.wheels)) for name, e in lock.extras.items() if e.wheels
    ]
    return tuple(found)


def _environment(name: str, locked: LockedEnvironment, index: str) -> EnvironmentItem:
    where = index if locked.index == "default" else f"{index} ({locked.index})"
    return EnvironmentItem(name, locked.version, where, _wheels(locked.wheels))


def _wheels(lines: Sequence[str]) -> tuple[WheelItem, ...]:
    """Every line, whatever it is: pip would also obey an option among them, which the reviewer must see."""
    return tuple(_wheel(line) for line in lines)


def _wheel(line: str) -> WheelItem:
    found = _PIN.fullmatch(line)
    if found is None:
        return WheelItem(line, "", ())
    return WheelItem(found["name"], found["version"], tuple(found["hashes"].split(" --hash=sha256:")[1:]))


def host_changes(profile: Profile, lock: Lock) -> tuple[Change, ...]:
    """What the first boot and every role change on the host, in that order."""
    ledger = Change(
        role="every role",
        kind="file",
        target="/var/lib/gpuprov/changes/ROLE.json",
        says="what was there before each change, so that it can be put back",
        undo="removed by the undo that it serves",
    )
    return (*first_boot(profile), ledger, *changes(profile, lock, all_roles(profile, without_gpu=False)))


def undo(found: Sequence[Change]) -> tuple[str, ...]:
    """How everything is taken back, in words with the commands between backticks."""
    return (
        "`gpuprov down NAME` ends the instance and removes everything that was made for it at the cloud: disks, security group, key",
        "without it the deadline ends the instance; `gpuprov ls` shows what is left",
        "`gpuprov undo HOST` puts files, links, units and packages back to what they were, `--role ROLE` those of one role",
        f"after an undo these stay as they are: {', '.join(dict.fromkeys(_staying(found)))}",
    )


def _staying(found: Sequence[Change]) -> Iterator[str]:
    for change in found:
        if "stay" in change.undo:
            yield change.target

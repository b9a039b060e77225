"""The part of a review that is installed and changed on the host: packages, wheels, and what the roles declare."""

import fnmatch
from collections.abc import Sequence

from provision.converge.declared import Change, changes
from provision.converge.roles import all_roles
from provision.profile.locked import Lock, LockedEnvironment
from provision.profile.model import Profile
from provision.profile.pins import PackagePin, WheelPin
from provision.review.exposure import first_boot
from provision.review.tree import EnvironmentItem, PackageItem, RepositoryItem


def stack(lock: Lock) -> tuple[tuple[str, str], ...]:
    """The parts of the stack and their versions, in words."""
    clocks = lock.clocks
    gsp = ", without the firmware of the GPU's system processor" if lock.driver.gsp == "off" else ""
    pair = "" if clocks.graphics_mhz is None else f" at {clocks.memory_mhz} and {clocks.graphics_mhz} MHz"
    return (
        ("driver", f"branch {lock.driver.branch}, {lock.driver.flavour} kernel modules{gsp}"),
        ("CUDA", f"{lock.cuda.version}, host compiler gcc {lock.cuda.gcc}"),
        ("cuDNN", lock.cudnn.version),
        *((name, f"{e.version}{f' built with CUDA {e.cuda}' if e.cuda else ''}") for name, e in lock.frameworks.items()),
        *((("opencv", ", ".join((lock.opencv.environment.version, *lock.opencv.parts))),) if lock.opencv.environment else ()),
        *((name, extra.version) for name, extra in lock.extras.items()),
        ("clocks", f"{clocks.mode}{pair}"),
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
    """Every package that is installed by name, once, with the roles that need it."""
    roles: dict[str, list[str]] = {}
    for role in all_roles(profile, without_gpu=False):
        for package in lock.packages.get(role, ()):
            roles.setdefault(package, []).append(role)
    own = "the image's own repositories"
    added = ", ".join(dict.fromkeys(r.name for r in lock.repositories)) or own
    patterns = (*lock.hold, "datacenter-gpu-manager*", "nvlsm")
    items = []
    for package, needed_by in roles.items():
        pin = PackagePin.parse(package)
        nvidia = any(fnmatch.fnmatchcase(pin.name, pattern) for pattern in patterns)
        items.append(PackageItem(pin.name, pin.version, added if nvidia else own, tuple(needed_by)))
    return tuple(items)


def environments(lock: Lock) -> tuple[EnvironmentItem, ...]:
    """Every virtual environment, and what is used for what is built."""
    index = lock.wheel_index or "the default package index"
    opencv = lock.opencv
    items = [_environment(name, environment, index) for name, environment in lock.frameworks.items()]
    for name, environment in (("opencv", opencv.environment), ("opencv, built with", opencv.tools)):
        if environment:
            items.append(_environment(name, environment, index))
    if opencv.source:
        items.append(EnvironmentItem("opencv, built from", "source", index, _wheels([opencv.source])))
    if lock.python is not None:
        name = f"{lock.python.file}, added to {lock.python.environment}"
        items.append(EnvironmentItem(name, f"sha256:{lock.python.sha256[:12]}", index, _wheels(lock.python.wheels)))
    for name, extra in lock.extras.items():
        if extra.wheels:
            items.append(EnvironmentItem(f"{name}, added to pytorch", extra.version, index, _wheels(extra.wheels)))
        if extra.build:
            items.append(_environment(f"{name}, built with", extra.build.tools, index))
            items.append(EnvironmentItem(f"{name}, built from", "source", index, _wheels([extra.build.source])))
    return tuple(items)


def _environment(name: str, locked: LockedEnvironment, index: str) -> EnvironmentItem:
    where = index if locked.index == "default" else f"{index} ({locked.index})"
    return EnvironmentItem(name, locked.version, where, _wheels(locked.wheels))


def _wheels(lines: Sequence[str]) -> tuple[WheelPin, ...]:
    """Every line, even one that names no wheel: pip would also obey an option among them, which the reviewer must see."""
    return tuple(WheelPin.parse(line) or WheelPin(line, "", ()) for line in lines)


def host_changes(profile: Profile, lock: Lock) -> tuple[Change, ...]:
    """What the first boot and every role change on the host, in that order."""
    ledger = Change(
        role="every role",
        kind="file",
        target="/var/lib/gpuprov/changes/ROLE.json",
        says="records what was there before each change, so that it can be restored",
        undo="removed by the undo that reads it",
    )
    return (*first_boot(profile, lock), ledger, *changes(profile, lock, all_roles(profile, without_gpu=False)))


def undo(host: Sequence[Change]) -> tuple[str, ...]:
    """How everything is taken back, in words with the commands between backticks."""
    remaining = ", ".join(dict.fromkeys(change.target for change in host if change.stays))
    return (
        "`gpuprov down NAME` ends the instance and removes everything that was created for it at the cloud: disks, security group, key",
        "if nobody runs it, the deadline ends the instance; `gpuprov ls` then shows what remains at the cloud",
        "`gpuprov undo HOST` restores files, links, units and packages to their earlier state; `--role ROLE` only those of one role",
        *((f"an undo leaves these as they are: {remaining}",) if remaining else ()),
    )

"""A team's own packages in a lock: what `stack.python` adds to a framework's environment, and which lock says it already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from provision.catalog import read
from provision.catalog.rules import TITLES
from provision.errors import StackConflictError
from provision.profile.locked import Lock, LockedEnvironment, LockedExtra, LockedPython, LockedRay
from provision.profile.model import Profile
from provision.profile.pins import EnvironmentWheels, Resolved, WheelPin, digest
from provision.profile.stack import OwnPython

# What a file adds to an environment.
OwnPackages = Callable[[EnvironmentWheels], Resolved]


def from_file(profile: Profile, path: Path) -> OwnPackages | None:
    """The packages of the file beside a profile, resolved against the package index; None where the profile names none.

    Args:
        profile: what is asked.
        path: of the profile's own file.
    """
    python = profile.stack.python
    if python is None or python.file is None:
        return None
    from provision.profile import requirements  # noqa: PLC0415 - 0.04 s, and few profiles need it

    beside = path.with_name(python.file)
    if python.pylock is not None:
        return lambda within: requirements.take_pylock(beside, within)
    return lambda within: requirements.resolve_requirements(beside, within)


def as_in(lock: Lock | None, path: Path | None = None) -> OwnPackages | None:
    """The packages that a lock has already; with the path of the profile, the digest is that of the file as it is now."""
    own = lock.python if lock is not None else None
    if own is None:
        return None
    return lambda _within: Resolved(own.file, digest(path.with_name(own.file)) if path else own.sha256, own.wheels)


def locked_python(
    profile: Profile, frameworks: Mapping[str, LockedEnvironment], extras: Mapping[str, LockedExtra], own: OwnPackages | None
) -> LockedPython | None:
    """The part of a lock; None where nothing is added. It has no wheels where `own` is None, because the index is not asked then.

    Raises:
        StackConflictError: there is no environment to add to, or the packages do not go with it.
    """
    python = profile.stack.python
    if python is None or python.file is None:
        return None
    key = "stack.python"
    environment = next((name for name in ("pytorch", "tensorflow", "jax") if name in frameworks), None)
    if environment is None:
        msg = f"{python.file} is installed into the environment of a framework, and the profile asks for none"
        raise StackConflictError(msg, hint="ask for one in stack.frameworks, or remove stack.python", of=key)
    within = _within(environment, frameworks[environment], extras)
    if not within.pins:
        msg = f"there are no locked wheels of {within.title} that {python.file} could be resolved against"
        raise StackConflictError(msg, hint="choose a release of the default index in stack.frameworks", of=key)
    if own is None:
        return LockedPython(file=python.file, sha256="", environment=environment, wheels=())
    added = own(within)
    return LockedPython(file=added.file, sha256=added.sha256, environment=environment, wheels=added.wheels)


def locked_ray(profile: Profile, python: LockedPython | None) -> LockedRay | None:
    """The Ray among a team's packages; None where no cluster is asked for.

    Raises:
        StackConflictError: the packages are resolved, and Ray is not among them.
    """
    if profile.stack.ray is None or python is None:
        return None
    if not python.sha256:
        return LockedRay(version="")
    version = next((pin.version for line in python.wheels if (pin := WheelPin.parse(line)) and pin.name.lower() == "ray"), None)
    if version is None:
        msg = f"the machine is to be in a Ray cluster, and {python.file} brings no ray"
        raise StackConflictError(msg, hint=f"add ray to {python.file}, or remove stack.ray", of="stack.ray")
    return LockedRay(version=version)


def refuse_extras_of_a_prefix(profile: Profile) -> None:
    """Refuse components that would be added to an image's own environment.

    Raises:
        StackConflictError: the profile asks for one.
    """
    prefix = profile.stack.python.prefix if profile.stack.python else None
    asked = [read.extras()[name] for name in profile.stack.extras]
    # TensorRT's packages have a wheel beside them, in each of their releases.
    added = [extra.title for extra in asked if extra.how not in {"packages", "driver"} or extra.releases]
    if prefix and added:
        msg = f"{' and '.join(added)} would be in PyTorch's environment, and into {prefix}, which is the image's own, nothing is installed"
        raise StackConflictError(msg, hint="remove it from stack.extras, or remove stack.python.prefix", of="stack.extras")


def _within(name: str, environment: LockedEnvironment, extras: Mapping[str, LockedExtra]) -> EnvironmentWheels:
    """The framework's wheels, and those that optional components add to them."""
    added = [line for extra in extras.values() if extra.environment == name for line in extra.wheels]
    return EnvironmentWheels(TITLES[name], environment.python, tuple(dict.fromkeys([*environment.wheels, *added])))


def gap(python: OwnPython | None, locked: LockedPython | None) -> str:
    """What a lock does not know of a team's packages; empty where it knows them."""
    if python is None or locked is None or locked.sha256:
        return ""
    return f"the wheels of {locked.file}: `gpuprov lock` asks the package index for them"


def is_stale(lock: Lock, path: Path) -> bool:
    """Whether the file beside a profile is another one than the lock was written from."""
    own = lock.python
    if own is None:
        return False
    return digest(path.with_name(own.file)) != own.sha256

"""The container engine and NVIDIA's Container Toolkit of a lock: which packages, and how containers get GPUs."""

from collections.abc import Sequence
from typing import Literal

from provision.catalog import read
from provision.catalog.records.containers import EngineRecord
from provision.errors import StackConflictError
from provision.profile.locked import LockedContainers
from provision.profile.model import Profile
from provision.profile.pins import PackagePin

_KEY = "stack.containers"


def locked_containers(profile: Profile, system: str) -> LockedContainers | None:
    """The engine of a profile on a system such as `debian 12`; None where the profile asks for none.

    Raises:
        StackConflictError: the system has no such engine, or nothing to give its containers GPUs with.
    """
    if profile.stack.containers == "none":
        return None
    engine = _engine(profile, system)
    if engine.refused or engine.gpus is None:
        others = [each.engine for each in read.containers().engines if system in each.systems and not each.refused]
        hint = f"set {_KEY} to {' or '.join([*others, 'none'])}"
        raise StackConflictError(engine.refused, hint=hint, of=_KEY)
    if profile.sources.packages == "distribution":
        msg = "NVIDIA's Container Toolkit is in NVIDIA's repositories and in no distribution's own"
        raise StackConflictError(msg, hint=f"set sources.packages to nvidia, or {_KEY} to none", of=_KEY)
    return LockedContainers(engine=engine.engine, gpus=engine.gpus, toolkit=read.containers().toolkit.release)


def container_packages(profile: Profile, system: str, manager: Literal["apt", "dnf"]) -> tuple[Sequence[str], Sequence[str]]:
    """The engine's packages, which are the system's own, and those of the toolkit, pinned to a release; nothing where none is asked for."""
    if profile.stack.containers == "none":
        return (), ()
    toolkit = read.containers().toolkit
    pins = (PackagePin(name, f"{toolkit.release}.*") for name in toolkit.packages)
    return _engine(profile, system).packages, [pin.text(manager) for pin in pins]


def _engine(profile: Profile, system: str) -> EngineRecord:
    return next(e for e in read.containers().engines if e.engine == profile.stack.containers and system in e.systems)

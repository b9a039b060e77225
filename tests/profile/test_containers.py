"""Containers in the lock: the engine and the toolkit of each system, what is refused, and what an older profile keeps."""

import datetime as dt
import itertools
import re

import pytest

from provision.catalog import read
from provision.errors import StackConflictError
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile

TODAY = dt.date(2026, 11, 21)


def profile(engine: str, *, name: str = "workstation", packages: str = "nvidia") -> Profile:
    plain = load.load(load.find(name)).dump()
    plain["stack"]["containers"] = engine
    plain["sources"]["packages"] = packages
    return Profile.model_validate(plain)


def locked(engine: str, system: str, **more: str) -> Lock:
    return build(profile(engine, **more), TODAY, system=system)


@pytest.mark.parametrize(
    ("engine", "system", "gpus", "package"),
    [
        ("podman", "debian 12", "cdi", "podman"),
        ("podman", "ubuntu 24.04", "cdi", "podman"),
        ("docker", "debian 12", "runtime", "docker.io"),
        ("docker", "debian 13", "cdi", "docker.io"),
        ("docker", "ubuntu 22.04", "runtime", "docker.io"),
        ("podman", "rocky 9", "cdi", "podman"),
    ],
)
def test_a_system_has_its_own_engine_and_the_toolkit_of_one_release(engine: str, system: str, gpus: str, package: str) -> None:
    lock = locked(engine, system)
    assert lock.containers is not None
    assert lock.containers.model_dump() == {"engine": engine, "gpus": gpus, "toolkit": "1.20"}
    ours = lock.packages["containers"]
    assert package in ours
    pins = [name for name in ours if "nvidia" in name]
    assert len(pins) == 4
    assert all(re.search(r"[-=]1\.20\.\*$", pin) for pin in pins), pins


@pytest.mark.parametrize(
    ("engine", "system", "packages", "why", "hint"),
    [
        ("docker", "rocky 9", "nvidia", "EL itself packages no docker", "podman or none"),
        ("podman", "ubuntu 22.04", "nvidia", "podman 3.4", "docker or none"),
        ("podman", "debian 12", "distribution", "no distribution's own", "sources.packages to nvidia"),
    ],
)
def test_what_a_system_cannot_have_is_refused_with_the_reason_and_what_to_write(
    engine: str, system: str, packages: str, why: str, hint: str
) -> None:
    name = "t4-debian" if packages == "distribution" else "workstation"
    with pytest.raises(StackConflictError) as caught:
        locked(engine, system, name=name, packages=packages)
    assert why in caught.value.message
    assert hint in caught.value.hint


def test_every_system_says_of_both_engines_what_it_has_or_why_not() -> None:
    engines = read.containers().engines
    said = [(each.engine, system) for each in engines for system in each.systems]
    assert sorted(said) == sorted(itertools.product(("docker", "podman"), [system.key for system in read.systems().systems]))
    assert all(bool(each.refused) != bool(each.gpus and each.packages) for each in engines)


def test_a_profile_without_containers_locks_to_the_same_bytes_as_before() -> None:
    lock = build(load.load(load.find("t4-train")), TODAY)
    assert "containers" not in lock.as_dict()
    assert "containers" not in lock.packages

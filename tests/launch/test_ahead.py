"""What a profile's machines download at their first boot, and which machines wait for their set-up."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.userdata import Downloads, PackageSource
from provision.launch.ahead import downloads
from provision.launch.plan import PlannedPlace, order, plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import LockedBuild, LockedExtra, LockedPython, LockedRepository
from provision.profile.model import Profile
from provision.structs import replace
from tests.certificates import AUTHORITY
from tests.launch.conftest import TODAY

T4 = load.load(load.find("t4-train"))


def of(system: str | None = None, sources: dict[str, Any] | None = None, **changes: Any) -> Downloads | None:
    plain = T4.dump()
    profile = Profile.model_validate({**plain, **changes, "sources": {**plain["sources"], **(sources or {})}})
    return downloads(profile, build(profile, TODAY, system=system))


def test_the_wheels_of_the_lock_and_the_packages_without_a_pin() -> None:
    found, lock = of(), build(T4, TODAY)
    assert found is not None
    torch = next(line for line in lock.frameworks["pytorch"].wheels if line.startswith("torch=="))
    assert ("torch", torch.rpartition(":")[2]) in found.wheels
    assert len(set(found.wheels)) == len(found.wheels)
    assert {"cuda-toolkit-13-2", "cuda-nsight-systems-13-2", "ffmpeg"} <= set(found.packages)
    assert not set(lock.packages["nvidia_driver"]) & set(found.packages)
    assert [(each.url, each.fingerprint) for each in found.repositories] == [(each.url, each.fingerprint) for each in lock.repositories]
    assert (found.index, found.environment) == ("https://pypi.org/simple", ())


def test_a_mirror_and_a_proxy_are_those_of_the_profile() -> None:
    found = of(sources={"wheels": {"url": "https://mirror.example.org/simple"}, "proxy": "http://proxy.example.org:3128"})
    assert found is not None
    assert found.index == "https://mirror.example.org/simple"
    assert dict(found.environment)["https_proxy"] == "http://proxy.example.org:3128"


def test_a_machine_that_does_not_trust_the_authority_yet_downloads_nothing() -> None:
    assert of(sources={"ca": AUTHORITY}) is None


def test_a_host_whose_python_is_older_than_ansibles_downloads_nothing() -> None:
    assert of("ubuntu 22.04") is None
    assert of("rocky 9") is None
    assert of("debian 12") is not None


def test_where_a_role_builds_a_wheel_pip_asks_its_index() -> None:
    assert of(stack={**T4.dump()["stack"], "opencv": "cuda"}) is None


def ordered(place: PlannedPlace, **more: Any) -> Downloads | None:
    words: dict[str, Any] = {"name": "a", "launch_id": "0" * 32, "public_key": "ssh-ed25519 AAAA", "deadline": "2026-11-25T00:00:00+00:00"}
    return order(T4, "0" * 64, place, **words, **more).downloads


def test_each_order_has_them_but_of_a_baked_image_and_where_no_index_is_reached() -> None:
    place = plan(T4, build(T4, TODAY)).places[0]
    assert place.downloads == of() == ordered(place)
    assert ordered(place, baked="ami-0") is None
    assert ordered(place, begins_early=False) is None
    assert ordered(replace(place, downloads=None)) is None


# --- each part of a lock ------------------------------------------------------------------------------------------------


LOCK = build(T4, TODAY)
ENVIRONMENT = LOCK.frameworks["pytorch"]


def locked(**changes: Any) -> Downloads:
    found = downloads(T4, LOCK.model_copy(update=changes))
    assert found is not None
    return found


def wheel(name: str, *digests: str) -> str:
    return f"{name}==1.0" + "".join(f" --hash=sha256:{digest}" for digest in digests)


def environment(*wheels: str) -> Any:
    return ENVIRONMENT.model_copy(update={"wheels": wheels})


def extra(*wheels: str, build: LockedBuild | None = None) -> LockedExtra:
    return LockedExtra(version="1.0", environment="pytorch", package="x", unit=None, wheels=wheels, build=build)


BARE: dict[str, Any] = {"frameworks": {}, "opencv": LOCK.opencv.model_copy(update={"environment": None}), "extras": {}, "python": None}
JAX = {"jax": environment(wheel("j", "02"))}
OPENCV = LOCK.opencv.model_copy(update={"environment": environment(wheel("o", "03"))})
TEAM = LockedPython(file="requirements.txt", sha256="0" * 64, environment="pytorch", wheels=(wheel("p", "06"),))


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({}, []),
        ({"frameworks": {"pytorch": environment(wheel("t", "01")), "jax": environment(wheel("j", "02"))}}, [("t", "01"), ("j", "02")]),
        ({"opencv": OPENCV}, [("o", "03")]),
        ({"extras": {"e": extra(wheel("e", "04")), "f": extra(wheel("f", "05"))}}, [("e", "04"), ("f", "05")]),
        ({"python": TEAM}, [("p", "06")]),
        (
            {
                "frameworks": JAX,
                "opencv": OPENCV,
                "extras": {"e": extra(wheel("e", "04"))},
                "python": TEAM,
            },
            [("j", "02"), ("o", "03"), ("e", "04"), ("p", "06")],
        ),
        # Of one with several files nobody knows yet which is for this platform, and one without a digest is not told from another.
        ({"frameworks": {"jax": environment(wheel("a"), wheel("b", "07"), wheel("c", "08", "09"), wheel("b", "07"))}}, [("b", "07")]),
    ],
)
def test_the_wheels_are_those_of_every_part_each_once_and_with_its_only_digest(parts: dict[str, Any], names: list[tuple[str, str]]) -> None:
    assert locked(**{**BARE, **parts}).wheels == tuple(names)


def test_an_extra_that_is_built_keeps_the_set_up_away_from_the_host() -> None:
    made = LockedBuild(source=wheel("x", "01"), tools=ENVIRONMENT, variables={}, job_gb=1, key="0" * 64)
    assert locked(extras={"a": extra()}).wheels == locked().wheels
    assert downloads(T4, LOCK.model_copy(update={"extras": {"a": extra(), "b": extra(build=made)}})) is None


def test_packages_whose_version_a_pin_decides_wait_and_the_others_stand_once_in_the_order_of_the_lock() -> None:
    roles = {"base": ("git", "tmux"), "nvidia_driver": ("driver",), "fabric_manager": ("fabric",), "extras": ("extra",)}
    assert locked(packages={**roles, "opencv": ("tmux", "python3-venv")}).packages == ("git", "tmux", "python3-venv")


def repository(kind: Any, **changes: Any) -> LockedRepository:
    plain: dict[str, Any] = {"kind": kind, "name": "nvidia", "url": "https://x.example.org", "suite": None, "components": ()}
    return LockedRepository(**{**plain, "keyring": None, "key": None, "fingerprint": None, **changes})


KEYRING, KEY = "/usr/share/keyrings/x.gpg", "https://x.example.org/x.pub"
OURS = repository("apt", name="ours", suite="noble", components=("main", "contrib"), keyring=KEYRING)


def test_a_repository_has_its_suite_its_components_and_the_one_key_that_it_is_trusted_by() -> None:
    there = repository("apt", key=KEY, fingerprint="ab" * 20)
    assert locked(repositories=(OURS, there)).repositories == (
        PackageSource("ours", "https://x.example.org", "noble", ("main", "contrib"), KEYRING, None, None),
        PackageSource("nvidia", "https://x.example.org", "/", (), None, KEY, "ab" * 20),
    )


def test_a_system_without_apt_downloads_its_wheels_alone() -> None:
    found = locked(os="rocky 10", repositories=(repository("dnf"),))
    assert (found.packages, found.repositories, found.wheels) == ((), (), locked().wheels)
    assert [each.name for each in locked(repositories=(repository("dnf"), OURS)).repositories] == ["ours"]

"""Exact versions: the newest that fits, one version for the whole driver, and what is said when a version is not there."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from provision.catalog import overlay
from provision.catalog.package_versions import group_key
from provision.errors import PackageVanishedError, StackConflictError
from provision.paths import profiles_dir
from provision.profile.exact import Exact, nearest, refuse_vanished, vanished
from provision.profile.load import load
from provision.profile.lock import build
from provision.profile.locked import Lock

TODAY = dt.date(2026, 11, 21)
VERSIONS = {
    "nvidia-open": ["600.1-1", "595.71.05-1", "595.58.03-2", "595.58.03-1", "590.48-1"],
    "libnvidia-compute": ["595.58.03-1", "590.48-1"],
    "nvidia-fabricmanager": ["595.71.05-1", "595.58.03-1"],
    "cuda-toolkit-13-2": ["13.2.2-1", "13.2.1-1"],
    "libcudnn9-cuda-13": ["9.29.0.1-1", "9.28.0.42-1"],
}


def test_the_driver_is_the_newest_version_that_all_of_its_packages_have() -> None:
    exact = Exact("apt", VERSIONS)
    assert exact.pin_driver(["nvidia-open", "libnvidia-compute"], "595") == ["nvidia-open=595.58.03-2", "libnvidia-compute=595.58.03-1"]
    assert exact.pin(["nvidia-fabricmanager=595.*"]) == ["nvidia-fabricmanager=595.58.03-1"]
    assert exact.pin(["cuda-toolkit-13-2", "libcudnn9-cuda-13=9.28*"]) == ["cuda-toolkit-13-2=13.2.2-1", "libcudnn9-cuda-13=9.28.0.42-1"]


def test_packages_without_a_common_version_are_each_the_newest_of_the_branch() -> None:
    exact = Exact("apt", {"nvidia-smi": ["535.309.01-0"], "nvidia-persistenced": ["535.171.04-1", "525.1-1"]})
    assert exact.pin_driver(["nvidia-smi", "nvidia-persistenced"], "535") == ["nvidia-smi=535.309.01-0", "nvidia-persistenced=535.171.04-1"]


def test_dnf_takes_the_epoch_with_it() -> None:
    exact = Exact("dnf", {"nvidia-driver-cuda": ["3:595.58.03-1.el9", "3:590.1-1.el9"]})
    assert exact.pin_driver(["nvidia-driver-cuda"], "595") == ["nvidia-driver-cuda-3:595.58.03-1.el9"]


def test_nothing_is_pinned_where_no_refresh_has_read_the_repository() -> None:
    exact = Exact("apt", {})
    assert exact.pin_driver(["nvidia-open"], "595") == ["nvidia-open"]
    assert exact.pin(["libcudnn9-cuda-13=9.28*"]) == ["libcudnn9-cuda-13=9.28*"]


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("libcudnn9-cuda-13=9.30*", "the repositories have no libcudnn9-cuda-13 9.30*; the nearest of 2 is 9.29.0.1-1"),
        ("cuda-toolkit-99-1", "the repositories have no cuda-toolkit-99-1"),
    ],
)
def test_a_version_that_is_not_there_is_refused_with_what_is(package: str, said: str) -> None:
    with pytest.raises(StackConflictError) as caught:
        Exact("apt", VERSIONS).pin([package])
    assert said in caught.value.message
    with pytest.raises(StackConflictError, match=r"no nvidia-open 580\.\*; the nearest of 5 is"):
        Exact("apt", VERSIONS).pin_driver(["nvidia-open"], "580")


@pytest.mark.parametrize(
    ("version", "others", "expected"),
    [
        ("595.58.03-1", ["600.1-1", "595.71.05-1", "595.58.04-1", "590.1-1"], "595.58.04-1"),
        ("595.58.03-1", ["600.1-1", "595.71.05-1"], "595.71.05-1"),
        ("3:595.1-1", ["3:600.2-1", "3:600.1-1"], "3:600.2-1"),
    ],
)
def test_the_nearest_version_shares_the_longest_beginning_and_is_the_newest_of_those(
    version: str, others: list[str], expected: str
) -> None:
    assert nearest(version, others) == expected


def refreshed(lock: Lock, versions: dict[str, list[str]]) -> None:
    """As a refresh leaves it."""
    group = group_key((r.url, r.suite) for r in lock.repositories)
    overlay.write(overlay.read().with_part("packages", "test", packages={group: versions}))


def of_t4(lock: Lock) -> dict[str, list[str]]:
    """A repository with every package of the T4's stack."""
    driver = {name: ["595.58.03-1", "595.9-1"] for name in lock.driver.packages}
    rest = {"cuda-toolkit-13-2": ["13.2.2-1"], "cuda-nsight-compute-13-2": ["13.2.2-1"], "cuda-nsight-systems-13-2": ["13.2.2-1"]}
    return driver | rest | {name: ["9.28.0.42-1"] for name in ("libcudnn9-cuda-13", "libcudnn9-dev-cuda-13")}


def test_a_lock_has_an_exact_version_for_everything_from_the_added_repository_and_for_nothing_else() -> None:
    profile = load(Path(profiles_dir() / "t4-train.yml"))
    before = build(profile, TODAY)
    assert any("refresh --only packages" in note for note in before.unresolved)
    refreshed(before, of_t4(before))
    lock = build(profile, TODAY)
    assert not any("refresh --only packages" in note for note in lock.unresolved)
    assert set(lock.packages["nvidia_driver"]) >= {f"{name}=595.58.03-1" for name in lock.driver.packages}
    assert lock.packages["cuda_toolkit"] == ("cuda-toolkit-13-2=13.2.2-1",)
    assert lock.packages["cudnn"] == ("libcudnn9-cuda-13=9.28.0.42-1", "libcudnn9-dev-cuda-13=9.28.0.42-1")
    assert "linux-headers-aws" in lock.packages["nvidia_driver"], "headers follow the kernel"
    assert lock.packages["base"] == before.packages["base"], "the system's own packages follow its security updates"
    assert lock.driver.packages == before.driver.packages


def test_a_lock_whose_version_is_gone_is_refused_with_the_nearest_one() -> None:
    profile = load(Path(profiles_dir() / "t4-train.yml"))
    plain = build(profile, TODAY)
    offered = of_t4(plain)
    refreshed(plain, offered)
    lock = build(profile, TODAY)
    assert vanished(lock) == []
    refuse_vanished(lock)
    refreshed(plain, offered | {"cuda-toolkit-13-2": ["13.3.0-1", "13.2.3-1"], "nvidia-dkms": ["595.71.05-1", "595.58.03-1"]})
    (gone,) = vanished(lock)
    assert (gone.name, gone.version, gone.nearest) == ("cuda-toolkit-13-2", "13.2.2-1", "13.2.3-1")
    with pytest.raises(PackageVanishedError, match=r"cuda-toolkit-13-2 13\.2\.2-1 \(nearest: 13\.2\.3-1\)") as caught:
        refuse_vanished(lock)
    assert "gpuprov lock t4-train" in caught.value.hint

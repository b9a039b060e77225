"""Exact versions through the command line: refreshed from a signed repository, locked, and refused when the repository drops them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from provision.profile import load, lockfile
from provision.profile.pins import PackagePin
from tests.cli.conftest import Call
from tests.converge.repository import Repository, packages

NAMES = ("nvidia_driver", "cuda_toolkit", "cudnn", "nsight")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = Repository(tmp_path / "served", "127.0.0.1")
    lock = lockfile.read(lockfile.path_for(load.find("t4-train")))
    made.add(packages([name for role in NAMES for name in lock.packages[role]], lock.driver.branch, lock.cuda.version))
    yield made
    made.close()


@pytest.fixture
def profile(tmp_path: Path, repository: Repository) -> Path:
    """The T4 profile with the repository as its mirror."""
    plain = yaml.safe_load(load.find("t4-train").read_text())
    plain.setdefault("sources", {})["apt"] = {
        "url": repository.url,
        "key": f"{repository.url}key.asc",
        "fingerprint": repository.fingerprint,
    }
    path = tmp_path / "t4-train.yml"
    path.write_text(yaml.safe_dump(plain, sort_keys=False))
    return path


def test_a_lock_pins_what_a_refresh_read_and_is_refused_when_it_is_gone(call: Call, repository: Repository, profile: Path) -> None:
    code, out, err = call("catalog", "refresh", "--only", "packages", "--profile", str(profile), "--json")
    assert code == 0, err
    assert json.loads(out)["failed"] == []
    assert call("lock", str(profile))[0] == 0
    lock = lockfile.read(lockfile.path_for(profile))
    driver = {pin.version for pin in map(PackagePin.parse, lock.packages["nvidia_driver"]) if pin.name in lock.driver.packages}
    assert driver == {f"{lock.driver.branch}.1"}
    assert call("plan", str(profile))[0] == 0

    for old in repository.folder.glob("cuda-toolkit-*.deb"):
        old.unlink()
    repository.add(packages([lock.cuda.package], "999", lock.cuda.version))
    assert call("catalog", "refresh", "--only", "packages", "--profile", str(profile))[0] == 0
    for words in (["plan", str(profile)], ["up", str(profile)], ["apply", "host.invalid", "--profile", str(profile)]):
        code, out, err = call(*words)
        assert code == 2
        assert (
            f"error[package-vanished]: the repositories no longer have {lock.cuda.package} {lock.driver.branch}.1 (nearest: 999.1)" in err
        )
        assert "gpuprov lock" in err
    code, _, err = call("lock", str(profile), "--check")
    assert (code, f"{lock.cuda.package}=999.1" in err) == (2, True)
    assert call("lock", str(profile))[0] == 0
    assert call("plan", str(profile))[0] == 0


def test_a_repository_that_did_not_sign_leaves_the_lock_without_versions(call: Call, repository: Repository, profile: Path) -> None:
    (repository.folder / "InRelease").write_text("SHA256:\n")
    code, _, err = call("catalog", "refresh", "--only", "packages", "--profile", str(profile))
    assert code == 4
    assert f"error[index-unreachable]: the repository {repository.url} is not read: its index is not signed with its key" in err
    assert call("lock", str(profile))[0] == 0
    assert "nvidia-dkms" in lockfile.read(lockfile.path_for(profile)).packages["nvidia_driver"]


def test_a_system_whose_key_is_not_known_takes_a_mirror_or_nothing(call: Call, tmp_path: Path) -> None:
    plain = yaml.safe_load(load.find("a100-train").read_text())
    plain |= {"os": {"name": "rocky", "version": "10"}, "places": []}
    path = tmp_path / "ten.yml"
    path.write_text(yaml.safe_dump(plain))
    code, _, err = call("lock", str(path))
    assert code == 2
    assert "the fingerprint of its key is not in the catalog" in err
    assert "sources.dnf" in err
    plain.setdefault("sources", {})["dnf"] = {
        "url": "https://mirror.example/",
        "key": "https://mirror.example/key",
        "fingerprint": "A" * 40,
    }
    path.write_text(yaml.safe_dump(plain))
    assert call("lock", str(path))[0] == 0

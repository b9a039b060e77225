"""An EL-like host without a way out is set up from a carried folder, with the signed index of its repository as it is.

dnf stands on EL machines. Here it is that of the hosts' root file system, in a mount namespace of its own.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.errors import IndexUnreachableError, PlaybookFailedError
from provision.mirror import rpms
from provision.mirror.fill import Filled, fill
from provision.mirror.folder import check_folder, measure, write_manifest
from provision.mirror.origins import origins
from provision.mirror.refused import MirrorRefusedError
from provision.paths import cache_dir
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.rehearsal import rootfs
from provision.structs import replace
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest, SetupResult, set_up

from .conftest import Lab, pinned
from .repository import Package, RpmRepository, packages
from .test_air_gap import CUT, changes

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=5, turn=4)]
CHOSEN = ("nvidia_driver", "cuda_toolkit", "cudnn", "nsight")
DEPENDENCY = "libstand-in1"


@dataclasses.dataclass
class World:
    repository: RpmRepository
    profile: Profile
    lock: Lock
    said: list[str]

    def fill(self, folder: Path) -> Filled:
        return fill(self.lock, folder, variables(self.profile, self.lock, ROLES), say=self.said.append)


@pytest.fixture(scope="module", autouse=True)
def dnf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """dnf on this machine."""
    folder = tmp_path_factory.mktemp("bin")
    root = rootfs.build(cache_dir(), lambda _text: None, like="el")
    # It sees the folders that the tests and the code under test make, under the same paths.
    seen = {"/dev", "/proc", *(str(Path(*Path(path).parts[:2])) for path in (folder, tempfile.gettempdir()))}
    mounts = " && ".join(f"mount --rbind {path} {root}{path}" for path in sorted(seen))
    script = f'#!/bin/sh\nexec unshare --mount sh -c \'{mounts} && exec chroot {root} /usr/bin/dnf "$@"\' dnf "$@"\n'
    (folder / "dnf").write_text(script)
    (folder / "dnf").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=":")
        yield


@pytest.fixture(scope="module")
def world(el_lab: Lab, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    repository = RpmRepository(tmp_path_factory.mktemp("rpms"), el_lab.gateway)
    plain = profile.dump() | {"os": {"name": "rocky", "version": "9"}, "places": []}
    plain["sources"]["dnf"] = {"url": repository.url, "key": f"{repository.url}key.asc", "fingerprint": repository.fingerprint}
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": ["make"]}
    plain["disks"]["data"] = None
    asked = Profile.model_validate(plain)
    made = build(asked, dt.date(2026, 11, 21))
    assert made.driver.stream is not None
    theirs = [name for role in CHOSEN for name in made.packages.get(role, ())]
    first, *others = packages(theirs, made.driver.branch, made.cuda.version)
    # One depends on another, which nobody asks for; and there is one that nobody needs.
    small = [replace(first, needs=(DEPENDENCY,)), *others, Package(DEPENDENCY, "1"), Package("unwanted", "1")]
    small += [Package("epel-release", "9"), Package("python3-dnf-plugin-versionlock", "4")]
    repository.add(small, {made.driver.stream: list(made.driver.packages), "nvidia-driver:latest": []})
    yield World(repository, asked, pinned(asked, tmp_path_factory.mktemp("overlay")), [])
    repository.close()


@pytest.fixture(scope="module")
def carried(el_lab: Lab, world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled where there is a network, which the host then no longer has."""
    folder = tmp_path_factory.mktemp("mirror") / "carried"
    world.fill(folder)
    el_lab.shell("sudo rpm --initdb")
    el_lab.shell(CUT)
    return folder


@pytest.fixture
def apply(el_lab: Lab, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / "home"))

    def run(folder: Path | None) -> SetupResult:
        read = check_folder(folder, world.lock) if folder else None
        request = SetupRequest(el_lab.target, world.profile, world.lock, "ubuntu", without_gpu=True, roles=CHOSEN, carried=read)
        return set_up(Session.open(), request, say=world.said.append, on_task=lambda _: None)

    return run


def test_the_folder_has_the_signed_index_as_it_is_and_what_is_needed(world: World, carried: Path) -> None:
    kept, served = carried / "dnf/r0", world.repository.folder
    for name in ("repomd.xml", "repomd.xml.asc"):
        assert (kept / "repodata" / name).read_bytes() == (served / "repodata" / name).read_bytes()
    names = {path.name.rpartition("-")[0].rpartition("-")[0] for path in kept.rglob("*.rpm")}
    assert DEPENDENCY in names
    assert "unwanted" not in names
    assert {name for name in names if "nvidia" in name}
    assert world.fill(carried).downloaded == 0
    assert any("left to the host" in step and "make" in step for step in world.said), world.said


def test_without_the_folder_it_fails(apply: object, carried: Path) -> None:
    assert carried.exists()
    assert callable(apply)
    with pytest.raises(PlaybookFailedError):
        apply(None)


@pytest.mark.parametrize("victim", ["dnf/r0/repodata/repomd.xml", "keys/r0.asc"])
def test_whoever_rewrites_the_manifest_too_is_found_by_the_signature(
    world: World, apply: object, carried: Path, tmp_path: Path, victim: str
) -> None:
    assert callable(apply)
    changed = tmp_path / "changed"
    shutil.copytree(carried, changed)
    more = b"<!-- -->" if victim.endswith(".xml") else world.repository.other_key().read_bytes()
    (changed / victim).write_bytes((carried / victim).read_bytes() + more)
    files = [measure(changed, str(path.relative_to(changed))) for path in changed.rglob("*") if path.is_file() and path.parent != changed]
    write_manifest(changed, world.lock, files, dt.datetime.now(dt.UTC))
    with pytest.raises(IndexUnreachableError, match="not signed with its key" if victim.endswith(".xml") else "holds other keys"):
        apply(changed)


def test_with_the_folder_it_is_set_up_and_the_files_are_those_of_a_host_with_a_network(
    el_lab: Lab, world: World, apply: object, carried: Path
) -> None:
    assert callable(apply)
    result = apply(carried)
    assert "Install the packages with dnf" in changes(result)
    found = {finding.check: finding.outcome for finding in result.report.findings}
    assert (found["nvcc"], found["profilers"]) == ("pass", "pass")
    installed = el_lab.shell("sudo rpm -qa --queryformat '%{NAME}\\n'").split()
    assert {DEPENDENCY, *world.lock.driver.packages} <= set(installed)
    written = el_lab.shell("cat /etc/yum.repos.d/gpuprov.repo")
    assert f"baseurl={world.repository.url}" in written
    assert "file:" not in written
    assert el_lab.shell("sudo test -e /var/cache/gpuprov && echo left || echo gone") == "gone"


def test_a_second_apply_changes_nothing(apply: object, carried: Path) -> None:
    assert callable(apply)
    assert changes(apply(carried)) == []


def test_what_cannot_be_carried_is_refused_by_its_name(world: World, carried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of, values = origins(world.lock), variables(world.profile, world.lock, ROLES)
    driver = world.lock.driver.model_copy(update={"packages": ("nvidia-of-nobody",)})
    lock = world.lock.model_copy(update={"driver": driver})
    with pytest.raises(MirrorRefusedError, match="do not have nvidia-of-nobody"):
        rpms.resolve(carried, of, lock, values, world.said.append)
    with pytest.raises(MirrorRefusedError, match="cannot be carried"):
        rpms.resolve(carried, of, world.lock, {**values, "sources_release": ["almalinux-release-nvidia-driver"]}, world.said.append)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MirrorRefusedError, match="dnf is not on this machine"):
        rpms.resolve(carried, of, world.lock, values, world.said.append)

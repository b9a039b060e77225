"""What `gpuprov mirror` fills a folder with, from real signed indices on loopback."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from provision.errors import IndexUnreachableError
from provision.mirror.folder import check_folder
from provision.mirror.refused import MirrorRefusedError
from provision.profile.load import load
from provision.structs import replace

from .world import DEPENDENCY, World, world


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    profile = load(Path(__file__).parents[2] / "profiles" / "t4-train.yml")
    with world(tmp_path_factory.mktemp("world"), "127.0.0.1", profile) as made:
        yield made


@pytest.fixture(scope="module")
def folder(origins: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mirror") / "carried"
    origins.fill(made)
    return made


def test_the_folder_has_packages_with_what_they_depend_on_and_indices_and_wheels_as_they_are(origins: World, folder: Path) -> None:
    paths = {file.path for file in check_folder(folder, origins.lock).files}
    names = {path.rpartition("/")[2].partition("_")[0] for path in paths if path.endswith(".deb")}
    asked = {name.partition("=")[0] for packages in origins.lock.packages.values() for name in packages}
    assert names == asked | {DEPENDENCY, "python3-apt"}
    assert (folder / "apt/r0/InRelease").read_bytes() == (origins.repository.folder / "InRelease").read_bytes()
    assert (folder / "apt/r1/dists/bookworm/InRelease").read_bytes() == (origins.archive.folder / "dists/bookworm/InRelease").read_bytes()
    assert (folder / "keys/r0.asc").read_bytes() == (origins.repository.folder / "key.asc").read_bytes()
    assert {path for path in paths if path.startswith("wheels/")} == {
        "wheels/torch-2.10.0-py3-none-any.whl",
        "wheels/numpy-2.3.1-py3-none-any.whl",
    }
    assert [path.name for path in folder.parent.iterdir()] == ["carried"]


def test_a_second_run_downloads_nothing_and_a_lost_file_is_all_that_is_downloaded_again(
    origins: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / "manifest.json").read_bytes()
    with monkeypatch.context() as cut:
        cut.setattr("requests.get", lambda *_, **__: pytest.fail("it asked the network"))
        again = origins.fill(folder)
    assert (again.complete_before, again.downloaded) == (True, 0)
    assert (folder / "manifest.json").read_bytes() == before
    lost = folder / "wheels/numpy-2.3.1-py3-none-any.whl"
    size = lost.stat().st_size
    lost.unlink()
    assert origins.fill(folder).downloaded == size


def test_an_interrupted_run_leaves_no_folder_and_the_next_one_goes_on(origins: World, tmp_path: Path) -> None:
    folder = tmp_path / "carried"

    def stop(_index: str | None) -> str:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("provision.mirror.index.configured", stop)
        with pytest.raises(KeyboardInterrupt):
            origins.fill(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["carried.part"]
    filled = origins.fill(folder)
    wheels = sum(file.bytes for file in filled.folder.files if file.path.startswith("wheels/"))
    assert filled.downloaded == wheels
    assert [path.name for path in tmp_path.iterdir()] == ["carried"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: next(f.glob("apt/r0/*.deb")).write_bytes(b"another"), "not the file that was downloaded"),
        (lambda f: next(f.glob("wheels/*.whl")).unlink(), "cannot be used"),
        (lambda f: (f / "manifest.json").unlink(), "not a complete folder"),
        (lambda f: (f / "manifest.json").write_text("[" * 100_000), "not a manifest"),
        (lambda f: _edit(f, lambda data: data.update(lock="0" * 64)), "another lock"),
        (lambda f: _edit(f, lambda data: data["files"].pop()), "does not have"),
        (lambda f: _edit(f, lambda data: data["files"][0].update(path="apt/../../etc/passwd")), "not a path of such a folder"),
        (lambda f: _edit(f, lambda data: data["files"][0].update(path="apt/r0/a b")), "not a path of such a folder"),
        (lambda f: _edit(f, lambda data: data["files"][0].update(path="apt.conf")), "not a path of such a folder"),
        (lambda f: _relink(next(f.glob("keys/*"))), "cannot be used"),
    ],
    ids=["changed", "lost", "no-manifest", "deep", "other-lock", "fewer", "out", "space", "configuration", "link"],
)
def test_a_folder_that_was_changed_is_refused(origins: World, folder: Path, tmp_path: Path, damage: object, says: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    check_folder(copy, origins.lock)
    assert callable(damage)
    damage(copy)
    with pytest.raises(MirrorRefusedError, match=says):
        check_folder(copy, origins.lock)


def test_a_wheel_that_was_swapped_with_its_line_in_the_manifest_is_none_of_the_lock(origins: World, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "wheels/numpy-2.3.1-py3-none-any.whl").write_bytes(b"evil")
    sha256 = hashlib.sha256(b"evil").hexdigest()
    _edit(copy, lambda data: [f.update(sha256=sha256, bytes=4) for f in data["files"] if "numpy" in f["path"]])
    with pytest.raises(MirrorRefusedError, match="not a wheel of the lock"):
        check_folder(copy, origins.lock)


def test_a_repository_that_another_key_signed_is_not_carried(origins: World, tmp_path: Path) -> None:
    (mine, *_) = origins.lock.repositories
    other = origins.lock.model_copy(update={"repositories": (mine.model_copy(update={"fingerprint": "0" * 40}),)})
    with pytest.raises(IndexUnreachableError, match="not signed with its key"):
        replace(origins, lock=other).fill(tmp_path / "carried")


def test_a_package_that_no_repository_has_is_named(origins: World, tmp_path: Path) -> None:
    other = origins.lock.model_copy(update={"packages": {**origins.lock.packages, "base": ("no-such-package",)}})
    with pytest.raises(MirrorRefusedError, match="no-such-package"):
        replace(origins, lock=other).fill(tmp_path / "carried")


def test_a_package_with_another_content_than_the_signed_index_says_is_not_kept(origins: World, tmp_path: Path) -> None:
    origins.repository.breaks({".deb": (200, b"another")})
    try:
        with pytest.raises(IndexUnreachableError, match="not the file that was asked for"):
            origins.fill(tmp_path / "carried")
    finally:
        origins.repository.breaks({})
    assert not (tmp_path / "carried").exists()


def test_a_folder_of_somebody_else_is_left_alone(origins: World, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(MirrorRefusedError, match="not a folder that"):
        origins.fill(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_said_as_such_and_a_folder_that_another_fills_stays_his(origins: World, tmp_path: Path) -> None:
    with pytest.raises(MirrorRefusedError, match="cannot fill"):
        origins.fill(Path("/proc/carried"))
    lock = tmp_path / ".carried.lock"
    lock.touch()
    with FileLock(lock):
        with pytest.raises(MirrorRefusedError, match="another gpuprov fills"):
            origins.fill(tmp_path / "carried")
        assert lock.exists(), "the one who waits does not take the other's lock away"


def _edit(folder: Path, change: object) -> None:
    data = json.loads((folder / "manifest.json").read_text())
    assert callable(change)
    change(data)
    (folder / "manifest.json").write_text(json.dumps(data))


def _relink(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")

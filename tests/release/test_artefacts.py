import email
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import trove_classifiers  # which hatchling brings

from provision.paths import profiles_dir
from tests.release import artefacts

ROOT = Path(__file__).parents[2]
PARTS = [*artefacts.PARTS, "pyproject.toml", "requirements.lock", "docs.lock", "release.lock", "README.md", "LICENSE"]


def copied(target: Path) -> Path:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / part)
    return target


def built(tree: Path) -> Path:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tree, check=True, capture_output=True)
    return next((tree / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("tree") / "one")


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    return built(tree)


def test_the_metadata_says_who_made_it_how_far_it_is_and_where_it_runs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        name = next(name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        said = email.message_from_bytes(file.read(name))
    systems = {line for line in said.get_all("Classifier", []) if line.startswith("Operating System ::")}
    assert systems == {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"}, "as README.md says of clients"
    assert set(said.get_all("Classifier", [])) <= trove_classifiers.classifiers
    assert any(line.startswith("Development Status ::") for line in said.get_all("Classifier", []))
    assert all(said[key] for key in ("Author", "Summary", "Keywords", "License-Expression", "Description-Content-Type"))


def rewritten(wheel: Path, folder: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """A wheel of the same name in which each file is what `change` makes of it; None leaves it out."""
    target = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


def test_a_wheel_of_the_tree_has_no_objection(wheel: Path, tree: Path) -> None:
    assert artefacts.wheel_objections(wheel, tree) == []
    assert artefacts.lock_objections(tree) == []


@pytest.mark.parametrize("lost", ["provision/_data/playbooks/site.yml", f"provision/_data/{artefacts.ERRORS}", "provision/paths.py"])
def test_a_missing_playbook_page_or_module_is_refused(wheel: Path, tree: Path, tmp_path: Path, lost: str) -> None:
    spoilt = rewritten(wheel, tmp_path, lambda name, data: None if name == lost else data)
    assert artefacts.wheel_objections(spoilt, tree) == [f"the wheel has no {lost}"]


def test_a_wheel_with_the_lock_of_another_day_is_refused(wheel: Path, tree: Path, tmp_path: Path) -> None:
    lock = "provision/_data/profiles/t4-train.lock.yml"
    spoilt = rewritten(wheel, tmp_path, lambda name, data: data.replace(b"catalogue: '20", b"catalogue: '19") if name == lock else data)
    assert artefacts.wheel_objections(spoilt, tree) == [f"{lock} of the wheel is not that of the tree"]


def test_a_file_too_many_is_refused(wheel: Path, tree: Path, tmp_path: Path) -> None:
    spoilt = rewritten(wheel, tmp_path, lambda _, data: data)
    with zipfile.ZipFile(spoilt, "a") as file:
        file.writestr("provision/notes.txt", "mine")
    assert artefacts.wheel_objections(spoilt, tree) == ["the wheel has provision/notes.txt, which is not in the tree"]


def test_a_wrong_version_is_refused(wheel: Path, tree: Path, tmp_path: Path) -> None:
    wrong = "9.9.9"
    old = artefacts.project(tree)["version"].encode()
    spoilt = rewritten(
        wheel,
        tmp_path,
        lambda name, data: data.replace(b"\nVersion: " + old, b"\nVersion: " + wrong.encode()) if name.endswith("/METADATA") else data,
    )
    assert any(f"says version {wrong}" in objection for objection in artefacts.wheel_objections(spoilt, tree))


def test_a_module_that_says_another_version_is_refused(tmp_path: Path) -> None:
    tree = copied(tmp_path / "tree")
    module = tree / "provision" / "__init__.py"
    module.write_text(module.read_text().replace('__version__ = "', '__version__ = "7.'))
    objections = artefacts.wheel_objections(built(tree), tree)
    assert objections == [f"provision/__init__.py of the wheel does not say version {artefacts.project(tree)['version']}"]


def test_a_profile_whose_lock_is_stale_is_refused(tmp_path: Path) -> None:
    gpuprov = Path(sys.executable).with_name("gpuprov")
    for name in ("t4-train.yml", "t4-train.lock.yml"):
        shutil.copy(profiles_dir() / name, tmp_path / name)
    assert artefacts.profile_objections(gpuprov, tmp_path) == []
    profile = tmp_path / "t4-train.yml"
    profile.write_text(profile.read_text().replace("deadline_h: 12", "deadline_h: 11"))
    (objection,) = artefacts.profile_objections(gpuprov, tmp_path)
    assert objection.startswith("the lock of t4-train is stale: ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("click", '"click>=99"', "requirements.lock has click "),
        ("click", '"click", "never-locked>=1"', "requirements.lock has no never-locked"),
        ("twine", '"twine>=99"', "release.lock has twine "),
        ("mkdocs", '"mkdocs>=99"', "docs.lock has mkdocs "),
    ],
)
def test_requirements_that_a_lock_does_not_meet_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    for name in ("requirements.lock", "docs.lock", "release.lock"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    text, changes = re.subn(rf'"{old}>=[\d.]+"', new, (ROOT / "pyproject.toml").read_text())
    assert changes == 1
    (tmp_path / "pyproject.toml").write_text(text)
    (objection,) = artefacts.lock_objections(tmp_path)
    assert objection.startswith(said)


def test_an_unknown_licence_is_refused_unless_somebody_read_it() -> None:
    named = {"known": "MIT", "silent": "", "vague": "UNKNOWN", "approved": "OSI Approved"}
    refused = [f"the licence of {name} is not known" for name in ("silent", "approved")]
    assert artefacts.licence_objections(named, {"vague": "BSD-3-Clause"}) == refused


def test_licences_are_those_of_the_environment() -> None:
    assert artefacts.licences(Path(sys.executable))["gpuprov"] == "Apache-2.0"


def test_builds_that_differ_are_named(tmp_path: Path) -> None:
    builds = [[tmp_path / side / "x.whl"] for side in ("a", "b")]
    for (path,), text in zip(builds, ("one", "two"), strict=True):
        path.parent.mkdir()
        path.write_text(text)
    assert artefacts.same_bytes(*builds) == ["x.whl differs between the two builds"]
    assert artefacts.same_bytes(builds[0], builds[0]) == []

"""OpenCV from source, with a small source distribution in its place: built once, kept, copied to the next host, undone."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import io
import tarfile
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from provision.converge import variables
from provision.converge.progress import ConvergeResult
from provision.converge.run import converge, undo
from provision.profile.load import find, load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.rehearsal import rootfs

from .conftest import Lab

pytestmark = pytest.mark.rehearsal
BUILT = "/var/cache/gpuprov/opencv"
SETUP = """
import os, setuptools
open("cv2.py", "w").write("FLAGS = %r" % os.environ["CMAKE_ARGS"])
setuptools.setup(name="opencv-contrib-python", version="0.1", py_modules=["cv2"])
"""


@pytest.fixture(scope="module")
def asked() -> Profile:
    plain = load(find("t4-debian")).dump()
    plain["stack"] |= {"opencv": "cuda", "frameworks": {}, "profilers": [], "extras": []}
    return Profile.model_validate(plain)


@pytest.fixture(scope="module")
def locked(asked: Profile, lab: Lab) -> Lock:
    """The real tools and flags, and the small source, which the host's pip finds in a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, text in {"setup.py": SETUP, "PKG-INFO": "Metadata-Version: 2.1\nName: opencv-contrib-python\nVersion: 0.1\n"}.items():
            member = tarfile.TarInfo(f"opencv_contrib_python-0.1/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    source = written.getvalue()
    lab.shell(f"sudo mkdir -p /srv/source && echo {quote('find-links = /srv/source')} | sudo tee -a /etc/pip.conf")
    lab.shell(f"echo {base64.b64encode(source).decode()} | base64 -d | sudo tee /srv/source/opencv_contrib_python-0.1.tar.gz > /dev/null")
    made = build(asked, dt.date(2026, 11, 21), system=rootfs.system())
    line = f"opencv-contrib-python==0.1 --hash=sha256:{hashlib.sha256(source).hexdigest()}"
    # The toolkit is two gigabytes, and the small source needs none.
    return made.model_copy(update={"opencv": made.opencv.model_copy(update={"source": line}), "packages": {"opencv": ("python3-venv",)}})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cache(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "cache_dir", lambda: kept)


def run(lab: Lab, asked: Profile, locked: Lock, folder: Path, **more: Any) -> ConvergeResult:
    return converge(lab.target, asked, ["opencv"], lock=locked, run_dir=folder, login="ubuntu", on_progress=lambda _: None, **more)


def test_check_mode_predicts_the_build_and_makes_nothing(lab: Lab, asked: Profile, locked: Lock, kept: Path, tmp_path: Path) -> None:
    predicted = run(lab, asked, locked, tmp_path / "run", check=True)
    assert {"opencv: Make the wheel's folder", "opencv: Build the wheel"} <= set(predicted.changed_tasks)
    assert "opencv: Install OpenCV exactly as locked" in predicted.changed_tasks
    assert lab.shell("ls -d /var/cache/gpuprov /opt/gpuprov", check=False) == ""
    assert list(kept.rglob("*")) == []


def test_it_is_built_with_the_locked_flags_and_kept_for_the_next_host(
    lab: Lab, asked: Profile, locked: Lock, kept: Path, tmp_path: Path
) -> None:
    run(lab, asked, locked, tmp_path / "run")
    assert lab.shell("with-opencv python -c 'import cv2; print(cv2.FLAGS)'").split() == list(locked.opencv.build_flags)
    on_host = lab.shell(f"ls {BUILT}/{locked.opencv.key}").split()
    assert [name for name in on_host if name.endswith(".whl")] == [path.name for path in kept.rglob("*.whl")]
    assert (kept / "opencv" / str(locked.opencv.key) / "source.txt").read_text() == f"{locked.opencv.source}\n"
    assert lab.shell("sudo ls /var/tmp | grep pip", check=False) == ""
    assert run(lab, asked, locked, tmp_path / "again").changed_tasks == ()


def test_undo_leaves_nothing_of_it_on_the_host(lab: Lab, tmp_path: Path) -> None:
    undo(lab.target, ["packages", "cuda_toolkit", "opencv"], run_dir=tmp_path / "run", on_progress=lambda _: None)
    assert lab.shell("ls -d /var/cache/gpuprov /opt/gpuprov /usr/local/bin/with-opencv", check=False) == ""


def test_what_is_kept_is_copied_and_nothing_is_built(lab: Lab, asked: Profile, locked: Lock, tmp_path: Path) -> None:
    lab.shell("sudo rm -r /srv/source")
    changed = run(lab, asked, locked, tmp_path / "run").changed_tasks
    assert "opencv: Copy the wheel that another host built" in changed
    assert "opencv: Build the wheel" not in changed
    assert lab.shell("with-opencv python -c 'import cv2; print(len(cv2.FLAGS) > 0)'") == "True"
    assert lab.shell("ls -d /opt/gpuprov/venvs/opencv-build", check=False) == ""
    assert run(lab, asked, locked, tmp_path / "again").changed_tasks == ()


def test_a_kept_wheel_that_is_not_whole_is_not_used(lab: Lab, asked: Profile, locked: Lock, kept: Path, tmp_path: Path) -> None:
    (kept / "opencv" / str(locked.opencv.key) / "source.txt").unlink()
    lab.shell(f"sudo rm {BUILT}/{locked.opencv.key}/*.whl")
    assert "opencv: Build the wheel" in run(lab, asked, locked, tmp_path / "run", check=True).changed_tasks

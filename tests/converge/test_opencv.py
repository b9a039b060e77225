"""OpenCV from source, with a small source distribution in its place: built once on each host, kept there, undone."""

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

from provision.converge.progress import ConvergeResult
from provision.converge.run import undo
from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal
from provision.profile.load import find, load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.rehearsal import rootfs
from provision.workflow.converging import Converging, converge_host
from provision.workflow.session import Session

from .conftest import Lab

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=5, turn=1)]
BUILT = "/var/cache/gpuprov/opencv"
WHEEL = "opencv_contrib_python-0.1-py3-none-any.whl"
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


def run(lab: Lab, asked: Profile, locked: Lock, folder: Path, **more: Any) -> ConvergeResult:
    """As `gpuprov apply` does it: the host sets itself up, but for a prediction."""
    folder.mkdir()
    session = Session(folder, Journal(folder / "launches"), SshHome(folder / "ssh", folder / "ssh_config"))
    this = Converging(lab.target, asked, locked, ("opencv",), folder / "run", login="ubuntu", **more)
    return converge_host(session, this, say=lambda _: None, on_task=lambda _: None)


def test_check_mode_predicts_the_build_and_makes_nothing(lab: Lab, asked: Profile, locked: Lock, tmp_path: Path) -> None:
    predicted = run(lab, asked, locked, tmp_path / "run", check=True)
    assert {"opencv: Make the wheel's folder", "opencv: Build the wheel"} <= set(predicted.changed_tasks)
    assert "opencv: Install OpenCV exactly as locked" in predicted.changed_tasks
    assert lab.shell("ls -d /var/cache/gpuprov /opt/gpuprov", check=False) == ""


def test_each_host_builds_with_the_locked_flags_and_takes_what_no_other_host_built(
    lab: Lab, asked: Profile, locked: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hash of such a wheel is in the lock: root of the host that built it would be root of the next."""
    monkeypatch.setenv("GPUPROV_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "opencv" / str(locked.opencv.key)
    kept.mkdir(parents=True)
    (kept / WHEEL).write_text("another host's")
    (kept / "source.txt").write_text(f"{locked.opencv.source}\n")
    changed = run(lab, asked, locked, tmp_path / "run").changed_tasks
    assert "opencv: Build the wheel" in changed
    assert lab.shell("with-opencv python -c 'import cv2; print(cv2.FLAGS)'").split() == list(locked.opencv.build_flags)
    left = lab.shell(f"ls {BUILT}/{locked.opencv.key}; find {BUILT} -name '*pip*'; sudo find /tmp /var/tmp -name 'pip*'").split()
    assert [name for name in left if name != "new"] == [WHEEL]
    assert sorted(path.name for path in kept.iterdir()) == [WHEEL, "source.txt"]
    assert run(lab, asked, locked, tmp_path / "again").changed_tasks == ()


def test_a_host_builds_its_wheel_once(lab: Lab, asked: Profile, locked: Lock, tmp_path: Path) -> None:
    lab.shell("sudo rm -r /opt/gpuprov/venvs/opencv /opt/gpuprov/venvs/opencv-build")
    changed = run(lab, asked, locked, tmp_path / "run").changed_tasks
    assert "opencv: Build the wheel" not in changed
    assert lab.shell("with-opencv python -c 'import cv2; print(len(cv2.FLAGS) > 0)'") == "True"


def test_undo_leaves_nothing_of_it_on_the_host(lab: Lab, tmp_path: Path) -> None:
    undo(lab.target, ["packages", "cuda_toolkit", "opencv"], run_dir=tmp_path / "run", on_progress=lambda _: None)
    assert lab.shell("ls -d /var/cache/gpuprov /opt/gpuprov /usr/local/bin/with-opencv", check=False) == ""

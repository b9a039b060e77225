"""Components that are built against PyTorch, and TensorRT, with small stand-ins: built once on each host, kept there, undone."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from provision.converge.progress import ConvergeResult
from provision.converge.run import converge, undo
from provision.profile.load import find, load
from provision.profile.lock import build
from provision.profile.locked import Lock, LockedExtra
from provision.profile.model import Profile
from provision.profile.pins import PackagePin
from provision.rehearsal import rootfs

from .conftest import SOURCES, Lab
from .repository import Repository, packages

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=5, turn=4)]
BUILT = "/var/cache/gpuprov/extras"
WHEEL = "flash_attn-0.1-py3-none-any.whl"
PYTHON = "/opt/gpuprov/venvs/pytorch/bin/python"
# It is built against a module of PyTorch's environment, and keeps what it was told.
SETUP = """
import os, setuptools, torch
told = {name: os.environ.get(name) for name in ("FLASH_ATTENTION_FORCE_BUILD", "FLASH_ATTN_CUDA_ARCHS", "MAX_JOBS", "CUDA_HOME")}
open("flash_attn.py", "w").write("TORCH, TOLD = %r, %r" % (torch.NAME, told))
setuptools.setup(name="flash-attn", version="0.1", py_modules=["flash_attn"])
"""


def sdist(name: str, version: str, module: str, setup: str) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for file, text in {"setup.py": setup, "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}.items():
            member = tarfile.TarInfo(f"{module}-{version}/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return written.getvalue()


@pytest.fixture(scope="module")
def asked(repository: Repository) -> Profile:
    """With the repository in NVIDIA's place."""
    plain = load(find("h100-train")).dump()
    plain["sources"]["apt"] = {"url": repository.url, "key": f"{repository.url}key.asc", "fingerprint": repository.fingerprint}
    stack = {"opencv": "none", "frameworks": {"pytorch": "auto"}, "profilers": [], "extras": ["flash-attn", "tensorrt"]}
    return Profile.model_validate({**plain, "places": [], "stack": plain["stack"] | stack})


@pytest.fixture(scope="module")
def locked(asked: Profile, lab: Lab, repository: Repository) -> Lock:
    """The real tools and variables, TensorRT's names and the real wheel of its Python part; the source is small, PyTorch is one module."""
    source = sdist("flash-attn", "0.1", "flash_attn", SETUP)
    lab.shell("sudo mkdir -p /srv/source && echo 'find-links = /srv/source' | sudo tee -a /etc/pip.conf")
    lab.shell(f"echo {base64.b64encode(source).decode()} | base64 -d | sudo tee /srv/source/flash_attn-0.1.tar.gz > /dev/null")
    lab.shell("sudo apt-get update -qq && sudo apt-get install -y -qq python3-venv && sudo python3 -m venv /opt/gpuprov/venvs/pytorch")
    lab.shell(f"echo 'NAME = \"stand-in\"' | sudo tee $({PYTHON} -c 'import site; print(site.getsitepackages()[0])')/torch.py")
    made = build(asked, dt.date(2026, 11, 21), system=rootfs.system())
    whole = made.extras["flash-attn"]
    assert whole.build is not None
    line = f"flash-attn==0.1 --hash=sha256:{hashlib.sha256(source).hexdigest()}"
    small = whole.model_copy(update={"version": "0.1", "build": whole.build.model_copy(update={"source": line})})
    own = made.packages["extras"]
    repository.add(packages(list(own), made.driver.branch, made.cuda.version))
    return made.model_copy(update={"extras": {**made.extras, "flash-attn": small}, "packages": {"extras": own}})


def key(locked: Lock) -> str:
    made: LockedExtra = locked.extras["flash-attn"]
    assert made.build is not None
    return made.build.key


def run(lab: Lab, asked: Profile, locked: Lock, folder: Path, **more: Any) -> ConvergeResult:
    """The role alone: PyTorch is there, and the toolkit is two gigabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("provision.converge.run.with_groundwork", lambda names, _lock: ("preflight", "sources", "packages", *names))
        return converge(lab.target, asked, ["extras"], lock=locked, run_dir=folder, login="ubuntu", on_progress=lambda _: None, **more)


def test_check_mode_predicts_the_build_and_makes_nothing(lab: Lab, asked: Profile, locked: Lock, tmp_path: Path) -> None:
    predicted = run(lab, asked, locked, tmp_path / "run", check=True)
    assert {"extras: Make the wheel's folder", "extras: Build the wheel"} <= set(predicted.changed_tasks)
    assert lab.shell(f"ls -d {BUILT} /opt/gpuprov/venvs/pytorch-build", check=False) == ""


def test_each_host_builds_against_pytorch_as_locked_and_takes_what_no_other_host_built(
    lab: Lab, asked: Profile, locked: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROV_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "extras" / key(locked)
    kept.mkdir(parents=True)
    (kept / WHEEL).write_text("another host's")
    (kept / "source.txt").write_text("")
    run(lab, asked, locked, tmp_path / "run")
    torch, force, arch, jobs, home = lab.shell(f"{PYTHON} -c 'import flash_attn as f; print(f.TORCH, *f.TOLD.values())'").split()
    assert (torch, force, arch, home) == ("stand-in", "TRUE", "90", locked.cuda.home)
    assert 1 <= int(jobs) <= 1 + int(lab.shell("awk '/MemTotal/ {print $2}' /proc/meminfo")) // (9 << 20)
    assert [name for name in lab.shell(f"ls {BUILT}/{key(locked)}").split() if name != "new"] == [WHEEL]
    assert sorted(path.name for path in kept.iterdir()) == [WHEEL, "source.txt"]
    assert run(lab, asked, locked, tmp_path / "again").changed_tasks == ()


def test_tensorrt_asks_for_the_library_of_its_packages_under_either_name(lab: Lab) -> None:
    """The wheel has none, and no stand-in of it would load."""
    for name in ("tensorrt", "tensorrt_bindings"):
        assert "libnvonnxparser.so.11: cannot open shared object file" in lab.shell(f"{PYTHON} -c 'import {name}' 2>&1", check=False)


def test_every_package_of_tensorrt_stays_at_the_version_of_the_lock(lab: Lab, locked: Lock, repository: Repository) -> None:
    """A newer release comes out, with a package that the profile does not install; apt takes neither."""
    shown = "dpkg-query -W -f '${Package}=${Version}\\n' 'libnv*'"
    assert set(lab.shell(shown).split()) == set(locked.packages["extras"])
    pins = [PackagePin.parse(package) for package in locked.packages["extras"]]
    newer = "11.9.0.1-1+cuda13.9"
    more = [*(f"{pin.name}={newer}" for pin in pins), f"libnvinfer-dev={newer}", f"libnvinfer-dev={pins[0].version}"]
    repository.add(packages(more, locked.driver.branch, locked.cuda.version))
    lab.upgrade(SOURCES)
    lab.shell("sudo apt-get install -y -qq libnvinfer-dev")
    versions = lab.shell("dpkg-query -W -f '${Version}\\n' 'libnv*'").split()
    assert (set(versions), len(versions)) == ({pins[0].version}, len(pins) + 1)
    lab.shell("sudo apt-get purge -y -qq libnvinfer-dev")


def test_undo_leaves_nothing_of_it_on_the_host(lab: Lab, tmp_path: Path) -> None:
    undo(lab.target, ["sources", "packages", "extras"], run_dir=tmp_path / "run", on_progress=lambda _: None)
    assert lab.shell("ls -d /var/cache/gpuprov /opt/gpuprov/venvs/pytorch-build /opt/gpuprov/venvs/pytorch-extras.txt", check=False) == ""
    installed = lab.shell(f"{PYTHON} -m pip list --format=freeze").split()
    assert {line.partition("==")[0] for line in installed} <= {"pip", "setuptools"}
    assert lab.shell("find /opt/gpuprov -name 'tensorrt*'; ls /etc/apt/preferences.d/gpuprov 2>/dev/null", check=False) == ""
    assert lab.shell("dpkg-query -W -f '${Status}' 'libnvinfer*' | grep ' installed'", check=False) == ""

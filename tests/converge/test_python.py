"""The roles for PyTorch and for a team's own packages on a real host, with tiny wheels from an index of the test's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.catalog import overlay
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.profile.own import from_file
from provision.rehearsal import rootfs
from tests.wheel_index import Index

from .conftest import Host, Lab

pytestmark = pytest.mark.rehearsal

VENV = "/opt/gpuprov/venvs/pytorch"
TODAY = dt.date(2026, 11, 21)


@pytest.fixture(scope="module")
def index(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    made = Index(
        tmp_path_factory.mktemp("index"),
        {"torch": {"2.10.0": ("numpy",)}, "numpy": {"2.3.1": ()}, "einops": {"0.8.1": ()}, "extramath": {"1.0": ("einops",)}},
        lab.gateway,
    )
    yield made
    made.close()


def test_own_packages_are_installed_beside_the_frameworks_repaired_and_taken_back(
    lab: Lab, profile: Profile, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("GPUPROV_OVERLAY", str(tmp_path / "overlay.json"))
    text = f"{index.pins['torch 2.10.0']}\n{index.pins['numpy 2.3.1']}\n"
    refreshed = overlay.Part("wheels", dt.datetime(2026, 11, 21, tzinfo=dt.UTC), "a test")
    overlay.write(overlay.Overlay(parts=[refreshed], wheels={"torch-2.10.0-cp311": text}))
    plain = profile.dump()
    plain["stack"] |= {"frameworks": {"pytorch": "2.10.0"}, "extras": [], "python": {"requirements": "requirements.txt"}}
    plain["sources"]["wheels"] = {"url": index.url}
    asked = Profile.model_validate(plain)
    (tmp_path / "requirements.txt").write_text("extramath\n")
    lock = build(asked, TODAY, system=rootfs.system(), own=from_file(asked, tmp_path / "x.yml"))
    assert lock.python is not None
    assert lock.python.wheels == (index.pins["einops 0.8.1"], index.pins["extramath 1.0"])
    host = Host(lab, asked, lock, tmp_path)

    host.converge("first", ("pytorch",))  # a new environment gets the packages too
    found = host.findings()["python-packages"]
    assert (found.outcome, found.observed) == ("pass", "packages: 4"), found
    assert host.converge("second", ("pytorch",)).changed_tasks == ()

    login, said = "/etc/motd.d/gpuprov-pytorch", "PyTorch 2.10.0: with-pytorch python train.py"
    assert lab.shell(f"cat {login}") == said
    lab.shell(f"echo another text | sudo tee {login}")
    assert host.converge("said", ("pytorch",)).changed_tasks == ("pytorch: Say at login how a program gets PyTorch",)
    assert (lab.shell(f"cat {login}"), host.converge("again", ("pytorch",)).changed_tasks) == (said, ())

    lab.shell(f"sudo {VENV}/bin/python -m pip uninstall --quiet --yes einops")
    assert host.findings()["python-packages"].observed == "einops not installed instead of 0.8.1"
    assert host.converge("third", ("python",)).changed_tasks == ("python: Install the profile's own packages exactly as locked",)
    assert host.findings()["python-packages"].outcome == "pass"

    host.undo("undo", ("python",))
    assert host.findings()["python-packages"].observed.startswith("einops not installed instead of 0.8.1, extramath not installed")
    assert "torch" in lab.shell(f"{VENV}/bin/python -m pip list")
    host.undo("all")
    assert lab.shell("ls /opt/gpuprov/venvs /etc/motd.d", check=False) == ""

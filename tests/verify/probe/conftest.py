"""The probe's modules as a host has them, and a PATH with nothing on it but what a test puts there."""

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import provision.verify.observe as observing


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, with what a shell needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sed", "head"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The probe's modules under the names that they have on a host, where a login shell reads no file of the person who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    names = observing.MODULES
    monkeypatch.syspath_prepend(str(observing.PROBE))
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)

"""What this machine lacks is said before anything is started."""

import os
import shutil
from pathlib import Path

import pytest

from provision.errors import RehearsalUnavailableError
from provision.rehearsal import control, requirements


def test_a_machine_that_lacks_something_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: None if tool == "mmdebstrap" else f"/usr/bin/{tool}")  # noqa: ARG005
    with pytest.raises(RehearsalUnavailableError) as caught:
        control.start(tmp_path)
    assert "run with sudo" in caught.value.hint
    assert "apt-get install mmdebstrap" in caught.value.hint
    assert not (tmp_path / "server.json").exists()


def test_without_hosts_no_tool_and_no_right_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _tool, path=None: None)  # noqa: ARG005
    assert requirements.gaps(hosts=False) == []

"""What protects every test: a home of its own, no real cloud, no real configuration of the user."""

import os
import sys
from pathlib import Path

import pytest

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes this user's journal, keys, ssh configuration or cloud credentials."""
    home = tmp_path / "gpuprov-home"
    monkeypatch.setenv("GPUPROV_HOME", str(home))
    monkeypatch.setenv("GPUPROV_SSH_CONFIG", str(tmp_path / "ssh_config"))
    for name in [n for n in os.environ if n.startswith("AWS_") and n != "AWS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return home

"""What the probe sees of the way out."""

from pathlib import Path
from typing import Any

import pytest

from tests.certificates import AUTHORITY, SERVER

from .host import tool


def test_files_of_ours_apts_word_and_the_systems_store(
    probe: Any, bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = """echo 'Acquire::http::Proxy "http://p:1";'; echo 'Acquire::http::Proxy::mirror "DIRECT";'"""
    tool(bin_folder, "apt-config", told)
    for name in ("FILES", "AUTHORITIES", "BUNDLES"):
        monkeypatch.setattr(probe.egress, name, (str(tmp_path / name),))
    seen = probe.egress.egress()
    assert seen == {"files": {}, "apt_proxy": "http://p:1", "authority": None, "trusted": False}
    (tmp_path / "AUTHORITIES").write_text(AUTHORITY)
    (tmp_path / "FILES").write_text("x")
    (tmp_path / "BUNDLES").write_text(SERVER)
    seen = probe.egress.egress()
    assert (list(seen["files"]), seen["trusted"]) == ([str(tmp_path / "FILES")], False)
    (tmp_path / "BUNDLES").write_text(f"# others\n{SERVER}# ours\n{AUTHORITY}")
    assert probe.egress.egress()["trusted"] is True


def test_an_apt_that_cannot_be_asked_is_unknown(probe: Any, bin_folder: Path) -> None:
    tool(bin_folder, "apt-config", "echo broken >&2; exit 1")
    with pytest.raises(probe.run.Unknown, match="broken"):
        probe.egress.egress()

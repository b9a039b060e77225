"""Which file decides on the counters."""

from pathlib import Path
from typing import Any


def test_the_last_file_that_speaks_of_the_counters_decides_and_is_the_one_that_the_initramfs_must_have(
    probe: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    texts = {"/lib/modprobe.d/a.conf": "1", "/etc/modprobe.d/b.conf": "0", "/etc/modprobe.d/c.conf": None}
    paths = {tmp_path / path.rpartition("/")[2]: value for path, value in texts.items()}
    for path, value in paths.items():
        path.write_text(f"options nvidia NVreg_RestrictProfilingToAdminUsers={value}\n" if value else "options nvidia x=1\n")
    monkeypatch.setattr(probe.gpu.glob, "glob", lambda pattern: [str(p) for p in paths] if pattern.startswith("/etc/") else [])
    assert probe.counters.option() == (str(tmp_path / "b.conf"), "0")
    option = probe.surroundings.initramfs()["option"]
    assert option == {"path": str(tmp_path / "b.conf"), "changed": (tmp_path / "b.conf").stat().st_mtime}

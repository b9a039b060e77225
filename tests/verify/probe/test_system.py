"""What the probe reads of the ports for RDMA."""

from pathlib import Path
from typing import Any

import pytest

from .host import tool

ERROR = "symbol_error"


def test_ports_are_read_twice_so_that_errors_that_come_now_are_told_from_old_ones(
    probe: Any, tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = tmp_path / "mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    (tmp_path / "drivers/mlx5_core").mkdir(parents=True)
    (tmp_path / "pci").mkdir()
    (tmp_path / "pci/driver").symlink_to(tmp_path / "drivers/mlx5_core")
    (tmp_path / "pci/device").write_text("0x1021\n")
    (tmp_path / "mlx5_0/device").symlink_to(tmp_path / "pci")
    texts = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "InfiniBand"}
    for name, text in {**texts, "rate": "400 Gb/sec (4X NDR)", "counters/symbol_error": "7", "counters/link_downed": "1"}.items():
        (port / name).write_text(f"{text}\n")
    monkeypatch.setattr(probe.system, "RDMA", str(tmp_path))
    monkeypatch.setattr(probe.system.time, "sleep", lambda _: (port / "counters/symbol_error").write_text("9\n"))
    tool(bin_folder, "modinfo", 'case "$*" in *nvidia-peermem) echo /lib/x.ko;; *) exit 1;; esac')
    assert probe.system.rdma() == {
        "ports": [
            {
                "name": "mlx5_0/1",
                "kind": "mlx5_core 0x1021",
                **texts,
                "active": True,
                "gb_s": 400.0,
                "errors": {"symbol_error": 9, "link_downed": 1},
                "grown": [ERROR],
            }
        ],
        "peermem": "built",
    }
    monkeypatch.setattr(probe.system, "RDMA", "/nowhere")
    assert probe.system.rdma() == {"ports": [], "peermem": None}

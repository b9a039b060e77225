"""What the probe makes of NVML's answers, and of kernels on disk."""

from pathlib import Path
from typing import Any

from .host import device, tool


def test_an_h100_is_read_and_what_it_has_not_is_nvmls_own_reason(probe: Any, monkeypatch: Any) -> None:
    found = device(probe, monkeypatch)
    assert {name: found[name] for name in ("ecc", "ecc_pending", "uncorrected", "inforom", "remapped_failure", "event_reasons")} == {
        name: {"value": value}
        for name, value in {"ecc": 1, "ecc_pending": 1, "uncorrected": 0, "inforom": 1, "remapped_failure": 0, "event_reasons": 1}.items()
    }
    assert found["pci"] == {"value": "00000000:00:06.0"}
    # The setting, not the clock of now: Meta's documentation names the one call and its code another.
    assert (found["app_graphics_mhz"], found["app_memory_mhz"]) == ({"value": 1980}, {"value": 2619})
    for absent in ("retired_single", "retired_pending", "links", "fabric_state", "recovery_action", "sram_threshold", "pcie_width"):
        assert found[absent] == {"unknown": "Not Supported"}


def test_every_kernel_with_headers_or_an_image_is_looked_into(probe: Any, tmp_path: Path, monkeypatch: Any, bin_folder: Path) -> None:
    for kernel, files in {
        "6.8.0-1": ("build/Makefile", "vmlinuz", "updates/dkms/nvidia.ko.zst"),
        "6.8.0-2": ("vmlinuz", "kernel/drivers/net/nvidia-shm.ko"),
        "6.8.0-3": ("build/Makefile", "updates/dkms/nvidia-current-open.ko"),
    }.items():
        for name in files:
            path = tmp_path / "modules" / kernel / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    folders = [f"{folder}/" for folder in (tmp_path / "modules").iterdir()]
    monkeypatch.setattr(probe.gpu.glob, "glob", lambda _: folders)
    tool(bin_folder, "apt-mark", "echo nvidia-dkms-open; echo gcc")
    found = probe.gpu.modules()
    assert found["installed"] == [{"kernel": "6.8.0-1", "built": True}, {"kernel": "6.8.0-2", "built": False}]
    assert found["kernels"] == [{"kernel": "6.8.0-1", "built": True}, {"kernel": "6.8.0-3", "built": True}]
    assert found["held"] == ["gcc", "nvidia-dkms-open"]

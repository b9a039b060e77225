"""What the probe makes of NVML's answers, and of kernels on disk."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from .host import Nvml, device, tool

H100 = "NVIDIA H100 80GB HBM3"
# What needs a part of pynvml's that this version may not have, before NVML is asked.
UNTRIED = ("fabric_state", "fabric_status", "sram_threshold")


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


@pytest.mark.parametrize("code", [8, 15, 999, 4])
def test_a_gpu_of_which_nvml_gives_no_handle_hides_no_other(probe: Any, monkeypatch: Any, code: int) -> None:
    gone = importlib.import_module("pynvml").NVMLError(code)
    answers = {"nvmlDeviceGetCount": 3, "nvmlDeviceGetHandleByIndex": lambda index: gone if index == 1 else f"handle {index}"}
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(**answers))
    monkeypatch.setattr(probe.gpu, "need_gpu", lambda: None)
    found = probe.gpu.nvml()
    assert [each["name"] for each in found["devices"]] == [{"value": H100}, {"unknown": str(gone)}, {"value": H100}]
    assert [each["error"]["value"] for each in found["devices"]] == [0, code, 0]
    readings = {name: reading for name, reading in found["devices"][1].items() if name != "error"}
    assert all(reading == {"unknown": str(gone)} for name, reading in readings.items() if name not in UNTRIED), readings
    monkeypatch.setattr(probe.stack, "present", lambda: {"pci": ["0000:00:06.0"], "nodes": [], "module": True})
    assert probe.stack.architectures() == ["sm_90"]


@pytest.mark.parametrize(("code", "error"), [(15, 15), (16, 16), (999, 0), (3, 0)])
def test_a_reading_that_says_that_the_whole_gpu_is_lost_is_said_of_the_gpu(probe: Any, monkeypatch: Any, code: int, error: int) -> None:
    pynvml = importlib.import_module("pynvml")
    assert device(probe, monkeypatch, nvmlDeviceGetPersistenceMode=pynvml.NVMLError(code))["error"] == {"value": error}


def test_an_nvml_that_does_not_count_its_gpus_is_unknown(probe: Any, monkeypatch: Any) -> None:
    pynvml = importlib.import_module("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(nvmlDeviceGetCount=pynvml.NVMLError(999)))
    monkeypatch.setattr(probe.gpu, "need_gpu", lambda: None)
    with pytest.raises(probe.run.Unknown, match="NVML: Unknown Error"):
        probe.gpu.nvml()


def test_the_kernel_driver_of_each_card_is_seen(probe: Any, tmp_path: Path, monkeypatch: Any) -> None:
    for address, driver in {"0000:17:00.0": "vfio-pci", "0000:18:00.0": "nvidia", "0000:19:00.0": None}.items():
        (tmp_path / address).mkdir()
        (tmp_path / address / "vendor").write_text("0x10de\n")
        (tmp_path / address / "class").write_text("0x030200\n")
        if driver:
            (tmp_path / address / "driver").symlink_to(tmp_path / "drivers" / driver)
    monkeypatch.setattr(probe.device, "BUS", str(tmp_path))
    monkeypatch.setattr(probe.device, "CARD_INFORMATION", f"{tmp_path}/%s/information")
    for address, name in {"0000:17:00.0": "NVIDIA A100-SXM4-80GB", "0000:18:00.0": "NVIDIA DGX Display"}.items():
        (tmp_path / address / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 60\n")
    found = probe.device.present()
    assert found["displays"] == ["0000:18:00.0"]
    assert found["pci"] == ["0000:17:00.0", "0000:18:00.0", "0000:19:00.0"]
    assert found["drivers"] == {"0000:17:00.0": "vfio-pci", "0000:18:00.0": "nvidia"}


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
    tool(bin_folder, "modinfo", 'case "$*" in "-F version -k 6.8.0-1 nvidia") echo 580.95.05;; *3*-current) echo 550.1;; *) exit 1;; esac')
    found = probe.gpu.modules()
    assert found["installed"] == [
        {"kernel": "6.8.0-1", "built": True, "version": "580.95.05"},
        {"kernel": "6.8.0-2", "built": False},
    ]
    assert found["kernels"] == [found["installed"][0], {"kernel": "6.8.0-3", "built": True, "version": "550.1"}]
    assert found["held"] == ["gcc", "nvidia-dkms-open"]


@pytest.mark.parametrize(
    "case",
    [
        ("libnvidia-ml.so.580.105.08", "libnvidia-ml.so.1 (libc6,x86-64) => {}", "580.105.08"),
        ("libnvidia-ml.so.580.95", "libnvidia-ml.so.1 (libc6,AArch64) => {}", "580.95"),
        ("libnvidia-ml.so.580.95.05", "libnvidia-ml.so.1 (libc6) => {}", None),  # 32 bits
        ("libnvidia-ml.so.stub", "libnvidia-ml.so.1 (libc6,x86-64) => {}", None),
        ("libnvidia-ml.so.580.95.05", "libnvidia-ml.so (libc6,x86-64) => {}", None),
    ],
)
def test_the_version_of_user_space_is_that_of_the_library_that_programs_load(
    probe: Any, tmp_path: Path, monkeypatch: Any, case: tuple[str, str, str | None]
) -> None:
    name, line, version = case
    (tmp_path / name).touch()
    (tmp_path / "libnvidia-ml.so.1").symlink_to(tmp_path / name)
    monkeypatch.setattr(probe.gpu, "loader_cache", lambda: ["1 libs found", "\t" + line.format(tmp_path / "libnvidia-ml.so.1")])
    assert probe.gpu.library() == version


DPKG = """nvidia-fabricmanager 1:595.71.05-1ubuntu1 installed
nvidia-fabricmanager-dev-595 595.71.05-1 installed
nvidia-fabricmanager-590 590.48.01-1 config-files
libnvidia-compute 595.71.05-1ubuntu1 installed
libnvidia-compute-580-server 580.95.05-0ubuntu0.24.04.1 installed
nvidia-dkms-595-open 595.71.05 installed
nvlsm 2025.10.14-1 installed
libnvidia-container1 1.20.1-1 installed
gcc 4:13.2.0-7ubuntu1 installed"""
UNIT = """LoadState=loaded
UnitFileState=enabled
ActiveState=failed
ExecStart={ path=/usr/bin/nv-fabricmanager ; argv[]=/usr/bin/nv-fabricmanager -c x ; ignore_errors=no }"""


def test_packages_of_driver_and_fabric_manager_are_read_by_upstream_version(probe: Any, bin_folder: Path) -> None:
    tool(bin_folder, "systemctl", f"echo '{UNIT}'")
    with pytest.raises(probe.run.Unknown, match="neither dpkg nor rpm"):
        probe.links.fabric_on_disk()
    tool(bin_folder, "apt-mark", "")
    tool(bin_folder, "dpkg-query", f"echo '{DPKG}'")
    found = probe.links.fabric_on_disk()
    assert found["packages"] == {
        "nvidia-fabricmanager": "595.71.05",
        "libnvidia-compute": "595.71.05",
        "libnvidia-compute-580-server": "580.95.05",
        "nvidia-dkms-595-open": "595.71.05",
        "nvlsm": "2025.10.14",
    }
    assert found["module"] is None
    shown = {"exists": True, "enabled": True, "active": False, "command": "/usr/bin/nv-fabricmanager -c x", "starting": False}
    assert {**found["unit"], **shown} == found["unit"]
    tool(bin_folder, "modinfo", "echo 595.71.05")
    assert probe.links.fabric_on_disk()["module"] == "595.71.05"
    (bin_folder / "apt-mark").unlink()
    tool(bin_folder, "rpm", "echo nvidia-fabric-manager 570.133.20 installed; echo kmod-nvidia-open-dkms 570.133.20 installed")
    assert probe.links.fabric_on_disk()["packages"] == {"nvidia-fabric-manager": "570.133.20", "kmod-nvidia-open-dkms": "570.133.20"}


@pytest.mark.parametrize(
    "case",
    [
        (["0000:00:01.0"], None, "print(802)", 802),
        (["0000:00:01.0"], None, "print(0)", 0),
        (["0000:00:01.0"], None, "raise OSError", None),  # no libcuda
        ([], UNIT, "print(802)", 802),
        ([], None, "print(802)", None),  # no switch and no manager: it is not called
    ],
)
def test_cu_init_is_asked_where_there_are_switches_or_their_manager(
    probe: Any, monkeypatch: Any, bin_folder: Path, case: tuple[list[str], str | None, str, int | None]
) -> None:
    switches, unit, answer, code = case
    monkeypatch.setattr(probe.links, "need_gpu", lambda: None)
    monkeypatch.setattr(probe.links, "pci_devices", lambda _: switches)
    monkeypatch.setattr(probe.links.glob, "glob", lambda _: [])
    monkeypatch.setattr(probe.links, "CUDA_INIT", answer)
    if unit:
        tool(bin_folder, "systemctl", f"echo '{unit}'")
    found = probe.links.fabric()
    assert (found["switches"], found["cuda_init"]) == (len(switches), code)

"""What the probe makes of NVML's counts of errors, and of a kernel log."""

import ctypes
import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from .host import device, tool


def test_a_failed_remap_is_the_fourth_number_and_a_pending_one_the_third(probe: Any, monkeypatch: Any) -> None:
    found = device(probe, monkeypatch, nvmlDeviceGetRemappedRows=(1, 2, 3, 4))
    names = ("remapped_correctable", "remapped_uncorrectable", "remapped_pending", "remapped_failure")
    assert [found[name]["value"] for name in names] == [1, 2, 3, 4]


def test_fields_are_read_from_the_member_that_nvml_filled(probe: Any, monkeypatch: Any) -> None:
    real = importlib.import_module("pynvml")

    def fields(_: Any, numbers: list[int]) -> Any:
        values = (real.c_nvmlFieldValue_t * 1)()
        values[0].value.sllVal = -1  # rubbish in the bytes that a smaller member leaves
        values[0].valueType, values[0].value.uiVal = 1, 2
        values[0].nvmlReturn = {230: 0, 270: 2, 271: 3}[numbers[0]]
        return values

    found = device(probe, monkeypatch, nvmlDeviceGetFieldValues=fields)
    assert found["recovery_action"] == {"value": 2}
    assert found["hw_thermal"] == {"unknown": "Not Supported by this driver"}
    assert found["hw_power_brake"] == {"unknown": "Not Supported"}


def test_records_that_nvml_fills_retired_pages_links_and_a_corrupt_inforom(probe: Any, monkeypatch: Any) -> None:
    real = importlib.import_module("pynvml")

    def filled(kind: Any, **values: int) -> Any:
        def call(_: Any, pointer: Any) -> int:
            record = ctypes.cast(pointer, ctypes.POINTER(kind)).contents
            for name, value in values.items():
                setattr(record, name, value)
            return 0

        return call

    found = device(
        probe,
        monkeypatch,
        nvmlDeviceGetSramEccErrorStatus=filled(real.c_nvmlEccSramErrorStatus_v1_t, bThresholdExceeded=1),
        nvmlDeviceGetGpuFabricInfoV=filled(real.c_nvmlGpuFabricInfoV_t, state=3, status=0, healthMask=16),
        nvmlDeviceGetEnforcedPowerLimit=500_000,
        nvmlDeviceGetRetiredPages=lambda _, cause: [4096, 8192] if cause == 1 else [],
        nvmlDeviceGetNvLinkState=lambda _, link: 1 if link < 17 else 0 if link < 18 else real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT),
        nvmlDeviceValidateInforom=real.NVMLError(real.NVML_ERROR_CORRUPTED_INFOROM),
        nvmlDeviceGetCurrentClocksEventReasons=real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND),
        nvmlDeviceGetCurrentClocksThrottleReasons=0x48,
    )
    names = ("sram_threshold", "fabric_state", "fabric_status", "fabric_health", "retired_single", "retired_double", "power_limit_mw")
    assert {name: found[name]["value"] for name in names} == {
        "sram_threshold": 1,
        "fabric_state": 3,
        "fabric_status": 0,
        "fabric_health": 16,
        "retired_single": 0,
        "retired_double": 2,
        "power_limit_mw": 500_000,
    }
    assert (found["links"]["value"], found["links_up"]["value"], found["inforom"]["value"]) == (18, 17, 0)
    assert found["event_reasons"] == {"value": 0x48}


LOG = """[    0.000000] Linux version 6.8.0
[    4.1] NVRM: loading NVIDIA UNIX Open Kernel Module
[   61.2] NVRM: Xid (PCI:0000:9b:00): 31, pid=4711, name=python, Ch 00000008, intr 00000000. MMU Fault
[   62.2] NVRM: Xid (PCI:0000:9b:00): 31, pid=4712, name=python, Ch 00000008
[   63.0] NVRM: Xid (0000:03:00): 14, Channel 00000001
[   64.0] NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 10 (0x004505c6 0x00000000)
[   64.1] NVRM: Xid (PCI:0018:01:00): 149, pid=876767, name=ray::WorkerDict, NETIR_LINK_EVT Nonfatal XC0 i0 Link 13 (0x0409a0c2)
[   64.2] NVRM: Xid (PCI:0018:01:00): 145, pid=1, name=X Nonfatal XC0 , RLW_SRC_TRACK Fatal XC0 i0 Link 00 (0x00000007 0x00000001)
[   64.3] NVRM: Xid (PCI:0000:07:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No
[   64.4] NVRM: Xid (PCI:0000:07:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a, Graphics Exception
[   65.0] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
[   66.0] NVRM: The NVIDIA GPU 0000:b3:00.0
               NVRM: (PCI ID: 10de:26b5) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[   67.0] usb 1-1: device has fallen off the bus
[   68.0] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
[   68.1] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 31 LTSSM Fault Up
[   68.2] nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 22013, Non-fatal, Link 14 Minion Link DLREQ interrupt
[   68.3] nvidia-nvswitch0: SXid (PCI:0000:85:00.0): Data {0x00000001}
"""


def test_the_kernel_log_is_counted_by_gpu_and_code_and_one_that_fell_off_is_79(probe: Any, bin_folder: Path) -> None:
    (bin_folder / "log").write_text(LOG)
    tool(bin_folder, "dmesg", f'while read -r line; do echo "$line"; done < {bin_folder}/log')
    found = probe.health.xids()
    assert (found["source"], found["complete"]) == ("dmesg", True)
    assert [(event["pci"], event["code"], event["nonfatal"], event["count"]) for event in found["events"]] == [
        ("", 79, False, 1),
        ("0000:03:00", 14, False, 1),
        ("0000:07:00", 13, False, 1),
        ("0000:07:00", 94, False, 1),
        ("0000:3b:00", 79, False, 1),
        ("0000:9b:00", 31, False, 2),
        ("0018:01:00", 145, False, 1),
        ("0018:01:00", 149, False, 1),
        ("0018:01:00", 149, True, 1),
    ]
    assert [(event["pci"], event["code"], event["nonfatal"], event["count"]) for event in found["switches"]] == [
        ("0000:85:00.0", 22013, True, 1),
        ("0000:c1:00.0", 20034, False, 2),
    ]
    assert found["switches"][1]["last"].endswith("Link 31 LTSSM Fault Up")


SWITCH = "[  999.1] nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error\n"


@pytest.mark.parametrize("said", ["exit 1", "echo '-- No entries --'", "echo 'Hint: You are currently not seeing messages' >&2"])
def test_a_log_that_may_not_be_read_is_no_empty_log(probe: Any, bin_folder: Path, said: str) -> None:
    tool(bin_folder, "journalctl", said)
    tool(bin_folder, "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    with pytest.raises(probe.run.Unknown, match="Operation not permitted"):
        probe.health.xids()


def test_a_log_of_many_megabytes_that_are_not_the_drivers_is_read_to_its_end(probe: Any, bin_folder: Path) -> None:
    noise = "[   70.0] veth0: entered promiscuous mode, and other words that nobody asks for\n" * 80_000
    (bin_folder / "log").write_text(LOG + noise + "[  999.0] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n" + SWITCH)
    tool(bin_folder, "journalctl", f"exec {shutil.which('cat', path='/usr/bin:/bin')} {bin_folder}/log")
    source, lines = probe.health.kernel_log()
    assert (source, len(lines)) == ("journalctl -k", 52)
    assert ("0000:9b:00", 79) in {(event["pci"], event["code"]) for event in probe.health.xids()["events"]}


def test_a_log_without_its_beginning_says_so(probe: Any, bin_folder: Path) -> None:
    tool(bin_folder, "dmesg", "echo '[99.9] eth0: link up'")
    assert probe.health.xids() == {"source": "dmesg", "complete": False, "events": [], "switches": [], "causes": []}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        # NVIDIA/open-gpu-kernel-modules, issue 789
        ("NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)", ["start"]),
        ("NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0", ["start"]),
        ("NVRM: installed in this system requires use of the NVIDIA open kernel modules.", ["flavour"]),
        # NVIDIA/gpu-operator, issue 492
        (
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)",
            ["address-space"],
        ),
        ("NVRM: The NVIDIA probe routine was not called for 1 device(s).", ["other-driver"]),
        ("NVRM: API mismatch: the client has the version 580.105.08, but", ["versions"]),
        ("NVRM: nvAssertOkFailedNoLog: Assertion failed: NV_ERR_RESET_REQUIRED", ["reset"]),
        ("NVRM: GPU 0: RmInitAdapter failed!\nNVRM: installed requires use of the NVIDIA open kernel modules.", ["flavour", "start"]),
        # NixOS/nixos-hardware, issue 1880; the text for a card without a GSP is of nv.c of open-gpu-kernel-modules
        (
            "NVRM: The NVIDIA GeForce GTX 1050 GPU installed in this\nNVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please",
            ["branch"],
        ),
        ("NVRM: installed in this system is not supported by the 370.28", ["branch"]),
        ("NVRM: installed in this system is not supported by open nvidia.ko because it does not include the required GPU", ["proprietary"]),
        # NVIDIA/open-gpu-kernel-modules, issue 263
        ("nvidia 0000:01:00.0: Direct firmware load for nvidia/515.43.04/gsp.bin failed with error -2", ["firmware"]),
        (
            "NVRM: RmFetchGspRmImages: No firmware image found\nNVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
            ["firmware", "start"],
        ),
        ("nouveau 57000000.gpu: Direct firmware load for nvidia/gk20a/fecs_inst.bin failed with error -2", []),
        ("nouveau: API mismatch", []),
    ],
)
def test_why_the_driver_did_not_start_a_card_is_kept_the_cause_before_what_follows(
    probe: Any, bin_folder: Path, text: str, kinds: list[str]
) -> None:
    (bin_folder / "log").write_text(f"Linux version 6.8.0\n{text}\n")
    tool(bin_folder, "dmesg", f'while read -r line; do echo "$line"; done < {bin_folder}/log')
    found = probe.health.xids()["causes"]
    assert [cause["kind"] for cause in found] == kinds
    assert all(cause["last"] in text for cause in found)


@pytest.mark.parametrize(
    ("version", "modules"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build", "open"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build", "proprietary"),
        (None, None),
    ],
)
def test_the_loaded_modules_say_which_kind_they_are(probe: Any, monkeypatch: Any, version: str | None, modules: str | None) -> None:
    monkeypatch.setattr(probe.health, "read", {"/proc/driver/nvidia/version": version}.get)
    assert probe.health.gsp()["modules"] == modules


def test_an_option_is_found_whatever_stands_before_it(probe: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "a.conf").write_text("options nvidia NVreg_EnableGpuFirmware=18 NVreg_EnableGpuFirmwareLogs=2\n")
    (tmp_path / "b.conf").write_text("options nvidia NVreg_RestrictProfilingToAdminUsers=0 NVreg_EnableGpuFirmware=0\n")
    monkeypatch.setattr(probe.counters.glob, "glob", lambda pattern: list(map(str, tmp_path.iterdir())) if "/etc" in pattern else [])
    assert probe.counters.option("NVreg_EnableGpuFirmware") == (str(tmp_path / "b.conf"), "0")
    assert probe.counters.option()[1] == "0"


def test_whether_the_gsp_runs_the_firmware_is_nvmls_first_answer(probe: Any, monkeypatch: Any) -> None:
    assert device(probe, monkeypatch, nvmlDeviceGetGspFirmwareMode=[0, 1])["gsp"] == {"value": 0}
    assert device(probe, monkeypatch)["gsp"] == {"unknown": "Not Supported"}

"""What the probe makes of answers that this machine cannot give: NVML's, a kernel log's, apt's, ffmpeg's."""

import ctypes
import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import provision.verify.observe as observing
from provision.verify.facts import Fact, Facts
from provision.verify.facts.gpu import ModulesFacts
from provision.verify.facts.health import XidsFacts
from provision.verify.facts.links import FabricFacts
from provision.verify.facts.stack import EncodersFacts
from provision.verify.facts.surroundings import InitramfsFacts, UpgradesFacts, VariablesFacts
from provision.verify.facts.system import ClockFacts

PROBE = Path(observing.__file__).parent / "probe"


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The probe's modules under the names that they have on a host."""
    names = tuple(name for name in observing.MODULES if name not in {"worker", "perf"})
    monkeypatch.syspath_prepend(str(PROBE))
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


class Nvml(ModuleType):
    """NVML as an H100 answers (driver 580.159.04), with some answers changed; a callable answers by its arguments."""

    def __init__(self, **answers: Any) -> None:
        super().__init__("pynvml")
        self.real = importlib.import_module("pynvml")
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetApplicationsClock": lambda _, kind: 2619 if kind == self.real.NVML_CLOCK_MEM else 1980,
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetCurrentClocksEventReasons": 1,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceValidateInforom": None,
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:00:06.0"),
            "nvmlSystemGetCudaDriverVersion_v2": 13000,
            "nvmlSystemGetDriverVersion": b"580.159.04",
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in {"nvmlInit", "nvmlShutdown"}:
            return (lambda: None) if name in {"nvmlInit", "nvmlShutdown"} else getattr(self.real, name)

        def call(*arguments: Any) -> Any:
            answer = self.answers.get(name, self.real.NVMLError(self.real.NVML_ERROR_NOT_SUPPORTED))
            answer = answer(*arguments) if callable(answer) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def device(probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> dict[str, Any]:
    """The readings of the one GPU."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(**answers))
    monkeypatch.setattr(probe.gpu, "need_gpu", lambda: None)
    found: dict[str, Any] = probe.gpu.nvml()["devices"][0]
    assert all(set(reading) in ({"value"}, {"unknown"}) for reading in found.values())
    return found


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
        nvmlDeviceGetGpuFabricInfoV=filled(real.c_nvmlGpuFabricInfoV_t, state=3, status=0),
        nvmlDeviceGetRetiredPages=lambda _, cause: [4096, 8192] if cause == 1 else [],
        nvmlDeviceGetNvLinkState=lambda _, link: 1 if link < 17 else 0 if link < 18 else real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT),
        nvmlDeviceValidateInforom=real.NVMLError(real.NVML_ERROR_CORRUPTED_INFOROM),
        nvmlDeviceGetCurrentClocksEventReasons=real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND),
        nvmlDeviceGetCurrentClocksThrottleReasons=0x48,
    )
    read = {name: found[name]["value"] for name in ("sram_threshold", "fabric_state", "fabric_status", "retired_single", "retired_double")}
    assert read == {"sram_threshold": 1, "fabric_state": 3, "fabric_status": 0, "retired_single": 0, "retired_double": 2}
    assert (found["links"]["value"], found["links_up"]["value"], found["inforom"]["value"]) == (18, 17, 0)
    assert found["event_reasons"] == {"value": 0x48}


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, with what a shell needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sed", "head"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def tool(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


LOG = """[    0.000000] Linux version 6.8.0
[    4.1] NVRM: loading NVIDIA UNIX Open Kernel Module
[   61.2] NVRM: Xid (PCI:0000:9b:00): 31, pid=4711, name=python, Ch 00000008, intr 00000000. MMU Fault
[   62.2] NVRM: Xid (PCI:0000:9b:00): 31, pid=4712, name=python, Ch 00000008
[   63.0] NVRM: Xid (0000:03:00): 14, Channel 00000001
[   64.0] NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 10 (0x004505c6 0x00000000)
[   65.0] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
[   66.0] NVRM: The NVIDIA GPU 0000:b3:00.0
               NVRM: (PCI ID: 10de:26b5) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[   67.0] usb 1-1: device has fallen off the bus
"""


def test_the_kernel_log_is_counted_by_gpu_and_code_and_one_that_fell_off_is_79(probe: Any, bin_folder: Path) -> None:
    (bin_folder / "log").write_text(LOG)
    tool(bin_folder, "dmesg", f'while read -r line; do echo "$line"; done < {bin_folder}/log')
    found = probe.health.xids()
    assert (found["source"], found["complete"]) == ("dmesg", True)
    assert [(event["pci"], event["code"], event["count"]) for event in found["events"]] == [
        ("", 79, 1),
        ("0000:03:00", 14, 1),
        ("0000:3b:00", 79, 1),
        ("0000:9b:00", 31, 2),
        ("0018:01:00", 149, 1),
    ]


@pytest.mark.parametrize("said", ["exit 1", "echo '-- No entries --'", "echo 'Hint: You are currently not seeing messages' >&2"])
def test_a_log_that_may_not_be_read_is_no_empty_log(probe: Any, bin_folder: Path, said: str) -> None:
    tool(bin_folder, "journalctl", said)
    tool(bin_folder, "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    with pytest.raises(probe.run.Unknown, match="Operation not permitted"):
        probe.health.xids()


def test_a_log_of_many_megabytes_that_are_not_the_drivers_is_read_to_its_end(probe: Any, bin_folder: Path) -> None:
    noise = "[   70.0] veth0: entered promiscuous mode, and other words that nobody asks for\n" * 80_000
    (bin_folder / "log").write_text(LOG + noise + "[  999.0] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n")
    tool(bin_folder, "journalctl", f"exec {shutil.which('cat', path='/usr/bin:/bin')} {bin_folder}/log")
    source, lines = probe.health.kernel_log()
    assert (source, len(lines)) == ("journalctl -k", 51)
    assert ("0000:9b:00", 79) in {(event["pci"], event["code"]) for event in probe.health.xids()["events"]}


def test_a_log_without_its_beginning_says_so(probe: Any, bin_folder: Path) -> None:
    tool(bin_folder, "dmesg", "echo '[99.9] eth0: link up'")
    assert probe.health.xids() == {"source": "dmesg", "complete": False, "events": []}


def test_apts_own_word_on_unattended_upgrades(probe: Any, bin_folder: Path) -> None:
    said = 'APT::Periodic::Unattended-Upgrade "1";\n'
    said += 'Unattended-Upgrade::Package-Blacklist "";\nUnattended-Upgrade::Package-Blacklist:: "nvidia-";'
    tool(bin_folder, "apt-config", f"echo '{said}'")
    assert probe.surroundings.upgrades()["unattended"] is False  # switched on, and the program is not installed
    tool(bin_folder, "unattended-upgrade", "exit 0")
    found = probe.surroundings.upgrades()
    assert (found["unattended"], found["excluded"]) == (True, ["nvidia-"])


@pytest.mark.parametrize(
    "kind",
    [XidsFacts, VariablesFacts, UpgradesFacts, ClockFacts, InitramfsFacts, ModulesFacts, EncodersFacts, FabricFacts],
    ids=lambda kind: kind.name,
)
def test_what_this_machine_says_holds_its_shape_or_is_unknown_with_a_reason(probe: Any, kind: type[Fact]) -> None:
    everything = {name: fact for module in vars(probe).values() for name, fact in getattr(module, "FACTS", {}).items()}
    raw = probe.run.gather({kind.name: everything[kind.name]}, 30)
    if "unknown" in raw[kind.name]:
        # Neither is a failure of the probe's own: no GPU here, or a log that this user may not read.
        assert re.search("no NVIDIA GPU|cannot be read", raw[kind.name]["unknown"])
    else:
        assert Facts("", 0.0, json.loads(json.dumps(raw))).read(kind)


def test_only_variables_that_matter_leave_the_host(probe: Any) -> None:
    lines = ["SECRET=x", "CUDA_VISIBLE_DEVICES=0", 'LD_PRELOAD="/a.so"', "CUDA_VISIBLE_DEVICES=", "no assignment"]
    assert probe.surroundings.relevant(lines) == {"CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "/a.so"}


def test_a_frame_is_encoded_only_where_a_gpu_is_and_is_large_enough(probe: Any, bin_folder: Path, monkeypatch: Any) -> None:
    tool(bin_folder, "ffmpeg", 'case "$*" in *-encoders*) echo " V....D h264_nvenc  NVIDIA";; *) echo "$*" >&2; exit 3;; esac')
    assert probe.stack.encoders() == {"nvenc": ["h264_nvenc"], "encode": None}
    monkeypatch.setattr(probe.stack.glob, "glob", lambda _: ["/dev/nvidia0"])
    encode = probe.stack.encoders()["encode"]
    assert encode["code"] == 3
    assert "s=256x256" in encode["said"]
    assert encode["said"].endswith("-f null -")


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

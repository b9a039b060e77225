"""More of the table of checks: health, links, skew and surroundings. Read by `test_checks.py`, which says what the columns are."""

from typing import Any

from . import good

NOT_SUPPORTED = {"unknown": "Not Supported"}

# What NVML answered on a real H100 80GB HBM3 under driver 580.159.04, passed through to a virtual machine, idle, on 2026-11-21.
H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3",
    "capability": "9.0",
    "pci": "00000000:00:06.0",
    "virtualization": 1,
    "ecc": 1,
    "ecc_pending": 1,
    "uncorrected": 0,
    "uncorrected_ever": 0,
    "sram_threshold": 0,
    "retired_single": NOT_SUPPORTED,
    "retired_double": NOT_SUPPORTED,
    "retired_pending": NOT_SUPPORTED,
    "remapped_correctable": 0,
    "remapped_uncorrectable": 0,
    "remapped_pending": 0,
    "remapped_failure": 0,
    "unrepairable": 0,
    "recovery_action": 0,
    "inforom": 1,
    "event_reasons": 1,
    "hw_thermal": 0,
    "hw_power_brake": 0,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_generation_gpu": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "links": NOT_SUPPORTED,
    "links_up": NOT_SUPPORTED,
    "fabric_state": 0,
    "fabric_status": 0,
}


def gpu(**readings: Any) -> dict[str, Any]:
    """Changed readings of the one GPU: a plain value was read, a dictionary is put in as it is."""
    return {f"nvml__devices__0__{name}": value if isinstance(value, dict) else {"value": value} for name, value in readings.items()}


def xid(code: int, pci: str = "0000:00:1e", count: int = 1) -> dict[str, Any]:
    """One complaint in the kernel log."""
    return {"xids__events": [{"pci": pci, "code": code, "count": count, "last": f"NVRM: Xid (PCI:{pci}): {code}, pid=7, what it said"}]}


def two(facts: dict[str, Any], first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two GPUs like the one of some facts, with these readings."""
    one = facts["nvml"]["devices"][0]
    said = [
        {name: value if isinstance(value, dict) else {"value": value} for name, value in changed.items()} for changed in (first, second)
    ]
    return {"nvml__devices": [{**one, **readings} for readings in said]}


def lost(reading: str) -> dict[str, Any]:
    """A GPU that does not answer this reading."""
    return {reading: {"unknown": "GPU is lost"}}


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any], str, str]]:
    """The rows."""
    ampere = gpu(
        capability="8.0",
        retired_pending=NOT_SUPPORTED,
        remapped_correctable=1,
        remapped_uncorrectable=2,
        remapped_pending=0,
        remapped_failure=0,
    )
    linked = {"links": 18, "links_up": 18}
    joined = gpu(fabric_state=3, fabric_status=0)
    manager = {"exists": True, "enabled": True, "active": True, "command": "/usr/bin/nv-fabricmanager"}
    switched = {**joined, "fabric": {"switches": 4, "manager": manager}}
    older = {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"}}
    hidden = {"pynvml": "11.5.3", "nvidia-ml-py": "12.560.30"}
    frameworks = good.GOOD["pytorch"]["found"]
    return [
        ("gpu-health", {}, {}, "pass", "ECC on, no uncorrected error"),
        ("gpu-health", gpu(**H100), {"gpu__model": "h100"}, "pass", "0 + 0 rows remapped"),
        ("throttling", gpu(**H100), {"gpu__model": "h100"}, "pass", "idle"),
        ("pcie", gpu(**H100), {"gpu__model": "h100"}, "pass", "generation 5 of 5, 16 of 16 lanes"),
        ("nvlink", gpu(**H100), {"gpu__model": "h100"}, "not-applicable", "no NVLink"),
        ("fabric", gpu(**H100), {"gpu__model": "h100"}, "not-applicable", "no NVSwitch"),
        ("gpu-health", ampere, {}, "pass", "2 + 1 rows remapped"),
        ("gpu-health", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
        ("gpu-health", {"nvml__devices": []}, {}, "unknown", "no device"),
        ("gpu-health", gpu(uncorrected={"unknown": "not read"}), {}, "unknown", "not read"),
        ("gpu-health", gpu(uncorrected="many"), {}, "unknown", "no count"),
        ("gpu-health", gpu(uncorrected=-1), {}, "unknown", "no count"),
        ("gpu-health", gpu(capability="seven"), {}, "unknown", "malformed"),
        ("gpu-health", gpu(uncorrected=3), {}, "fail", "GPU 0: 3 uncorrected"),
        ("gpu-health", gpu(uncorrected_ever=3), {}, "warn", "in its life"),
        ("gpu-health", gpu(ecc=0, ecc_pending=0), {}, "warn", "ECC is off"),
        ("gpu-health", gpu(ecc=0), {}, "warn", "will be on after a reboot"),
        ("gpu-health", gpu(ecc=NOT_SUPPORTED), {}, "pass", "no ECC"),
        ("gpu-health", gpu(ecc={"unknown": "Unknown Error"}), {}, "unknown", "Unknown Error"),
        ("gpu-health", gpu(retired_pending=1), {}, "fail", "waits for a reboot"),
        ("gpu-health", gpu(retired_double=63), {}, "fail", "0 + 63 pages"),
        ("gpu-health", gpu(retired_single=9, retired_double=1), {}, "warn", "9 + 1 pages"),
        ("gpu-health", gpu(retired_single=5, retired_double=4), {}, "pass", "5 + 4 pages"),
        ("gpu-health", {**ampere, **gpu(remapped_failure=1)}, {}, "fail", "could not be remapped"),
        ("gpu-health", {**ampere, **gpu(remapped_pending=1)}, {}, "fail", "waits for a reset"),
        ("gpu-health", {**ampere, **gpu(remapped_uncorrectable=512)}, {}, "fail", "512 rows"),
        ("gpu-health", {**ampere, **gpu(remapped_failure={"unknown": "Timeout"})}, {}, "unknown", "Timeout"),
        ("gpu-health", gpu(recovery_action=1), {}, "fail", "a reset of the GPU"),
        ("gpu-health", gpu(recovery_action=2), {}, "fail", "a reboot"),
        ("gpu-health", gpu(recovery_action=NOT_SUPPORTED), {}, "pass", "not told"),
        ("gpu-health", gpu(recovery_action={"unknown": "GPU is lost"}), {}, "unknown", "GPU is lost"),
        ("gpu-health", gpu(inforom=0), {}, "fail", "infoROM is corrupt"),
        ("gpu-health", gpu(sram_threshold=1), {}, "fail", "SRAM"),
        ("gpu-health", gpu(unrepairable=1), {}, "fail", "cannot be repaired"),
        ("gpu-health", two(good.GOOD, lost("uncorrected"), {"uncorrected": 2}), {}, "fail", "GPU 1: 2 uncorrected"),
        ("gpu-health", two(good.GOOD, lost("uncorrected"), {}), {}, "unknown", "GPU 0: GPU is lost"),
        ("throttling", two(good.GOOD, lost("event_reasons"), {"event_reasons": 0x40}), {}, "fail", "GPU 1: hardware thermal"),
        ("pcie", two(good.GOOD, lost("pcie_width"), {"pcie_width": 1}), {}, "fail", "GPU 1: generation 1 of 3, 1 of 8"),
        ("xid", {}, {}, "pass", "journalctl -k: none"),
        ("xid", xid(79), {}, "fail", "XID 79 on GPU 0 (0000:00:1e)"),
        ("xid", xid(79, pci=""), {}, "fail", "XID 79 on a GPU"),
        ("xid", xid(48, count=4), {}, "fail", "4 times"),
        ("xid", xid(999), {}, "fail", "XID 999"),
        ("xid", xid(31), {}, "warn", "XID 31"),
        ("xid", xid(92), {}, "warn", "XID 92"),
        ("xid", xid(63), {}, "pass", "XID 63"),
        ("xid", {"xids__complete": False}, {}, "unknown", "beginning is lost"),
        ("xid", {"xids__complete": False, **xid(119)}, {}, "fail", "XID 119"),
        ("xid", {"xids": {"unknown": "the kernel log cannot be read (dmesg: Operation not permitted)"}}, {}, "unknown", "cannot be read"),
        ("xid", {**xid(74), "nvml": {"unknown": "GPU is lost"}}, {}, "fail", "XID 74 on 0000:00:1e"),
        ("xid", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
        ("throttling", {}, {}, "pass", "idle"),
        ("throttling", gpu(event_reasons=0x4), {}, "pass", "power cap"),
        ("throttling", gpu(event_reasons=0), {}, "pass", "nothing"),
        ("throttling", gpu(event_reasons=0x8), {}, "fail", "hardware slowdown"),
        ("throttling", gpu(event_reasons=0x48), {}, "fail", "hardware thermal slowdown"),
        ("throttling", gpu(event_reasons=0x80), {}, "fail", "power brake"),
        ("throttling", gpu(event_reasons=0x20), {}, "warn", "software thermal slowdown"),
        ("throttling", gpu(hw_thermal=12), {}, "warn", "too hot before"),
        ("throttling", gpu(hw_thermal=NOT_SUPPORTED, hw_power_brake=NOT_SUPPORTED), {}, "pass", "idle"),
        ("throttling", gpu(event_reasons=NOT_SUPPORTED), {}, "not-applicable", "does not tell"),
        ("throttling", gpu(event_reasons={"unknown": "not read"}), {}, "unknown", "not read"),
        ("device-nodes", {}, {}, "pass", "open to all"),
        ("device-nodes", {"gpu__modes": None}, {}, "unknown", "no modes"),
        ("device-nodes", {"gpu__nouveau": True}, {}, "fail", "nouveau"),
        ("device-nodes", {"gpu__nodes": []}, {}, "fail", "0 nodes for the 1 GPUs"),
        ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o666}}, {}, "fail", "missing: /dev/nvidiactl"),
        ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o660, "/dev/nvidiactl": 0o666}}, {}, "fail", "/dev/nvidia0 0660"),
        ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o666, "/dev/nvidiactl": 0o666}}, {}, "warn", "no /dev/nvidia-uvm"),
        ("device-nodes", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
        ("pcie", {}, {}, "pass", "generation 1 of 3, 8 of 8 lanes"),
        ("pcie", gpu(virtualization=0), {}, "pass", ""),
        ("pcie", gpu(pcie_generation_max=2), {}, "fail", "of 2"),
        ("pcie", gpu(pcie_width=4), {}, "fail", "4 of 8 lanes"),
        ("pcie", gpu(pcie_width_max=16), {}, "warn", "8 of 16 lanes"),
        ("pcie", {}, {"gpu__model": "v100"}, "fail", "8 of 8 lanes"),
        ("pcie", gpu(pcie_width=NOT_SUPPORTED), {}, "unknown", "Not Supported"),
        ("nvlink", {}, {}, "not-applicable", "no NVLink"),
        ("nvlink", gpu(**linked), {}, "not-applicable", "one GPU"),
        ("nvlink", two(good.GOOD, linked, linked), {}, "pass", "GPU 1: 18 of 18"),
        ("nvlink", two(good.GOOD, linked, {"links": 18, "links_up": 17}), {}, "fail", "GPU 1: 17 of 18"),
        ("nvlink", two(good.GOOD, {"links": 18, "links_up": 0}, {"links": 18, "links_up": 0}), {}, "fail", "0 of 18"),
        ("nvlink", two(good.GOOD, linked, {"links": "x", "links_up": 0}), {}, "unknown", "no count"),
        ("fabric", {}, {}, "not-applicable", "no NVSwitch"),
        ("fabric", switched, {}, "pass", "GPU 0: joined"),
        ("fabric", joined, {}, "pass", "0 switches"),
        ("fabric", {**switched, **gpu(fabric_state=2)}, {}, "fail", "in progress"),
        ("fabric", {**switched, **gpu(fabric_status=999)}, {}, "fail", "refused with status 999"),
        ("fabric", {**switched, "fabric__manager": {**manager, "active": False}}, {}, "fail", "not active"),
        ("fabric", {**switched, "fabric__manager": {**manager, "enabled": False}}, {}, "warn", "not enabled at boot"),
        ("fabric", {**switched, "fabric__manager": None}, {}, "unknown", "not seen"),
        ("fabric", {"fabric": None}, {}, "unknown", "no fact"),
        ("skew", {}, {}, "pass", "driver 580.95.05, CUDA 13.0, cuDNN 9.19.0, PyTorch 2.13.0"),
        ("skew", {"driver__loaded": "535.230.02"}, {}, "fail", "CUDA 13 needs driver 580 or later, not 535"),
        ("skew", {"driver__loaded": "999.1"}, {}, "unknown", "driver 999.1 is not in the catalogue"),
        ("skew", {"driver__loaded": None, "driver__installed": None}, {}, "unknown", "no driver"),
        ("skew", {"driver__loaded": "595.10"}, {"gpu__model": "v100"}, "fail", "driver 595 drives compute capability 7.5"),
        ("skew", {"nvcc__found__version": "12.6", "driver__loaded": "550.90.07", "pytorch__found": None}, {}, "warn", "came with driver"),
        ("skew", {"cudnn__library": 8907}, {}, "fail", "cuDNN 8.9.7.29 is built for CUDA 12, not 13"),
        ("skew", {"cudnn__library": 91400}, {}, "unknown", "the catalogue does not say of this version"),
        ("skew", {"cudnn__library": 99900}, {}, "pass", "cuDNN 9.99.0"),
        ("skew", {"pytorch__found": {**frameworks, "version": "2.11.0"}}, {"gpu__model": "v100"}, "fail", "V100"),
        ("skew", {"pytorch__found": {**frameworks, "version": "2.13.0+cu130"}}, {}, "pass", "PyTorch 2.13.0+cu130"),
        ("skew", {"pytorch__found": {**frameworks, "version": "2.13.0+rocm", "cuda": None}}, {}, "unknown", "not in the catalogue"),
        ("skew", {"pytorch": None}, {}, "unknown", "no fact"),
        ("skew", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
        ("environment", {}, {}, "pass", "none is set"),
        ("environment", {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs:/x"}}, {}, "fail", "stubs"),
        (
            "environment",
            {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"}},
            {},
            "fail",
            "CUDA 12.4, and the toolkit is 13.0",
        ),
        ("environment", {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda-13.0/lib64:/usr/local/cuda-13/lib64"}}, {}, "pass", ""),
        (
            "environment",
            {**older, "nvcc": {"unknown": "broken"}},
            {},
            "unknown",
            "broken",
        ),
        ("environment", {"variables__system": {"CUDA_VISIBLE_DEVICES": ""}}, {}, "fail", "programs see 0 of 1 GPUs"),
        ("environment", {"variables__system": {"CUDA_VISIBLE_DEVICES": "-1"}}, {}, "fail", "programs see 0 of 1 GPUs"),
        ("environment", {"variables__system": {"CUDA_VISIBLE_DEVICES": "0"}}, {}, "warn", "stay hidden"),
        ("environment", {"variables__service": {"NVIDIA_TF32_OVERRIDE": "0"}}, {}, "warn", "services"),
        ("environment", {"variables__ssh": {"CUDA_LAUNCH_BLOCKING": "1"}}, {}, "warn", "SSH commands"),
        ("environment", {"variables__ssh": {"CUDA_LAUNCH_BLOCKING": "0"}}, {}, "pass", ""),
        ("environment", {"variables__login": {"LD_PRELOAD": "/x.so", "XLA_FLAGS": "--y"}}, {}, "warn", "LD_PRELOAD=/x.so"),
        ("environment", {"variables__ssh": None}, {}, "pass", ""),
        ("environment", {"variables__login": None}, {}, "unknown", "login shells"),
        ("environment", {"variables": None}, {}, "unknown", "no fact"),
        ("pynvml", {}, {}, "pass", "no pynvml package in pytorch"),
        (
            "pynvml",
            {"extras__environments": {"jax": hidden}},
            {},
            "fail",
            "pynvml 11.5.3 in jax",
        ),
        ("pynvml", {"extras__environments": {"jax": {"pynvml": "13.0.1"}}}, {}, "warn", "deprecated"),
        ("pynvml", {"extras__environments": {"jax": {"pynvml": "x"}}}, {}, "unknown", "malformed"),
        ("pynvml", {"extras__environments": {}}, {}, "not-applicable", "no Python environment"),
        ("pynvml", {"extras": None}, {}, "unknown", "no fact"),
        ("initramfs", {}, {}, "pass", "newer"),
        ("initramfs", {"initramfs__image__changed": 1.0}, {}, "warn", "older"),
        ("initramfs", {"initramfs__image": None}, {}, "unknown", "no initramfs"),
        ("initramfs", {"initramfs__option": None}, {}, "not-applicable", "no file"),
        ("initramfs", {"initramfs": None}, {}, "unknown", "no fact"),
        ("every-kernel", {}, {}, "pass", "6.8.0-1030-aws has it"),
        ("every-kernel", {"modules__installed__0__built": False}, {}, "fail", "has NOT"),
        ("every-kernel", {"modules__installed": []}, {}, "not-applicable", "no kernel is installed"),
        ("every-kernel", {"modules__installed": None}, {}, "unknown", "no installed kernels"),
        ("upgrades", {}, {}, "pass", "held or left out"),
        ("upgrades", {"modules__held": []}, {}, "warn", "nvidia-dkms-open"),
        ("upgrades", {"modules__held": [], "upgrades__excluded": ["nvidia-"]}, {}, "pass", "held or left out"),
        ("upgrades", {"modules__held": ["nvidia-dkms-open-3:580.95.05-1.el9.*"]}, {}, "pass", "held or left out"),
        ("upgrades", {"modules__held": ["nvidia-dkms-open-580"]}, {}, "warn", "nvidia-dkms-open"),
        ("upgrades", {"modules__held": [], "upgrades__excluded": ["("]}, {}, "warn", "nvidia-dkms-open"),
        ("upgrades", {"upgrades__unattended": False}, {}, "pass", "not installed unattended"),
        ("upgrades", {"upgrades__packages": ["nvidia-container-toolkit"]}, {}, "not-applicable", "no package"),
        ("upgrades", {"upgrades": None}, {}, "unknown", "no fact"),
    ]

"""What the checks of surroundings say to which facts: a case for each outcome that each can have."""

from .table import Case, table

OLDER = {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"}}
HIDDEN = {"pynvml": "11.5.3", "nvidia-ml-py": "12.560.30"}
CASES: list[Case] = [
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
        {**OLDER, "nvcc": {"unknown": "broken"}},
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
        {"extras__environments": {"jax": HIDDEN}},
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

test_table = table(CASES)

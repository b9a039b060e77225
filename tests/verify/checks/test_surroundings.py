"""What the checks of surroundings say to which facts: a case for each outcome that each can have."""

from typing import Any

from .table import Case, Text, table, texts

OLDER = {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"}}
HIDDEN = {"pynvml": "11.5.3", "nvidia-ml-py": "12.560.30"}
KERNELS = [{"kernel": "6.8.0-1", "built": True}, {"kernel": "6.8.0-2", "built": False}]
SWITCHES = ("CUDA_LAUNCH_BLOCKING", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_PROFILE")
TRACERS = (
    *("CUDA_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "CUDA_AUTO_BOOST", "CUDA_COREDUMP_FILE"),
    *("COMPUTE_PROFILE", "OPENCL_PROFILE", "NSIGHT_CUDA_DEBUGGER", "LD_PRELOAD", "XLA_FLAGS"),
)
NVML = "NVML's Python module comes from nvidia-ml-py, in every environment"
INITRAMFS = "an initramfs that is newer than the option on the performance counters"
NEWEST_HAS_IT: dict[str, Any] = {
    "modules__installed": [{"kernel": "6.8.0-9-gcp", "built": False}, {"kernel": "6.8.0-10-gcp", "built": True}]
}
NEWEST_HAS_NOT: dict[str, Any] = {
    "modules__installed": [{"kernel": "6.8.0-9-gcp", "built": True}, {"kernel": "6.8.0-10-gcp", "built": False}]
}


def holding(files: list[str] | None, *, own: bool = False) -> dict[str, Any]:
    """LD_LIBRARY_PATH of a login shell with one folder, and what is in it."""
    there = {"place": "/opt/x", "own": own, "files": files}
    return {"variables__login": {"LD_LIBRARY_PATH": "/opt/x"}, "variables__libraries": {"/opt/x": there}}


CASES: list[Case] = [
    ("environment", {}, {}, "pass", "=none is set"),
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
    ("environment", {"variables__by_files": ["login", "service"]}, {}, "pass", "of login shells and services only the files were seen"),
    ("environment", {"variables__unread": ["/etc/environment"]}, {}, "unknown", "could not be seen: /etc/environment"),
    (
        "environment",
        {"variables__files": {"/etc/security/pam_env.conf": {"CUDA_VISIBLE_DEVICES": ""}}, "variables__unread": ["/etc/profile"]},
        {},
        "fail",
        "CUDA_VISIBLE_DEVICES= in /etc/security/pam_env.conf: programs see 0 of 1 GPUs",
    ),
    ("pynvml", {}, {}, "pass", "no package pynvml in the environments: pytorch"),
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
    ("every-kernel", NEWEST_HAS_IT, {}, "fail", "6.8.0-9-gcp has NOT, 6.8.0-10-gcp has it"),
    # A module of another version than user space is none that a boot could use.
    ("every-kernel", {"modules__installed__0__version": "580.82.07"}, {}, "fail", "=6.8.0-1030-aws has 580.82.07, NOT 580.95.05"),
    ("every-kernel", {"modules__installed__0__version": "580.95.05"}, {}, "pass", "=6.8.0-1030-aws has it"),
    ("every-kernel", {"modules__installed__0__version": "580.1", "nvml": None, "fabric_on_disk": None}, {}, "pass", "has it"),
    ("every-kernel", NEWEST_HAS_IT, {"stack__driver_build": "signed"}, "warn", "6.8.0-9-gcp has NOT, 6.8.0-10-gcp has it"),
    ("every-kernel", NEWEST_HAS_NOT, {"stack__driver_build": "signed"}, "fail", "6.8.0-9-gcp has it, 6.8.0-10-gcp has NOT"),
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
    # What is in the folders counts, not how they are called (pytorch/pytorch, issue 80637; gpustack, issue 1540).
    ("environment", {"variables__login": {"LD_LIBRARY_PATH": "/opt/x:/usr/local/lib"}}, {}, "warn", "what is in /opt/x was not seen"),
    ("environment", {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda/compat"}}, {}, "warn", "what is in /usr/local/cuda/compat"),
    (
        "environment",
        {"variables__login": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}},
        {},
        "pass",
        "=what LD_LIBRARY_PATH names changes nothing",
    ),
    ("environment", holding([]), {}, "pass", "=what LD_LIBRARY_PATH names changes nothing"),
    ("environment", holding(None), {}, "warn", "what is in /opt/x was not seen"),
    ("environment", holding(["libcudnn.so.8.0.3"]), {}, "warn", "libcudnn.so.8.0.3 in /opt/x come before those"),
    ("environment", holding(["libcudnn.so.8.0.3"]), {}, "warn", "; PyTorch was tried without it"),
    (
        "environment",
        {"variables__ssh": {"LD_LIBRARY_PATH": "/x"}},
        {},
        "warn",
        "=LD_LIBRARY_PATH=/x in SSH commands: what is in /x was not seen, and comes before the libraries that programs were built with",
    ),
    ("environment", holding(["libcudnn.so.8.0.3"], own=True), {}, "pass", ""),
    ("environment", holding(["libcuda.so.550.54.15"]), {}, "fail", "/opt/x has libcuda.so.550.54.15, and the loaded driver is 580.95.05"),
    ("environment", holding(["libnvidia-ml.so.550.54"], own=True), {}, "fail", "/opt/x has libnvidia-ml.so.550.54, and the loaded"),
    ("environment", holding(["libcuda.so.580.95.05"], own=True), {}, "pass", ""),
    (
        "environment",
        {**holding(["libcuda.so.580.95.05"]), "driver": {"unknown": "no NVIDIA GPU on this host"}},
        {},
        "unknown",
        "no NVIDIA GPU",
    ),
    ("environment", {"variables__login": {"LD_LIBRARY_PATH": "/opt/x::/usr/local/cuda-12.4/lib64"}}, {}, "fail", "it names CUDA 12.4"),
    ("environment", {**OLDER, "nvcc__found": None}, {}, "fail", "it names CUDA 12.4, and no toolkit is installed"),
    ("environment", {"variables__login": {"LD_PRELOAD": ""}}, {}, "pass", "none is set"),
    (
        "environment",
        {"variables__login": {"NVIDIA_TF32_OVERRIDE": "0"}},
        {},
        "warn",
        "=NVIDIA_TF32_OVERRIDE=0 in login shells: the precision of frameworks is overridden",
    ),
    ("environment", {"variables__system": {"CUDA_VISIBLE_DEVICES": "0,-1,1"}}, {"gpu__count": 2}, "fail", "programs see 1 of 2 GPUs"),
    ("environment", {"variables__system": {"CUDA_VISIBLE_DEVICES": "0,1"}}, {"gpu__count": 2}, "warn", "stay hidden"),
    ("environment", {"variables__system": {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}}, {}, "fail", "programs see 0 of 1 GPUs"),
    *[("environment", {"variables__ssh": {name: "0"}}, {}, "pass", "none is set") for name in SWITCHES],
    *[("environment", {"variables__ssh": {name: "1"}}, {}, "warn", f"{name}=1 in SSH commands") for name in (*SWITCHES, *TRACERS)],
    *[("environment", {"variables__ssh": {name: "0"}}, {}, "warn", f"{name}=0 in SSH commands") for name in TRACERS],
    ("environment", {"variables__service": None, "variables__login": None}, {}, "unknown", "=could not be seen: login shells, services"),
    ("pynvml", {"extras__environments": {"jax": {"pynvml": "12.0.0"}}}, {}, "warn", "pynvml 12.0.0 in jax"),
    ("pynvml", {"extras__environments": {"jax": {"pynvml": "11.9"}}}, {}, "fail", "its folder hides the module"),
    (
        "pynvml",
        {"extras__environments": {"a": {"pynvml": "13.0"}, "b": {"pynvml": "11.5"}}},
        {},
        "fail",
        "pynvml 13.0 in a, pynvml 11.5 in b",
    ),
    ("initramfs", {"initramfs__image__changed": 1763700000.0}, {}, "pass", "is newer than"),
    ("every-kernel", {"modules__installed": KERNELS}, {}, "fail", "=6.8.0-1 has it, 6.8.0-2 has NOT"),
    (
        "upgrades",
        {"modules__held": [], "upgrades__excluded": ["*dkms*"]},
        {},
        "pass",
        "all packages of the driver (1) are held or left out",
    ),
    ("upgrades", {"modules__held": [], "upgrades__excluded": ["(", "nvidia-"]}, {}, "pass", "held or left out"),
    ("upgrades", {"modules__held": [], "upgrades__excluded": ["dkms"]}, {}, "warn", "nvidia-dkms-open"),
    ("upgrades", {"upgrades__packages": list("abcde")}, {}, "warn", "=unattended upgrades would take a, b, c, d, e"),
    ("upgrades", {"upgrades__packages": list("abcdef")}, {}, "warn", "=unattended upgrades would take a, b, c, d, e and 1 more"),
    ("upgrades", {"upgrades__packages": list("abcdefg")}, {}, "warn", "=unattended upgrades would take a, b, c, d, e and 2 more"),
    ("upgrades", {"upgrades__packages": ["nvidia-dkms-open", "x"]}, {}, "warn", "=unattended upgrades would take x"),
]
TEXTS: list[Text] = [
    (
        "environment",
        {"variables__login": {"LD_PRELOAD": "x"}},
        {},
        "no variable that changes what CUDA does to every program",
        "set it where",
    ),
    ("environment", OLDER, {}, "no variable that changes what CUDA does to every program", "remove it from /etc/environment"),
    (
        "environment",
        {"variables__login": None},
        {},
        "no variable that changes what CUDA does to every program",
        "as root, on a host with bash",
    ),
    ("pynvml", {"extras__environments": {"jax": HIDDEN}}, {}, NVML, "uninstall pynvml there"),
    ("initramfs", {"initramfs__image__changed": 1.0}, {}, INITRAMFS, "rebuild it"),
    ("initramfs", {"initramfs__image": None}, {}, INITRAMFS, "see how this host boots"),
    ("every-kernel", {"modules__installed": KERNELS}, {}, "the driver's module for every kernel that can be booted", "install its headers"),
    ("upgrades", {"modules__held": []}, {}, "no unattended upgrade of the driver", "apt-mark hold"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)

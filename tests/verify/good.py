"""Facts of a host on which the T4 profile holds in every respect: the base that cases change. Made by hand, in the probe's own form."""

import copy
from pathlib import Path
from typing import Any

from provision import paths
from provision.profile import load
from provision.profile.model import Profile
from provision.verify.facts import Facts, parse
from provision.verify.finding import Finding
from provision.verify.judge import Selection, judge

PROFILE = load.load(paths.profiles_dir() / "t4-train.yml")

# A host without a GPU, and where facts of real hosts lie.
NO_GPU: dict[str, Any] = {"pci": [], "nodes": [], "readable": True, "module": False, "nouveau": False}
RECORDED = Path(__file__).parents[1] / "data" / "facts"
NOT_SUPPORTED = {"unknown": "Not Supported"}
GOOD: dict[str, Any] = {
    "os": {"id": "ubuntu", "version_id": "24.04", "pretty": "Ubuntu 24.04.3 LTS", "stand_in": False},
    "kernel": {"release": "6.8.0-1030-aws", "machine": "x86_64"},
    "identity": {"user": "ubuntu", "uid": 1000, "boot_id": "b", "over_ssh": True},
    "machine": {
        "hostname": "ip-10-0-0-11",
        "cpus": 4,
        "memory_mib": 15800,
        "address": "10.0.0.11",
        "interface": "ens5",
        "mtu": 9001,
        "rdma": [],
    },
    "rdma": {"ports": [], "peermem": None},
    "python3": {"version": "3.12.3", "path": "/usr/bin/python3"},
    **{
        f"tool_{name}": {"found": {"path": f"/usr/bin/{name}", "version": version}}
        for name, version in {"gcc": "13.3.0", "make": "4.3", "cmake": "3.28.3", "git": "2.43.0", "tmux": "3.4", "ffmpeg": "6.1.1"}.items()
    },
    "users": ["ubuntu"],
    "file_systems": [
        {
            "source": "/dev/root",
            "target": "/",
            "type": "ext4",
            "size_bytes": 200 * 10**9,
            "free_bytes": 150 * 10**9,
            "owner": "root",
            "mode": 0o755,
            "writable": False,
            "at_boot": True,
        },
        {
            "source": "/dev/nvme1n1",
            "target": "/data",
            "type": "ext4",
            "size_bytes": 122 * 10**9,
            "free_bytes": 115 * 10**9,
            "owner": "ubuntu",
            "mode": 0o755,
            "writable": True,
            "at_boot": True,
        },
    ],
    "root_disk": {
        "source": "/dev/root",
        "type": "ext4",
        "partition": {
            "disk_bytes": 214748364800,
            "size_bytes": 213674622976,
            "behind_bytes": 1048064,
            "file_system_bytes": 206900000000,
        },
    },
    "sessions": {
        "login": "/usr/local/cuda/bin:/usr/bin",
        "ssh": "/usr/local/cuda/bin:/usr/bin",
        "service": "/usr/local/cuda/bin:/usr/bin",
        "sudo": {"exists": True, "path": "/usr/sbin:/usr/bin:/usr/local/cuda/bin"},
        "loader": ["/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"],
    },
    "gpu": {
        "pci": ["0000:00:1e.0"],
        "nodes": ["/dev/nvidia0"],
        "readable": True,
        "module": True,
        "nouveau": False,
        "modes": {"/dev/nvidia0": 0o666, "/dev/nvidiactl": 0o666, "/dev/nvidia-uvm": 0o666, "/dev/nvidia-modeset": 0o666},
    },
    "nvml": {
        "driver": {"value": "580.95.05"},
        "cuda": {"value": "13.0"},
        "devices": [
            {
                "name": {"value": "Tesla T4"},
                "uuid": {"value": "GPU-b36054ef-4009-8fab-1448-b522020ac506"},
                "memory_mib": {"value": 15360},
                "capability": {"value": "7.5"},
                "persistence": {"value": 1},
                "compute_mode": {"value": 0},
                "app_memory_mhz": {"value": 5001},
                "app_graphics_mhz": {"value": 1590},
                "memory_mhz": {"value": 5001},
                "sm_mhz": {"value": 300},
                "max_memory_mhz": {"value": 5001},
                "max_graphics_mhz": {"value": 1590},
                "pci": {"value": "00000000:00:1e.0"},
                "virtualization": {"value": 1},
                "ecc": {"value": 1},
                "ecc_pending": {"value": 1},
                "uncorrected": {"value": 0},
                "uncorrected_ever": {"value": 0},
                "sram_threshold": NOT_SUPPORTED,
                "retired_single": {"value": 0},
                "retired_double": {"value": 0},
                "retired_pending": {"value": 0},
                "remapped_correctable": NOT_SUPPORTED,
                "remapped_uncorrectable": NOT_SUPPORTED,
                "remapped_pending": NOT_SUPPORTED,
                "remapped_failure": NOT_SUPPORTED,
                "unrepairable": NOT_SUPPORTED,
                "recovery_action": {"value": 0},
                "inforom": {"value": 1},
                "gsp": {"value": 1},
                "event_reasons": {"value": 1},
                "hw_thermal": {"value": 0},
                "hw_power_brake": {"value": 0},
                "pcie_generation": {"value": 1},
                "pcie_generation_max": {"value": 3},
                "pcie_generation_gpu": {"value": 3},
                "pcie_width": {"value": 8},
                "pcie_width_max": {"value": 8},
                "links": NOT_SUPPORTED,
                "links_up": NOT_SUPPORTED,
                "mig": NOT_SUPPORTED,
                "mig_pending": NOT_SUPPORTED,
                "mig_slices": NOT_SUPPORTED,
                "fabric_state": NOT_SUPPORTED,
                "fabric_status": NOT_SUPPORTED,
            }
        ],
    },
    "driver": {"loaded": "580.95.05", "installed": "580.95.05", "nvidia_smi": "580.95.05", "nvidia_smi_said": ""},
    "modules": {
        "kernels": [{"kernel": "6.8.0-1030-aws", "built": True}],
        "installed": [{"kernel": "6.8.0-1030-aws", "built": True}],
        "held": ["nvidia-dkms-open"],
    },
    "secure_boot": {"firmware": "uefi", "on": False, "setup_mode": True, "lockdown": "none"},
    "module_signature": {"loaded": True, "signer": None, "same": True, "taint": "OE", "in_keyring": None, "dkms": ["nvidia"]},
    "counters": {"on_disk": "0", "live": "0", "as_user": {"outcome": "open", "user": "ubuntu", "said": ""}},
    "persistence_unit": {"exists": True, "enabled": True, "active": True, "command": "/usr/bin/nvidia-persistenced --persistence-mode"},
    "mig_unit": {"exists": False, "enabled": False, "active": False, "command": ""},
    "mig_report": {"lines": None},
    "clocks_unit": {"exists": True, "enabled": True, "active": True, "command": "/usr/bin/nvidia-smi -ac 5001,1590"},
    "clocks_report": {"lines": ["0 application 5001 1590"]},
    "nvcc": {"found": {"path": "/usr/local/cuda/bin/nvcc", "version": "13.0", "link": "/usr/local/cuda-13.0"}},
    "nvcc_runs": {
        "step": "run",
        "code": 0,
        "said": "",
        "lists": ["sm_75", "sm_80", "sm_90"],
        "gpus": ["sm_75"],
        "built": ["sm_75"],
        "as_root": False,
        "devices": [{"capability": "sm_75", "code": "sm_75", "sum": 2147450880, "error": ""}],
    },
    "containers": {
        "engines": {"docker": None, "podman": "4.9.3"},
        "toolkit": "1.20.1",
        "refresh": {
            name: {"exists": True, "enabled": True, "active": True, "command": ""}
            for name in ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")
        },
        "devices": ["nvidia.com/gpu=0", "nvidia.com/gpu=all"],
        "docker": None,
    },
    "container_run": {
        "engine": "podman",
        "code": 0,
        "said": "",
        "way": "cdi",
        "own_pids": True,
        "program": {"uid": 0, "library": "libcuda.so.1", "error": "", "devices": [{"sum": 2147450880}]},
        "counters": {"outcome": "open", "said": ""},
    },
    "cutlass": {
        "found": {
            "release": "4.2.0",
            "step": "run",
            "code": 0,
            "said": "",
            "lists": ["sm_75", "sm_80", "sm_90"],
            "gpus": ["sm_75"],
            "built": ["sm_75"],
            "as_root": False,
            "devices": [{"capability": "sm_75", "code": "sm_75", "sums": 32768, "wrong": 0, "error": ""}],
        }
    },
    "opencl": {
        "named": {"/etc/OpenCL/vendors/nvidia.icd": "libnvidia-opencl.so.1"},
        "libraries": ["/usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1"],
        "code": 0,
        "said": "",
        "run": {
            "loader": True,
            "platforms": ["NVIDIA CUDA"],
            "devices": [{"name": "Tesla T4", "sums": 4096, "wrong": 0, "error": ""}],
            "error": "",
        },
    },
    "cudnn": {"header": "9.19.0", "library": 91900},
    "cupti": {"files": ["/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"], "cached": ["/x/libcupti.so.13"], "version": 130001},
    "profilers": {"nsys": "2025.6.3", "ncu": "2026.1.1"},
    "encoders": {"nvenc": ["h264_nvenc"], "encode": {"code": 0, "said": ""}},
    "xids": {"source": "journalctl -k", "complete": True, "events": []},
    "fabric": {"switches": 0, "manager": {"exists": False, "enabled": False, "active": False, "command": ""}, "cuda_init": None},
    "fabric_on_disk": {
        "packages": {"libnvidia-compute-580": "580.95.05", "nvidia-dkms-580-open": "580.95.05"},
        "module": "580.95.05",
        "unit": {"exists": False, "enabled": False, "active": False, "command": ""},
    },
    "gsp": {"modules": "open", "on_disk": None},
    "variables": {"login": {}, "ssh": {}, "service": {}, "system": {}},
    "initramfs": {
        "option": {"path": "/etc/modprobe.d/gpuprov-counters.conf", "changed": 1763700000.0},
        "image": {"path": "/boot/initrd.img-6.8.0-1030-aws", "changed": 1763700009.5},
    },
    "upgrades": {"packages": ["nvidia-dkms-open"], "unattended": True, "excluded": []},
    "ray": {
        "unit": {"exists": False, "enabled": False, "active": False, "command": ""},
        "port": None,
        "head": [],
        "raylet": False,
        "listens": False,
        "connected": [],
    },
    "egress": {"files": {}, "apt_proxy": None, "authority": None, "trusted": False},
    "clock": {"up_s": 7200.0, "synchronised": True},
    "opencv": {"found": {"version": "4.12.0", "sum": 504, "cuda": False}},
    "pytorch": {
        "found": {
            "version": "2.13.0",
            "cuda": "13.0",
            "arch_list": ["sm_75", "sm_80"],
            "devices": [{"capability": "sm_75", "product": 256.0**3}],
            "cudnn": 91900,
        },
        "home": "/opt/gpuprov/venvs/pytorch",
    },
    "tensorflow": {"found": None},
    "jax": {"found": None},
    "extras": {"environments": {"pytorch": {"torch": "2.13.0", "triton": "3.9.0", "nvtx": "0.2.17"}}, "dcgm": "4.5.2"},
}


def facts(**changes: Any) -> Facts:
    """The good facts with some values changed: `name__key__key=value`; `name={...}` replaces, `name=None` removes the fact."""
    raw: dict[str, Any] = {name: {"value": copy.deepcopy(value)} for name, value in GOOD.items()}
    for path, shared in changes.items():
        # Copied: a later path of the same case goes into it, and cases share what they change facts to.
        value = copy.deepcopy(shared)
        name, *keys = path.split("__")
        if not keys:
            if value is None:
                del raw[name]
            else:
                raw[name] = value if isinstance(value, dict) and "unknown" in value else {"value": value}
            continue
        node = raw[name]["value"]
        for key in keys[:-1]:
            node = node[int(key)] if isinstance(node, list) else node[key]
        if isinstance(node, list):
            node[int(keys[-1])] = value
        else:
            node[keys[-1]] = value
    return parse({"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 0.4, "facts": raw}, "test")


def profile(**changes: Any) -> Profile:
    """The T4 profile with some values changed, `gpu__counters="group"`."""
    data = PROFILE.dump()
    for path, value in changes.items():
        node: Any = data
        *keys, last = path.split("__")
        for key in keys:
            node = node[key]
        node[last] = value
    return Profile.model_validate(data)


def finding(check: str, observed: Facts, expected: Profile = PROFILE) -> Finding:
    """The finding of one check."""
    (made,) = judge(observed, expected, host="h", selection=Selection(only=frozenset({check}))).findings
    return made


# One H200 under load, as it was measured; made into as many as a case needs.
LOADED_GPU: dict[str, Any] = {
    "name": "NVIDIA H200",
    "gemm": {"tflops": 788.0, "sustained_tflops": 665.0, "precision": "bf16", "size": 8192, "error": 0.0016},
    "memory": {"gb_s": 4246.3, "bytes": 2147483648, "right": True},
    "copies": {"to_device_gb_s": 55.5, "to_host_gb_s": 55.3, "bytes": 536870912, "right": True},
    "load": {
        "samples": 46,
        "sm_mhz": 1485,
        "top_sm_mhz": 1980,
        "memory_mhz": 3201,
        "max_sm_mhz": 1980,
        "power_w": 690.8,
        "power_limit_w": 700.0,
        "temperature_c": 56,
        "reasons": {"4": 1.0},
        "link_generation": 5,
        "link_width": 16,
        "max_link_generation": 5,
        "max_link_width": 16,
    },
    "others": {"before": [], "during": [], "seen": True, "busy_before": 0},
    "rest": {"sm_mhz": 1980, "users": []},
    "amp": {"speed_up": 8.3, "precision": "bfloat16", "error": 0.0036},
    "triton": {"right": True, "version": "3.6.0"},
    # As rounding alone would have it; no machine has measured these yet.
    "tensorrt": {"fp32": 4e-7, "fp16": 0.00047, "int8": 0.02, "version": "11.3.0.99", "library": 110300},
    "transformer_engine": {"bf16": 0.0017, "fp8": 0.0375, "version": "2.20.2"},
    "flash_attention": {"forward": 0.0025, "backward": 0.006, "version": "2.8.3.post2"},
}
SUM: dict[str, Any] = {"gpus": 8, "bus_gb_s": 475.0, "algorithm_gb_s": 271.4, "bytes": 1 << 30, "right": True, "environment": {}}


def under_load(gpus: int = 8, total: dict[str, Any] = SUM, split: dict[str, Any] | None = None, **changes: Any) -> Facts:
    """That many healthy GPUs with some values of number 1 (or the only one) changed: `gemm__tflops=400`; a dict replaces."""
    split = {"gpus": gpus, "right": True} if split is None else split
    devices = [copy.deepcopy(LOADED_GPU) for _ in range(gpus)]
    for path, value in changes.items():
        node: Any = devices[min(1, gpus - 1)]
        *keys, last = path.split("__")
        for key in keys:
            node = node[key]
        node[last] = value
    return facts(perf={"torch": {"version": "2.11.0", "cuda": "13.0"}, "devices": devices, "all_reduce": total, "data_parallel": split})

"""Every check by its table: what it says to which facts, with a case for each outcome that it can have."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.converge.roles import ROLES
from provision.verify.checks import CHECKS


def beside(name: str) -> Any:
    """A module of this folder: in pytest's importlib mode it is in no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


good = beside("good")

NO_GPU = {"pci": [], "nodes": [], "readable": True, "module": False, "nouveau": False}
GROUP = {"gpu__counters": "group"}
MEMBER = {"members": ["ada"], "capabilities": "0000004000000000", "outcome": "open", "said": ""}
CV = {"stack__opencv": "cuda"}
CV_FOUND = {"version": "4.12.0", "sum": 504, "cuda": True, "arch_list": ["75"], "devices": []}
JAX = {"stack__frameworks": {"jax": "0.12.0.1"}}
CLOSED = {"counters__live": "1", "counters__on_disk": "1", "counters__as_user__outcome": "refused"}
FRAMEWORK = good.GOOD["pytorch"]["found"]
SESSIONS = {"code": 187, "said": "[h264_nvenc @ 0x5] OpenEncodeSessionEx failed: out of memory (10): (no details)"}
NOT_SUPPORTED = {"unknown": "Not Supported"}
# check, changed facts, changed profile, outcome, words in what was observed
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("os", {}, {}, "pass", "Ubuntu 24.04.3"),
    ("os", {"os__version_id": "22.04"}, {}, "fail", ""),
    ("os", {"os": {"id": "debian", "version_id": "12", "pretty": "Debian 12", "stand_in": True}}, {}, "warn", "stands in"),
    ("os", {"os": None}, {}, "unknown", "no fact"),
    ("machine", {}, {}, "pass", "x86_64"),
    ("machine", {"kernel__machine": "aarch64"}, {}, "fail", "aarch64"),
    ("python3", {}, {}, "pass", "3.12.3"),
    ("python3", {"python3__version": "3.6.8"}, {}, "fail", "3.6.8"),
    ("python3", {"python3": {"value": None}["value"]}, {}, "unknown", ""),
    ("python3", {"python3__version": "2.7"}, {}, "unknown", "malformed"),
    ("gcc", {}, {}, "pass", "13.3.0"),
    ("gcc", {"tool_gcc__found": None}, {}, "fail", "not installed"),
    ("gcc", {}, {"stack__tools": ["tmux"]}, "not-applicable", ""),
    ("gcc", {"tool_gcc": {"unknown": "timed out"}}, {}, "unknown", "timed out"),
    ("build-tools", {}, {}, "pass", "make 4.3, cmake 3.28.3, git 2.43.0"),
    ("build-tools", {"tool_cmake__found": None}, {}, "fail", "cmake"),
    ("build-tools", {}, {"stack__tools": ["gcc"]}, "not-applicable", ""),
    ("tmux", {"tool_tmux__found": None}, {}, "fail", ""),
    ("tmux", {}, {}, "pass", "3.4"),
    ("ffmpeg", {"tool_ffmpeg__found": None}, {}, "fail", ""),
    ("ffmpeg", {}, {}, "pass", "6.1.1"),
    ("ffmpeg", {}, {"stack__ffmpeg": False}, "not-applicable", ""),
    ("users", {}, {}, "not-applicable", ""),
    ("users", {}, {"users": [{"name": "ann"}]}, "fail", "ann"),
    ("users", {"users": ["ann"]}, {"users": [{"name": "ann"}]}, "pass", ""),
    ("data-disk", {}, {}, "pass", "/dev/nvme1n1"),
    ("data-disk", {"file_systems__1__target": "/mnt"}, {}, "fail", "nothing is mounted at /data"),
    ("data-disk", {"file_systems__1__type": "xfs"}, {}, "fail", "xfs"),
    ("data-disk", {"file_systems__1__writable": False}, {}, "fail", "not writable"),
    ("data-disk", {"file_systems__1__at_boot": False}, {}, "warn", "will not be mounted by the next boot"),
    ("data-disk", {"file_systems__1__at_boot": None}, {}, "warn", "could not be seen"),
    ("data-disk", {}, {"disks__data": {"source": "volume", "size_gb": 500, "mount": "/data", "filesystem": "ext4"}}, "fail", "122 GB"),
    ("data-disk", {}, {"disks__data": None}, "not-applicable", ""),
    ("data-disk", {"file_systems__1__size_bytes": -1}, {}, "unknown", "malformed"),
    ("root-grown", {}, {}, "pass", "a disk of 214.7 GB"),
    ("root-grown", {"root_disk__partition__behind_bytes": 180 * 10**9}, {}, "fail", "the partition 213.7"),
    ("root-grown", {"root_disk__partition__file_system_bytes": 8 * 10**9}, {}, "fail", "its file system 8.0"),
    ("root-grown", {"root_disk": {"source": "host", "type": "overlay", "partition": None}}, {}, "not-applicable", "overlay on host"),
    ("root-grown", {"root_disk": {"unknown": "/sys does not show /dev/sda1"}}, {}, "unknown", "/sys does not show"),
    ("root-grown", {"root_disk__partition__size_bytes": -1}, {}, "unknown", "malformed"),
    ("root-room", {}, {}, "pass", "150.0 of 200 GB"),
    ("root-room", {"file_systems__0__free_bytes": 1}, {}, "fail", ""),
    ("cuda-environment", {}, {}, "pass", ""),
    ("cuda-environment", {"sessions__login": "/usr/bin"}, {}, "fail", "login shells"),
    ("cuda-environment", {"sessions__service": "/usr/local/cuda/bin2"}, {}, "fail", "services"),
    ("cuda-environment", {"sessions__loader": []}, {}, "fail", "the loader"),
    ("cuda-environment", {"sessions__ssh": None}, {}, "unknown", "SSH commands"),
    ("gpu", {}, {}, "pass", "Tesla T4"),
    ("gpu", {"gpu": NO_GPU}, {}, "unknown", "no NVIDIA GPU on this host"),
    ("gpu", {"gpu__nouveau": True}, {}, "fail", "nouveau"),
    ("gpu", {"gpu__module": False}, {}, "fail", "no NVIDIA driver is loaded"),
    ("gpu", {"nvml__devices__0__name": {"value": "NVIDIA L40S"}}, {"gpu__model": "l4"}, "fail", "L40S"),
    ("gpu", {"gpu__readable": False}, {}, "fail", "not usable"),
    ("gpu", {}, {"gpu__count": 2}, "fail", "Tesla T4"),
    ("gpu", {"nvml": {"unknown": "NVML: Driver/library version mismatch"}}, {}, "unknown", "mismatch"),
    ("driver", {}, {}, "pass", "580.95.05"),
    ("driver", {}, {"stack__driver": "580"}, "pass", ""),
    ("driver", {}, {"stack__driver": "570"}, "fail", ""),
    ("driver", {"driver__installed": "590.44.01"}, {}, "fail", "installed 590.44.01"),
    ("driver", {"driver__loaded": None}, {}, "fail", "no driver is loaded"),
    ("driver", {"driver__installed": None}, {}, "warn", "on disk was not seen"),
    (
        "driver",
        {"nvml": {"unknown": "no library"}, "driver__nvidia_smi": None, "driver__nvidia_smi_said": "exit 12"},
        {},
        "unknown",
        "exit 12",
    ),
    ("driver-on-disk", {}, {}, "pass", "6.8.0-1030-aws built; held: nvidia-dkms-open"),
    ("driver-on-disk", {"gpu": NO_GPU}, {}, "pass", "built"),
    ("driver-on-disk", {"modules__kernels": []}, {}, "fail", "no kernel has headers"),
    ("driver-on-disk", {"modules__kernels__0__built": False}, {}, "fail", "NOT built"),
    ("driver-on-disk", {"modules__held": ["tmux"]}, {}, "warn", "nothing of the driver"),
    ("driver-on-disk", {"modules": None}, {}, "unknown", ""),
    ("counters-on-disk", {}, {}, "pass", "set to 0"),
    ("counters-on-disk", {"gpu": NO_GPU, "counters__on_disk": None}, {}, "fail", "not set, which means 1"),
    ("counters-on-disk", {"counters__on_disk": None}, {"gpu__counters": "admin-only"}, "pass", "not set"),
    ("counters-on-disk", {}, {"gpu__counters": "admin-only"}, "fail", "set to 0"),
    ("counters-on-disk", {"counters": {"unknown": "x"}}, {}, "unknown", "x"),
    ("counters-on-disk", {}, GROUP, "fail", "no with-counters"),
    ("counters-on-disk", {"gpu": NO_GPU, "counters__on_disk": "1", "counters__as_group": MEMBER}, GROUP, "pass", "0000004000000000"),
    ("counters-on-disk", {"counters__on_disk": "0", "counters__as_group": MEMBER}, GROUP, "fail", "option 0"),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "members": []}}, GROUP, "fail", "0 members"),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "capabilities": None}}, GROUP, "unknown", "not seen"),
    (
        "counters-on-disk",
        {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "capabilities": "000001ffffffffff"}},
        GROUP,
        "fail",
        "000001ffffffffff",
    ),
    ("persistence-at-boot", {"gpu": NO_GPU}, {}, "pass", "--persistence-mode"),
    (
        "persistence-at-boot",
        {"persistence_unit__command": "nvidia-persistenced --no-persistence-mode"},
        {},
        "fail",
        "--no-persistence-mode",
    ),
    ("persistence-at-boot", {"persistence_unit__command": "nvidia-persistenced"}, {}, "fail", "enabled"),
    ("persistence-at-boot", {"persistence_unit__enabled": False}, {}, "fail", "not enabled"),
    ("persistence-at-boot", {"persistence_unit__exists": False}, {}, "fail", "no such unit"),
    ("persistence-at-boot", {"persistence_unit": None}, {}, "unknown", ""),
    ("persistence-at-boot", {}, {"gpu__persistence": False}, "not-applicable", ""),
    ("clocks-at-boot", {"gpu": NO_GPU}, {}, "pass", "enabled"),
    ("clocks-at-boot", {"clocks_unit__enabled": False}, {}, "fail", "not enabled"),
    ("clocks-at-boot", {"clocks_unit__exists": False}, {}, "fail", "no such unit"),
    ("clocks-at-boot", {"clocks_unit": None}, {}, "unknown", ""),
    ("clocks-at-boot", {}, {"gpu__application_clocks": "default"}, "not-applicable", ""),
    ("counters", {}, {}, "pass", "open"),
    ("counters", {"counters__live": "1"}, {}, "fail", "live 1"),
    ("counters", {"counters__live": "1", "counters__on_disk": None}, {}, "fail", "not set"),
    ("counters", {"counters__on_disk": None}, {}, "warn", "not set"),
    ("counters", {"counters__on_disk": "1"}, {}, "warn", "on disk 1"),
    ("counters", {"counters__as_user__outcome": "refused"}, {}, "fail", "refused"),
    ("counters", {"counters__as_user__outcome": "no-ncu"}, {}, "unknown", "no-ncu"),
    ("counters", {"counters__as_user__outcome": "root-only"}, {}, "unknown", "root-only"),
    ("counters", {"counters__as_user__outcome": "failed"}, {}, "unknown", "failed"),
    ("counters", {"counters__live": None}, {}, "unknown", "unreadable"),
    ("counters", {}, {"gpu__counters": "admin-only"}, "not-applicable", ""),
    ("counters", {**CLOSED, "counters__as_group": MEMBER}, GROUP, "pass", "as a member: open"),
    ("counters", {"counters__as_group": MEMBER}, GROUP, "fail", "live 0"),
    ("counters", CLOSED, GROUP, "fail", "no with-counters"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "refused"}}, GROUP, "fail", "as a member: refused"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "not-tried"}}, GROUP, "unknown", "not-tried"),
    ("counters", {**CLOSED, "counters__live": None, "counters__as_group": MEMBER}, GROUP, "unknown", "unreadable"),
    ("counters", {"gpu": NO_GPU}, GROUP, "unknown", "no NVIDIA GPU"),
    ("persistence", {}, {}, "pass", "now on, at boot on"),
    ("persistence", {"nvml__devices__0__persistence": {"value": 0}}, {}, "fail", "now off"),
    ("persistence", {"persistence_unit__command": "nvidia-persistenced --no-persistence-mode"}, {}, "warn", "at boot off"),
    ("persistence", {"persistence_unit__enabled": False}, {}, "warn", "at boot off"),
    ("persistence", {"nvml__devices__0__persistence": {"unknown": "Not Supported"}}, {}, "unknown", "Not Supported"),
    ("persistence", {"nvml__devices": []}, {}, "fail", ""),
    ("persistence", {}, {"gpu__persistence": False}, "not-applicable", ""),
    ("application-clocks", {}, {}, "pass", "5001,1590"),
    ("application-clocks", {"nvml__devices__0__app_graphics_mhz": {"value": 585}}, {}, "fail", "5001,585"),
    (
        "application-clocks",
        {"nvml__devices__0__app_graphics_mhz": {"value": 585}},
        {"gpu__model": "h100"},
        "unknown",
        "locked instead",
    ),
    ("application-clocks", {"clocks_unit__enabled": False}, {}, "warn", "no unit"),
    ("application-clocks", {"nvml__devices__0__app_memory_mhz": {"unknown": "deprecated"}}, {}, "unknown", "deprecated"),
    ("application-clocks", {"nvml__devices": []}, {}, "unknown", "no device"),
    ("application-clocks", {}, {"gpu__application_clocks": "max"}, "pass", ""),
    ("application-clocks", {}, {"gpu__application_clocks": "default"}, "not-applicable", ""),
    ("nvcc", {}, {}, "pass", "13.0"),
    ("nvcc", {"nvcc__found": None}, {}, "fail", "no nvcc"),
    ("nvcc", {}, {"stack__cuda": "12.9"}, "fail", "13.0"),
    ("nvcc", {"nvcc": {"unknown": "broken"}}, {}, "unknown", "broken"),
    ("cudnn", {}, {}, "pass", "9.19.0"),
    ("cudnn", {"cudnn__library": 8907, "cudnn__header": "8.9.7"}, {}, "pass", "8.9.7"),
    ("cudnn", {"cudnn__library": None}, {}, "fail", "header: 9.19.0"),
    ("cudnn", {"cudnn__header": "9.1.0"}, {}, "warn", ""),
    ("cudnn", {}, {"stack__cudnn": "9.1"}, "fail", ""),
    ("cudnn", {}, {"stack__cudnn": "9.19"}, "pass", ""),
    ("cudnn", {"cudnn": None}, {}, "unknown", ""),
    ("cudnn", {}, {"stack__cudnn": "none"}, "not-applicable", ""),
    ("nvcc", {"nvcc__found__link": ""}, {}, "fail", "/usr/local/cuda is not there"),
    ("cupti", {}, {}, "pass", "130001"),
    ("cupti", {"cupti__version": None}, {}, "fail", "1 files"),
    ("cupti", {"cupti__version": None, "cupti__files": []}, {}, "fail", "0 files"),
    ("cupti", {"cupti": {"unknown": "timed out"}}, {}, "unknown", ""),
    ("profilers", {}, {}, "pass", "nsys 2025.6.3"),
    ("profilers", {"profilers__nsys": None}, {}, "fail", "nsys not installed"),
    ("profilers", {"profilers__ncu": "unreadable: x"}, {}, "unknown", ""),
    ("profilers", {}, {"stack__profilers": []}, "not-applicable", ""),
    ("pytorch-installed", {"gpu": NO_GPU}, {}, "pass", "kernels for sm_75"),
    ("pytorch-installed", {"pytorch__found": None}, {}, "fail", "no environment"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "cuda": None}}, {}, "fail", "processors only"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_70"]}}, {}, "pass", ""),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_80", "sm_90"]}}, {}, "fail", "kernels for sm_80, sm_90"),
    ("pytorch-installed", {}, {"stack__frameworks": {"pytorch": "2.12.0"}}, "fail", "2.13.0"),
    ("pytorch-installed", {"pytorch": None}, {}, "unknown", ""),
    ("pytorch-installed", {}, {"stack__frameworks": {}}, "not-applicable", ""),
    ("tensorflow-installed", {}, {}, "not-applicable", ""),
    ("tensorflow-installed", {}, {"stack__frameworks": {"tensorflow": "auto"}}, "fail", "no environment"),
    ("pytorch", {}, {}, "pass", "right on 1 GPU"),
    ("pytorch", {"pytorch__found": None}, {}, "fail", "no environment"),
    ("pytorch", {"pytorch__found": {"error": "ModuleNotFoundError"}}, {}, "fail", "ModuleNotFoundError"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "cuda": None}}, {}, "fail", "processors only"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_80"]}}, {}, "fail", "no kernels for sm_75"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "devices": [{"capability": "sm_75", "product": 1.0}]}}, {}, "fail", "computed 1.0"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "devices": []}}, {}, "fail", "0 of 1"),
    ("pytorch", {}, {"stack__frameworks": {"pytorch": "2.12.0"}}, "fail", "2.13.0"),
    ("pytorch", {"pytorch": {"unknown": "python did not end within 45 s"}}, {}, "unknown", "45 s"),
    ("pytorch", {}, {"stack__frameworks": {}}, "not-applicable", ""),
    ("tensorflow", {}, {}, "not-applicable", ""),
    ("tensorflow", {}, {"stack__frameworks": {"tensorflow": "auto"}}, "fail", "no environment"),
    (
        "tensorflow",
        {"tensorflow__found": {"version": "2.21.0", "cuda": "12.5", "devices": [{"product": 256.0**3}]}},
        {"stack__frameworks": {"tensorflow": "auto"}},
        "pass",
        "",
    ),
    ("jax-installed", {}, {}, "not-applicable", ""),
    ("jax-installed", {}, {"stack__frameworks": {"jax": "auto"}}, "fail", "no environment"),
    ("jax-installed", {"gpu": NO_GPU, "jax__found": {"version": "0.12.0.1", "cuda": "12.9"}}, JAX, "pass", "0.12.0.1"),
    ("jax-installed", {"jax__found": {"version": "0.12.0.1", "cuda": None}}, JAX, "fail", "processors only"),
    ("jax-installed", {"jax": None}, JAX, "unknown", ""),
    ("jax", {}, {}, "not-applicable", ""),
    ("jax", {"jax__found": {"version": "0.12.0.1", "cuda": "12.9", "devices": [{"product": 256.0**3}]}}, JAX, "pass", "right on 1"),
    ("jax", {"jax__found": {"version": "0.12.0.1", "cuda": "12.9", "devices": []}}, JAX, "fail", "0 of 1"),
    ("jax", {"gpu": NO_GPU}, JAX, "unknown", "no NVIDIA GPU"),
    ("extras", {}, {}, "not-applicable", ""),
    ("extras", {"gpu": NO_GPU}, {"stack__extras": ["nvtx", "triton", "dcgm"]}, "pass", "DCGM 4.5.2"),
    ("extras", {}, {"stack__extras": ["dali"]}, "fail", "DALI not installed"),
    ("extras", {"extras__environments__pytorch__nvtx": "0.2.10"}, {"stack__extras": ["nvtx"]}, "fail", "0.2.10"),
    ("extras", {"extras__dcgm": None}, {"stack__extras": ["dcgm"]}, "fail", "DCGM not installed"),
    ("extras", {"extras__dcgm": "3.3.6"}, {"stack__extras": ["dcgm"]}, "fail", "3.3.6"),
    ("extras", {"extras__environments": {"opencv": {"nvtx": "0.2.17"}}}, {"stack__extras": ["nvtx"]}, "fail", "not installed"),
    ("extras", {"extras": None}, {"stack__extras": ["nvtx"]}, "unknown", ""),
    ("tensorflow", {"tensorflow": None}, {"stack__frameworks": {"tensorflow": "auto"}}, "unknown", ""),
    ("nvenc", {}, {}, "pass", "a frame was encoded"),
    ("nvenc", {"encoders__nvenc": []}, {}, "fail", "built without NVENC"),
    ("nvenc", {"encoders__nvenc": None}, {}, "fail", "no ffmpeg"),
    ("nvenc", {"encoders__encode": None}, {}, "unknown", "no encode was tried"),
    ("nvenc", {"encoders__encode": SESSIONS}, {}, "warn", "out of memory (10)"),
    ("nvenc", {"encoders__encode": {"code": 1, "said": "Cannot load libnvidia-encode.so.1"}}, {}, "fail", "libnvidia-encode.so.1"),
    ("nvenc", {"encoders__encode": {"code": 1, "said": "No capable devices found"}}, {}, "fail", "No capable devices"),
    ("nvenc", {"encoders__encode": {"code": 139, "said": ""}}, {}, "fail", "ended with 139"),
    ("nvenc", {"encoders": None}, {}, "unknown", ""),
    ("nvenc", {"gpu": NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("nvenc", {}, {"gpu__model": "b300"}, "not-applicable", "B300 has no NVENC"),
    ("nvenc", {}, {"stack__ffmpeg": False}, "not-applicable", "ffmpeg"),
    ("nvenc", {}, {"gpu__model": "h100"}, "not-applicable", "H100 has no NVENC"),
    ("opencv", {}, {}, "pass", "4.12.0, without CUDA"),
    ("opencv", {"opencv__found": None}, {}, "fail", "no such environment"),
    ("opencv", {"opencv__found": {"error": "ImportError: libGL"}}, {}, "fail", "libGL"),
    ("opencv", {"opencv__found__sum": 0}, {}, "fail", "the sum is 0"),
    ("opencv", {}, {"stack__opencv": "none"}, "not-applicable", ""),
    ("opencv", {"opencv": {"unknown": "x"}}, {}, "unknown", ""),
    ("opencv", {}, CV, "fail", "4.12.0, without CUDA"),
    ("opencv", {"gpu": NO_GPU, "opencv__found": CV_FOUND}, CV, "pass", "with CUDA for sm_75"),
    ("opencv", {"opencv__found": {**CV_FOUND, "arch_list": ["80"]}}, CV, "fail", "with CUDA for sm_80"),
    ("opencv", {"opencv__found": {**CV_FOUND, "arch_list": []}}, CV, "fail", "with CUDA"),
    ("opencv", {"opencv__found": {**CV_FOUND, "cuda": False, "arch_list": []}}, CV, "fail", "without CUDA"),
    ("opencv", {"opencv__found": CV_FOUND}, {}, "pass", "with CUDA"),
    ("opencv-cuda", {}, {}, "not-applicable", ""),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [{"sum": 504}]}}, CV, "pass", "right on 1 GPU"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [{"sum": 0}]}}, CV, "fail", "the sum is 0"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [{"error": "no kernel image"}]}}, CV, "fail", "no kernel image"),
    ("opencv-cuda", {"opencv__found": CV_FOUND}, CV, "fail", "used 0 of 1"),
    ("opencv-cuda", {}, CV, "fail", "no OpenCV that was built with CUDA"),
    ("opencv-cuda", {"opencv__found": None}, CV, "fail", "no OpenCV"),
    ("opencv-cuda", {"gpu": NO_GPU, "opencv__found": CV_FOUND}, CV, "unknown", "no NVIDIA GPU"),
    ("opencv-cuda", {"opencv": None}, CV, "unknown", ""),
    *beside("cases").cases(good),
]


@pytest.mark.parametrize(("check", "changed", "asked", "outcome", "words"), CASES, ids=lambda v: str(v)[:40])
def test_table(check: str, changed: dict[str, Any], asked: dict[str, Any], outcome: str, words: str) -> None:
    finding = good.found(check, good.facts(**changed), good.profile(**asked))
    assert (finding.outcome, words in finding.observed) == (outcome, True), finding
    assert finding.hint or outcome in {"pass", "not-applicable"}


def test_every_check_has_a_case_and_every_case_a_check() -> None:
    # Those of tier perf have theirs in test_perf.py.
    assert {check for check, *_ in CASES} == {check.id for check in CHECKS if check.tier != "perf"}
    assert len(CHECKS) >= 15


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_is_unique_says_what_it_proves_and_names_a_role_that_exists(check: Any) -> None:
    assert [c.id for c in CHECKS].count(check.id) == 1
    assert check.title
    assert check.role is None or check.role in ROLES


def test_every_role_has_a_check() -> None:
    """Apart from the groundwork, which is run with the roles that stand on it."""
    assert {check.role for check in CHECKS} - {None} == set(ROLES) - {"preflight", "sources", "packages"}

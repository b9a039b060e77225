"""The list of checks: each has an id and a title of its own, a role that exists, and a table of cases in the file of its subject."""

import importlib
import pkgutil
from typing import Any

import pytest

import provision.verify.checks as package
from provision.converge.roles import ROLES
from provision.verify.checks import CHECKS

SUBJECTS = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name != "base")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_check_has_cases_in_the_file_of_its_subject(subject: str) -> None:
    checks = importlib.import_module(f"provision.verify.checks.{subject}").CHECKS
    cases = importlib.import_module(f"{__package__}.test_{subject}").CASES
    assert {check for check, *_ in cases} == {check.id for check in checks}
    assert set(checks) <= set(CHECKS)
    for check in checks:
        assert len({outcome for name, *_, outcome, _ in cases if name == check.id}) > 1, f"{check.id} has one outcome in all its cases"


def test_the_list_has_the_checks_of_its_subjects_and_no_others() -> None:
    modules = [importlib.import_module(f"provision.verify.checks.{subject}") for subject in SUBJECTS]
    assert sorted(check.id for module in modules for check in module.CHECKS) == sorted(check.id for check in CHECKS)
    assert len(CHECKS) >= 15


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_is_unique_says_what_it_proves_and_names_a_role_that_exists(check: Any) -> None:
    assert [c.id for c in CHECKS].count(check.id) == 1
    assert check.title
    assert check.role is None or check.role in ROLES


# What --without-gpu excuses, and the first tier that judges what is not judged by all.
ABOUT_THE_GPU = frozenset(
    {"gpu", "driver-on-disk", "driver", "counters-on-disk", "counters", "persistence-at-boot", "persistence", "clocks-at-boot"}
    | {
        "application-clocks",
        "clocks-held",
        "gpu-health",
        "xid",
        "throttling",
        "device-nodes",
        "pcie",
        "nvlink",
        "fabric",
        "nvcc",
        "nvcc-runs",
        "cudnn",
        "cupti",
    }
    | {"profilers", "pytorch-installed", "pytorch", "tensorflow-installed", "tensorflow", "jax-installed", "jax", "extras", "nvenc"}
    | {"opencv-cuda", "skew", "initramfs", "every-kernel", "gemm", "memory-bandwidth", "host-copies", "all-reduce", "data-parallel"}
    | {"amp", "triton", "tensorrt", "transformer-engine", "flash-attention"}
    | {"cutlass", "opencl", "bench"}
)
ABOUT_THE_HOST = frozenset(
    {"os", "machine", "python3", "gcc", "build-tools", "tmux", "ffmpeg", "users", "data-disk", "root-grown", "root-room"}
    | {"cuda-environment", "opencv", "environment", "pynvml", "upgrades", "egress"}
)
LATER = dict.fromkeys(
    (
        *("gemm", "memory-bandwidth", "host-copies", "all-reduce", "data-parallel", "clocks-held", "amp", "triton"),
        *("tensorrt", "transformer-engine", "flash-attention"),
    ),
    "perf",
) | dict.fromkeys(
    (
        "nvcc-runs",
        "pytorch-installed",
        "pytorch",
        "tensorflow-installed",
        "tensorflow",
        "jax-installed",
        "jax",
        "nvenc",
        "opencv",
        "opencv-cuda",
        "cutlass",
        "opencl",
        "skew",
    ),
    "standard",
)


def test_what_is_excused_without_a_gpu_is_what_is_about_the_gpu_and_tiers_leave_out_what_is_slow() -> None:
    # Checks that are newer than these lists are not in them.
    assert {check.id for check in CHECKS if check.id in ABOUT_THE_GPU | ABOUT_THE_HOST and check.needs_gpu} == ABOUT_THE_GPU
    tiers = {check.id: check.tier for check in CHECKS}
    assert {check: tiers[check] for check in ABOUT_THE_GPU | ABOUT_THE_HOST} == dict.fromkeys(
        ABOUT_THE_GPU | ABOUT_THE_HOST, "quick"
    ) | LATER


def test_every_role_has_a_check() -> None:
    """Apart from the groundwork, which is run with the roles that stand on it."""
    assert {check.role for check in CHECKS} - {None} == set(ROLES) - {"preflight", "packages"}

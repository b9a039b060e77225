"""Containers: the engine and the toolkit are there, and what a program in a container answered."""

from typing import Any, Final

import pytest

from provision.profile import load
from provision.verify.observe import Asked
from tests.verify import good

from .table import Case, Text, table, texts

PODMAN: Final[dict[str, Any]] = {"stack__containers": "podman"}
DOCKER: Final[dict[str, Any]] = {"stack__containers": "docker"}
WITH_DOCKER: Final[dict[str, Any]] = {
    "containers__engines": {"docker": "26.1.5", "podman": None},
    "containers__docker": {"runtimes": ["nvidia"], "cdi": True},
    "container_run__engine": "docker",
}
SYSTEMD: Final = {"runtimes": ["nvidia"], "cdi": False, "systemd": True}
LEGACY: Final[dict[str, Any]] = {**WITH_DOCKER, "containers__docker": SYSTEMD, "containers__runtime_mode": "legacy"}
PROGRAM: Final = {"uid": 0, "library": "libcuda.so.1", "error": "", "devices": [{"sum": 2147450880}]}
CLOSED: Final[dict[str, Any]] = {**PODMAN, "gpu__counters": "admin-only"}
REFUSED: Final = {"outcome": "refused", "said": "==ERROR== ERR_NVGPUCTRPERM"}
NOT_ENABLED: Final = {"exists": True, "enabled": False, "active": False, "command": ""}

CASES: list[Case] = [
    ("containers-installed", {}, PODMAN, "pass", "=podman 4.9.3, toolkit 1.20.1"),
    ("containers-installed", {}, {}, "not-applicable", "asks for no containers"),
    ("containers-installed", {"containers__engines": {"docker": "26.1.5", "podman": None}}, PODMAN, "fail", "podman not installed"),
    ("containers-installed", {"containers__toolkit": None}, PODMAN, "fail", "toolkit not installed"),
    ("containers-installed", {"containers__toolkit": "1.2.0"}, PODMAN, "fail", "toolkit 1.2.0"),
    (
        "containers-installed",
        {"containers__refresh": {**good.GOOD["containers"]["refresh"], "nvidia-cdi-refresh.path": NOT_ENABLED}},
        PODMAN,
        "fail",
        "nvidia-cdi-refresh.path not enabled",
    ),
    ("containers-installed", {"containers__refresh": {}}, PODMAN, "fail", "nvidia-cdi-refresh.service not enabled"),
    ("containers-installed", WITH_DOCKER, DOCKER, "pass", "docker 26.1.5"),
    ("containers-installed", LEGACY, DOCKER, "warn", "NVIDIA's runtime in legacy mode, and systemd has the cgroups"),
    ("containers-installed", {**LEGACY, "containers__docker": SYSTEMD | {"systemd": False}}, DOCKER, "pass", "docker 26.1.5"),
    ("containers-installed", {**LEGACY, "containers__runtime_mode": "auto"}, DOCKER, "pass", "docker 26.1.5"),
    ("containers-installed", {"containers__runtime_mode": "legacy"}, PODMAN, "pass", "podman 4.9.3"),
    ("containers-installed", {**WITH_DOCKER, "containers__docker": None}, DOCKER, "fail", "does not know the runtime nvidia"),
    ("containers-installed", {**WITH_DOCKER, "containers__docker__runtimes": ["runc"]}, DOCKER, "fail", "does not know the runtime"),
    ("containers-installed", {"containers": {"unknown": "no systemd answers on this host"}}, PODMAN, "unknown", "no systemd"),
    ("containers", {}, PODMAN, "pass", "=podman, by cdi: right on every GPU (1), counters open"),
    ("containers", WITH_DOCKER, DOCKER, "pass", "docker, by cdi: right on every GPU (1)"),
    ("containers", {}, {}, "not-applicable", "asks for no containers"),
    ("containers", {}, DOCKER, "unknown", "the facts are of podman"),
    ("containers", {"container_run": {"unknown": "the probe was asked for no container"}}, PODMAN, "unknown", "asked for no container"),
    ("containers", {"container_run__code": 127, "container_run__program": None}, PODMAN, "fail", ""),
    (
        "containers",
        {"container_run__code": 125, "container_run__said": "Error: unresolvable CDI devices", "container_run__program": None},
        PODMAN,
        "fail",
        "ended with 125: Error: unresolvable CDI devices",
    ),
    ("containers", {"container_run__program": {**PROGRAM, "library": "", "error": "no libcuda"}}, PODMAN, "fail", "by cdi: no libcuda"),
    ("containers", {"container_run__program": {**PROGRAM, "error": "cuInit: 802", "devices": []}}, PODMAN, "fail", "cuInit: 802"),
    ("containers", {"container_run__program": {**PROGRAM, "devices": [{"sum": 2147450879}]}}, PODMAN, "fail", "the sum is 2147450879"),
    ("containers", {"container_run__program": {**PROGRAM, "devices": [{"error": "cuLaunchKernel: 700"}]}}, PODMAN, "fail", "700"),
    ("containers", {"container_run__program": {**PROGRAM, "devices": []}}, PODMAN, "fail", "right on 0 of 1 GPUs"),
    ("containers", {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}, PODMAN, "fail", "right on 1 of 2 GPUs"),
    ("containers", {"container_run__counters": REFUSED}, PODMAN, "fail", "counters refused"),
    ("containers", {"container_run__counters": REFUSED}, CLOSED, "pass", "=podman, by cdi: right on every GPU (1)"),
    ("containers", {"container_run__counters": None}, PODMAN, "unknown", "counters not tried"),
    ("containers", {"container_run__counters": {"outcome": "failed", "said": "a driver resource"}}, PODMAN, "unknown", "a driver resource"),
    ("containers", {"container_run__own_pids": False}, PODMAN, "pass", "with the host's process ids"),
    (
        "containers",
        {"container_run__way": "none", "container_run__program": {**PROGRAM, "library": "", "devices": []}, "gpu": good.NO_GPU},
        PODMAN,
        "unknown",
        "a container of podman runs a program as an ordinary user",
    ),
]
TEXTS: list[Text] = [
    (
        "containers",
        {"container_run__code": 127, "container_run__said": "no podman", "container_run__program": None},
        CLOSED,
        "a CUDA program in an ordinary user's container computes right on every GPU",
        "--role containers",
    ),
    (
        "containers-installed",
        {"containers__toolkit": None},
        PODMAN,
        "podman, NVIDIA's Container Toolkit 1.20, and its list of GPUs at boot",
        "--role containers",
    ),
]
test_table = table(CASES)
test_texts = texts(TEXTS)


@pytest.mark.parametrize(("engine", "asked"), [("none", "none"), ("podman", "podman"), ("docker", "docker")])
def test_a_probe_starts_a_container_only_where_the_profile_asks_for_one(engine: str, asked: str) -> None:
    assert Asked.of(good.profile(stack__containers=engine), "standard") == Asked("standard", asked)


def test_a_profile_without_containers_has_the_digest_that_it_had_before() -> None:
    assert "containers" not in good.PROFILE.dump()["stack"]
    assert load.digest(good.profile(stack__containers="podman")) != load.digest(good.PROFILE)

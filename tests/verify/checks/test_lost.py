"""One GPU that NVML does not reach hides no other: each check judges the others and names the one."""

from typing import Any

import pytest

from provision.verify.codes import LOST
from provision.verify.facts import Facts

from .. import good  # noqa: TID252 - the tests have no root package

MANAGER = {"exists": True, "enabled": True, "active": True, "command": "/usr/bin/nv-fabricmanager"}
SAME = {"libnvidia-compute": "580.95.05", "nvidia-fabricmanager": "580.95.05"}
WELL: dict[str, Any] = {"links": 18, "links_up": 18, "fabric_state": 3, "fabric_status": 0}
# What the first of two GPUs shows in a check, a reading of it that is wrong, and what the check says then.
CHECKS = {
    "nvlink": ("GPU 0: 18 of 18", {"links_up": 0}, "GPU 0: 0 of 18"),
    "fabric": ("4 switches, fabric manager active, GPU 0: joined", {"fabric_state": 1}, "GPU 0: not started"),
    "application-clocks": ("5001,1590 MHz, set by a unit at boot", {"app_graphics_mhz": 585}, "5001,585 MHz"),
    "persistence": ("now on, at boot on", {"persistence": 0}, "now off, at boot on"),
    "throttling": ("GPU 0: idle", {"event_reasons": 0x8}, "GPU 0: hardware slowdown"),
    "pcie": ("GPU 0: generation 1 of 3", {"pcie_width": 1}, "1 of 8 lanes"),
    "device-nodes": ("device nodes of GPUs: 2, control and memory open to all", {"compute_mode": 2}, "GPU 0: prohibited"),
    "gsp": ("open kernel modules, firmware on", None, ""),
}
UNSTARTED = 0  # on the bus, and not listed by NVML


def host(code: int, **first: Any) -> Facts:
    """A host of two GPUs whose second does not answer, for the reason of this return code."""
    one = good.GOOD["nvml"]["devices"][0]
    here = {**one, **{name: {"value": value} for name, value in {**WELL, **first}.items()}}
    gone = {**{name: {"unknown": "GPU is lost"} for name in here}, "error": {"value": code}}
    return good.facts(
        nvml__devices=[here] if code == UNSTARTED else [here, gone],
        gpu__pci=["0000:00:1e.0", "0000:00:1f.0"],
        gpu__nodes=["/dev/nvidia0", "/dev/nvidia1"],
        gpu__modes=dict.fromkeys(("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"), 0o666),
        fabric={"switches": 4, "manager": MANAGER, "cuda_init": 0},
        fabric_on_disk__packages=SAME,
    )


@pytest.mark.parametrize("code", [*LOST, UNSTARTED])
@pytest.mark.parametrize("check", CHECKS)
def test_a_gpu_that_does_not_answer_hides_no_other(check: str, code: int) -> None:
    well, wrong, said = CHECKS[check]
    expected = good.profile(gpu__count=2)
    silent = f"GPU 1: {LOST[code]}" if code in LOST else "0000:00:1f.0: on the bus, and not started by the driver"
    found = good.finding(check, host(code), expected)
    assert (found.outcome, found.observed.startswith(f"{silent}; the others: {well}")) == ("unknown", True), found
    assert "the check gpu" in found.hint
    if wrong:
        found = good.finding(check, host(code, **wrong), expected)
        assert (found.outcome, found.observed.startswith(f"{silent}; the others: "), said in found.observed) == ("fail", True, True), found


@pytest.mark.parametrize("check", ["nvlink", "throttling"])
def test_what_no_gpu_has_is_not_applicable_though_one_does_not_answer(check: str) -> None:
    absent = {"links": None, "links_up": None, "event_reasons": None}
    facts = host(15)
    first = facts.raw["nvml"]["value"]["devices"][0]
    first.update(dict.fromkeys(absent, good.NOT_SUPPORTED))
    assert good.finding(check, facts, good.profile(gpu__count=2)).outcome == "not-applicable"


RESET = "`sudo nvidia-smi --gpu-reset`"


@pytest.mark.parametrize(("code", "hint"), [(8, "replace the machine"), (15, "`sudo reboot`"), (16, RESET), (999, "`sudo reboot`")])
def test_what_to_do_follows_from_why_nvml_does_not_reach_it(code: int, hint: str) -> None:
    assert hint in good.finding("gpu", host(code), good.profile(gpu__count=2)).hint


NOT_MEASURED = {"reason": "lost", "unknown": "GPU is lost"}
# As the probe sends a GPU that it did not reach, beside seven that it measured.
PERF_CHECKS = ["gemm", "memory-bandwidth", "host-copies"]


def measured(**changes: Any) -> Facts:
    """Eight GPUs under load of which NVML did not reach number 5, with some values of number 1 changed."""
    facts = good.under_load(8, total={**good.SUM, "gpus": 7}, split={"gpus": 7, "right": True}, **changes)
    perf = facts.raw["perf"]["value"]
    parts = ("gemm", "memory", "copies", "amp", "triton", "tensorrt", "transformer_engine", "flash_attention")
    others = {"before": [], "during": [], "seen": False}
    perf["devices"][5] = {**dict.fromkeys(parts, NOT_MEASURED), "name": None, "load": {"samples": 0}, "rest": None, "others": others}
    for index, device in enumerate(perf["devices"]):
        device["index"] = index
    return facts


@pytest.mark.parametrize("check", [*PERF_CHECKS, "all-reduce", "data-parallel"])
def test_a_measurement_without_one_gpu_judges_the_others_and_names_it(check: str) -> None:
    expected = good.profile(gpu__model="h200", gpu__count=8, places=(), verify={"tier": "perf"})
    found = good.finding(check, measured(), expected)
    assert (found.outcome, "GPU 5" in found.observed, "GPU is lost" in found.observed) == ("unknown", True, True), found
    if check in PERF_CHECKS:
        assert "GPU 7: " in found.observed
        slow = measured(gemm__tflops=100, memory__gb_s=100, copies__to_host_gb_s=1)
        assert good.finding(check, slow, expected).outcome == "fail"


# Readings of a card for a display that no check of the others may take for theirs.
DRAWS = {
    "links": 0,
    "links_up": 0,
    "persistence": 0,
    "app_graphics_mhz": 1,
    "compute_mode": 2,
    "pcie_width": 1,
    "event_reasons": 0x8,
    "ecc": 0,
}


@pytest.mark.parametrize("check", [*CHECKS, "gpu-health", "pytorch", "nvcc-runs"])
def test_a_card_for_a_display_is_judged_by_no_check_of_the_others(check: str) -> None:
    facts = host(UNSTARTED)
    one = host(UNSTARTED)
    one.raw["gpu"]["value"]["nodes"] = ["/dev/nvidia0"]
    before = good.finding(check, one)
    devices = facts.raw["nvml"]["value"]["devices"]
    drawing = {**DRAWS, "name": "NVIDIA DGX Display", "pci": "00000000:00:1f.0"}
    devices.append({**devices[0], **{name: {"value": value} for name, value in drawing.items()}})
    facts.raw["gpu"]["value"]["displays"] = ["0000:00:1f.0"]
    after = good.finding(check, facts)
    assert (after.outcome, after.observed.replace("GPUs: 2", "GPUs: 1").replace("(2)", "(1)")) == (before.outcome, before.observed)

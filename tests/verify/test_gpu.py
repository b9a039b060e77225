"""What the probe says on a real GPU host, beside what `nvidia-smi -q -x`, PyTorch's `collect_env` and `ncu` say of it.

Run there: pytest -m gpu tests/verify/test_gpu.py     (PYTORCH names a python with PyTorch; the host's own python3 by default)
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from provision.host.ssh import LOCALHOST
from provision.verify.facts import Facts
from provision.verify.observe import observe

NVIDIA_SMI = shutil.which("nvidia-smi")
PYTHON = os.environ.get("PYTORCH", shutil.which("python3") or "")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(NVIDIA_SMI is None, reason="no NVIDIA GPU here")]


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120, stdin=subprocess.DEVNULL).stdout


def settings() -> list[str]:
    """What nobody may have changed; clocks and power of the moment are not settings."""
    names = "persistence_mode,ecc.mode.current,ecc.mode.pending,clocks.applications.gr,clocks.applications.mem,power.limit,mig.mode.current"
    return said("nvidia-smi", f"--query-gpu={names}", "--format=csv,noheader").splitlines()


@pytest.fixture(scope="module")
def seen() -> tuple[Facts, list[str], list[str]]:
    """Facts, and the settings before and after."""
    before = settings()
    facts = asyncio.run(observe(LOCALHOST, timeout_s=180))
    return facts, before, settings()


@pytest.fixture(scope="module")
def smi(seen: tuple[Facts, list[str], list[str]]) -> ET.Element:
    assert seen
    return ET.fromstring(said("nvidia-smi", "-q", "-x"))  # noqa: S314 - of this machine's driver


def value(facts: Facts, name: str) -> Any:
    return facts.raw[name]["value"]


def text(element: ET.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def number(element: ET.Element, path: str) -> int | None:
    found = re.match(r"\d+", text(element, path))
    return int(found[0]) if found else None


def test_the_probe_changes_no_setting(seen: tuple[Facts, list[str], list[str]]) -> None:
    _, before, after = seen
    assert before
    assert before == after


def test_nvidia_smi_says_the_same(seen: tuple[Facts, list[str], list[str]], smi: ET.Element) -> None:
    facts = seen[0]
    assert value(facts, "driver")["loaded"] == text(smi, "driver_version")
    assert value(facts, "nvml")["cuda"]["value"] == text(smi, "cuda_version")
    ours, theirs = value(facts, "nvml")["devices"], smi.findall("gpu")
    assert len(ours) == len(theirs) == int(text(smi, "attached_gpus"))
    same: dict[str, Callable[[ET.Element], Any]] = {
        "name": lambda gpu: text(gpu, "product_name"),
        "uuid": lambda gpu: text(gpu, "uuid"),
        "pci": lambda gpu: text(gpu, "pci/pci_bus_id").lower(),
        "memory_mib": lambda gpu: number(gpu, "fb_memory_usage/total"),
        "persistence": lambda gpu: int(text(gpu, "persistence_mode") == "Enabled"),
        "ecc": lambda gpu: int(text(gpu, "ecc_mode/current_ecc") == "Enabled"),
        "ecc_pending": lambda gpu: int(text(gpu, "ecc_mode/pending_ecc") == "Enabled"),
        "app_graphics_mhz": lambda gpu: number(gpu, "applications_clocks/graphics_clock"),
        "app_memory_mhz": lambda gpu: number(gpu, "applications_clocks/mem_clock"),
        "max_graphics_mhz": lambda gpu: number(gpu, "max_clocks/sm_clock"),
        "max_memory_mhz": lambda gpu: number(gpu, "max_clocks/mem_clock"),
        "pcie_generation_max": lambda gpu: number(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
        "pcie_width_max": lambda gpu: number(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width"),
        "remapped_correctable": lambda gpu: number(gpu, "remapped_rows/remapped_row_corr"),
        "remapped_uncorrectable": lambda gpu: number(gpu, "remapped_rows/remapped_row_unc"),
    }
    compared = 0
    for device, gpu in zip(ours, theirs, strict=True):
        for name, read in same.items():
            expected = read(gpu)
            if expected in {None, "", "n/a"} or "value" not in device.get(name, {}):
                continue  # a card or a driver without it
            got = device[name]["value"]
            assert (got.lower() if name == "pci" else got) == expected, name
            compared += 1
    assert compared >= 10 * len(ours)


def test_collect_env_says_the_same(seen: tuple[Facts, list[str], list[str]]) -> None:
    try:
        theirs = said(PYTHON, "-m", "torch.utils.collect_env")
    except subprocess.CalledProcessError:
        pytest.skip(f"{PYTHON} has no PyTorch: PYTORCH names one that has")
    lines = dict(line.split(":", 1) for line in theirs.splitlines() if ":" in line)
    facts = seen[0]
    assert lines["OS"].strip().startswith(value(facts, "os")["pretty"])
    assert value(facts, "tool_gcc")["found"]["version"] in lines["GCC version"]
    assert lines["Nvidia driver version"].strip() == value(facts, "driver")["loaded"]
    assert value(facts, "kernel")["release"] in lines["Python platform"]
    ours = value(facts, "pytorch")["found"]
    if ours is None:
        return  # PyTorch is elsewhere than where a profile puts it
    assert lines["PyTorch version"].strip() == ours["version"]
    assert lines["CUDA used to build PyTorch"].strip() == ours["cuda"]


def test_ncu_by_hand_says_the_same(seen: tuple[Facts, list[str], list[str]]) -> None:
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if os.geteuid() or not os.path.exists(ncu):  # noqa: PTH110 - a path as shells write it
        pytest.skip("needs ncu, and root to become an ordinary user")
    done = subprocess.run(
        ["runuser", "-u", "nobody", "--", "env", "HOME=/tmp", ncu, "--query-metrics"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    open_to_all = "ERR_NVGPUCTRPERM" not in done.stdout + done.stderr and done.returncode == 0
    assert (value(seen[0], "counters")["as_user"]["outcome"] == "open") is open_to_all


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
def test_a_kernel_for_the_architecture_of_these_gpus_was_compiled_and_computed_right(
    seen: tuple[Facts, list[str], list[str]], smi: ET.Element
) -> None:
    fact = value(seen[0], "nvcc_runs")
    assert (fact["step"], fact["code"], fact["error"]) == ("run", 0, "")
    assert len(fact["devices"]) == len(smi.findall("gpu"))
    for device in fact["devices"]:
        assert device == {"capability": fact["gpus"][0], "code": fact["gpus"][0], "sum": 65535 * 65536 // 2, "error": ""}

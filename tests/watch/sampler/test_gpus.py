"""What the sampler makes of NVML's answers. The NVML here is a stand-in: a real one is asked on a machine with a GPU."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml
import pytest

from provision.watch.sample import parse
from provision.watch.stream import SAMPLER

MIB = 1 << 20


def error(code: int) -> Exception:
    return pynvml.NVMLError(code)  # type: ignore[no-any-return]


class Nvml(ModuleType):
    """An NVML with one card; what is not in `answers` is not supported."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED
    NVML_GPM_METRICS_GET_VERSION = 1
    c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t  # noqa: N815 - its name

    def __init__(self, **answers: Any) -> None:
        super().__init__("pynvml")
        self.calls: list[str] = []
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "card",
            "nvmlDeviceGetUUID": b"GPU-1",
            "nvmlDeviceGetName": "NVIDIA H100",
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:0A:00.0"),
            "nvmlDeviceGetTemperature": 55,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=100, memory=40),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 * MIB, used=20 * MIB, free=60 * MIB),
            "nvmlDeviceGetPowerUsage": 300_500,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetRemappedRows": (1, 2, 0, 1),
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            answer = self.answers.get(name, error(pynvml.NVML_ERROR_NOT_SUPPORTED))
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return call


def reader(monkeypatch: pytest.MonkeyPatch, nvml: Nvml) -> Any:
    """The sampler's module, as it is on the host."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    spec = importlib.util.spec_from_file_location("gpus", SAMPLER / "gpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.glob, "glob", lambda _: ["/dev/nvidia0"])
    return module.GpuReader()


def sampled(each: Any, number: int = 0) -> Any:
    """The first card's sample, through the client's own reading of it."""
    line = {"number": number, "at": 1.0, "host": {}, "gpus": each.sample(number), "why": each.why, "events": each.events()}
    return parse(json.dumps(line).encode(), "h").gpus[0]


def test_readings_have_our_units(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = sampled(reader(monkeypatch, Nvml()))
    assert (gpu.kernel_present, gpu.memory_busy, gpu.power_w, gpu.power_limit_w, gpu.temperature_c) == (1.0, 0.4, 300.5, 700.0, 55)
    assert (gpu.memory_used_bytes, gpu.memory_bytes, gpu.pci, gpu.uuid) == (20 * MIB, 80 * MIB, "00000000:0a:00.0", "GPU-1")
    assert (gpu.rows_remapped, gpu.remap_pending, gpu.remap_failed) == (2, False, True)


def test_what_a_card_does_not_support_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = sampled(reader(monkeypatch, Nvml(nvmlDeviceGetUtilizationRates=error(pynvml.NVML_ERROR_NOT_SUPPORTED))))
    assert (gpu.kernel_present, gpu.sm_active, gpu.energy_mj, gpu.reasons, gpu.ecc_uncorrected) == (None, None, None, None, None)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_card_that_is_lost_keeps_its_name(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    gpu = sampled(reader(monkeypatch, Nvml(nvmlDeviceGetTemperature=error(code))))
    assert gpu.lost
    assert (gpu.uuid, gpu.kernel_present) == ("GPU-1", None)


def test_a_card_that_was_lost_before_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> str:
        if index == 1:
            raise error(pynvml.NVML_ERROR_GPU_IS_LOST)
        return "card"

    each = reader(monkeypatch, Nvml(nvmlDeviceGetCount=3, nvmlDeviceGetHandleByIndex=handle))
    line = {"number": 0, "at": 1.0, "host": {}, "gpus": each.sample(0), "why": each.why, "events": each.events()}
    first, lost, last = parse(json.dumps(line).encode(), "h").gpus
    assert (first.temperature_c, last.temperature_c, each.why) == (55, 55, "")
    assert "lost" in lost.lost.lower()


def test_the_bus_is_watched_at_every_fifth_sample_only(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml(nvmlDeviceGetPcieThroughput=lambda _, counter: 1000 * (counter + 1))
    each = reader(monkeypatch, nvml)
    seen = [sampled(each, number).pcie_sent_bytes_s for number in range(6)]
    assert seen == [1024_000.0, None, None, None, None, 1024_000.0]
    assert nvml.calls.count("nvmlDeviceGetPcieThroughput") == 4


def test_hopper_counts_between_two_samples_and_says_nothing_at_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {2: 87.0, 3: 40.0, 5: 50.0, 10: float("nan"), 20: 3.0, 21: 4.0}

    def metrics(wanted: Any) -> None:
        for entry in wanted.metrics[: wanted.numMetrics]:
            entry.nvmlReturn = 0 if entry.metricId in given else 3
            entry.value = given.get(entry.metricId, 0.0)

    nvml = Nvml(
        nvmlGpmQueryDeviceSupport=SimpleNamespace(isSupportedDevice=1),
        nvmlGpmSampleAlloc=pynvml.c_nvmlGpmSample_t,
        nvmlGpmSampleGet=None,
        nvmlGpmMetricsGet=metrics,
    )
    each = reader(monkeypatch, nvml)
    assert sampled(each).sm_active is None
    gpu = sampled(each, 1)
    assert (gpu.sm_active, gpu.sm_occupancy, gpu.tensor_active, gpu.dram_active) == (0.87, 0.4, 0.5, None)
    assert (gpu.pcie_sent_bytes_s, gpu.pcie_received_bytes_s, gpu.nvlink_sent_bytes_s) == (3 * MIB, 4 * MIB, None)


def test_xids_are_told_with_the_position_of_their_card(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [SimpleNamespace(device="card", eventData=79)]

    def wait(_set: Any, _wait_ms: int) -> Any:
        if waiting:
            return waiting.pop()
        raise error(pynvml.NVML_ERROR_TIMEOUT)

    nvml = Nvml(nvmlEventSetCreate="set", nvmlDeviceRegisterEvents=None, nvmlEventSetWait_v2=wait, nvmlDeviceGetIndex=0)
    each = reader(monkeypatch, nvml)
    assert each.events() == [{"gpu": 0, "xid": 79}]
    assert each.events() == []
    assert reader(monkeypatch, Nvml()).events() is None


def test_a_process_that_is_gone_is_lost_only_where_all_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [SimpleNamespace(pid=7, usedGpuMemory=5 * MIB), SimpleNamespace(pid=8, usedGpuMemory=(1 << 64) - 1)]
    each = reader(monkeypatch, Nvml(nvmlDeviceGetComputeRunningProcesses=processes))
    who = {"user": "ada", "command": "python", "container": ""}
    for all_seen in (True, False):
        host = SimpleNamespace(process=lambda pid: who if pid == 7 else None, sees_all_processes=lambda seen=all_seen: seen)
        first, second = each.processes(host)
        assert first == {**who, "gpu": 0, "pid": 7, "lost": False, "memory_bytes": 5 * MIB}
        assert second == {"user": "", "command": "", "container": "", "gpu": 0, "pid": 8, "lost": all_seen}


def test_the_slices_of_a_divided_card_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(_handle: Any, number: int) -> str:
        if number == 1:
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return f"slice {number}"

    nvml = Nvml(nvmlDeviceGetMigMode=[1, 1], nvmlDeviceGetMaxMigDeviceCount=3, nvmlDeviceGetMigDeviceHandleByIndex=part)
    gpu = sampled(reader(monkeypatch, nvml))
    assert (gpu.mig, len(gpu.slices), gpu.slices[0].memory_bytes) == (True, 2, 80 * MIB)


def test_a_machine_without_a_card_and_one_whose_driver_is_broken_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = reader(monkeypatch, Nvml(nvmlInit=error(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)))
    assert broken.sample(0) == []
    assert "NVML" in broken.why

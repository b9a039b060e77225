"""The crew that measures, with false workers."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .host import Nvml

WORKER = """#!{python}
import json, os, sys, time
rank = sys.argv[3]
def say(**answer):
    print("gpuprov-json=" + json.dumps(answer), flush=True)
print("a banner")
say(part="start", answer={{"version": "2.11.0", "cuda": "13.0"}})
for line in iter(sys.stdin.readline, ""):
    part, *words = line.split()
    say(part="loaded")
    {what}
    say(part=part, answer={{"part": part, "words": words, "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}})
"""


class TestCrew:
    @pytest.fixture
    def crew(self, probe: Any, tmp_path: Path) -> Iterator[Any]:
        """Two workers whose text between the order and the answer a test writes, with a minute."""
        made: list[Any] = []

        def build(what: str) -> Any:
            python = tmp_path / "python"
            python.write_text(WORKER.format(python=sys.executable, what=what))
            python.chmod(0o755)
            made.append(probe.perf.Crew(str(python), 2, time.monotonic() + 60))
            assert all("version" in answer for answer in made[-1].ask("start", range(2)).values())
            return made[-1]

        yield build
        for one in made:
            one.end()
            assert all(worker.poll() is not None for worker in one.workers)

    def test_all_do_a_part_at_once_and_see_every_gpu(self, crew: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        there = tmp_path / "there"
        there.mkdir()
        # Each waits for the other: one after the other they would not end.
        made = crew(
            f"open({str(there / 'r')!r} + rank, 'w').close(); [time.sleep(0.01) for _ in iter(lambda: len(os.listdir({str(there)!r})), 2)]"
        )
        answers = made.ask("all_reduce", range(2), "4711")
        assert answers == {rank: {"part": "all_reduce", "words": ["4711"], "visible": None} for rank in range(2)}
        assert all(made.loaded[rank] < made.ended[rank] for rank in range(2))

    def test_one_that_dies_says_its_last_word_and_does_no_more(self, crew: Any) -> None:
        made = crew("if rank == '1': sys.exit('CUDA error: device-side assert')")
        answers = made.ask("gemm", range(2))
        assert answers[0]["part"] == "gemm"
        assert answers[1] == {"reason": "died", "unknown": "gemm: the process ended (CUDA error: device-side assert)"}
        assert made.ask("memory", range(2))[1]["reason"] == "not-run"

    def test_one_that_hangs_costs_its_own_part_and_no_more_than_its_limit(
        self, crew: Any, probe: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(probe.perf.LIMITS_S, "copies", 1)
        made = crew("if rank == '1': time.sleep(60)")
        answers = made.ask("copies", range(2))
        assert (answers[0]["part"], answers[1]["reason"]) == ("copies", "timeout")

    def test_what_had_less_than_its_time_because_others_took_theirs_does_not_hang(self, crew: Any) -> None:
        made = crew("time.sleep(60)")
        made.until = time.monotonic() + 0.2
        assert [answer["reason"] for answer in made.ask("copies", range(2)).values()] == ["not-run", "not-run"]


def test_our_own_process_is_not_another_even_where_it_has_another_number(probe: Any) -> None:
    others = probe.perf.others
    assert others({}, [{"10": "python"}, None], {"10"}) == {"before": [], "during": [], "seen": True}
    assert others({"7": "x"}, [{"7": "x", "10": "python"}], {"10"})["during"] == ["7 x"]
    assert others({}, [{"999999999": ""}], {"10"})["during"] == []
    assert others({}, [{"999999999": "", "999999998": ""}], {"10"})["during"] == ["999999998 ", "999999999 "]
    assert others({}, [None], {"10"})["seen"] is False


class FalseDriver:
    """NVML as far as a resting GPU is asked: clocks one after another, then the last of them again and again."""

    NVML_CLOCK_SM = 1
    NVMLError = RuntimeError

    def __init__(self, clocks: list[int | None], users: list[int]) -> None:
        self.clocks, self.users = clocks, users

    def nvmlDeviceGetClockInfo(self, _handle: int, _kind: int) -> int:  # noqa: N802 - the library's name
        clock = self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0]
        if clock is None:
            raise RuntimeError
        return clock

    def nvmlDeviceGetComputeRunningProcesses(self, _handle: int) -> list[Any]:  # noqa: N802 - the library's name
        return [SimpleNamespace(pid=pid) for pid in self.users]


@pytest.mark.parametrize(
    ("clocks", "users", "expected"),
    [
        ([1980, 1980, 420, 345], [], {"sm_mhz": 345, "users": []}),
        ([1980, None, 1980], [], {"sm_mhz": 1980, "users": []}),
        ([None], [], {"sm_mhz": None, "users": []}),
        ([1980], [999999999], {"sm_mhz": 1980, "users": ["999999999 "]}),
    ],
)
def test_a_gpu_at_rest_is_watched_until_its_clock_has_fallen(
    probe: Any, monkeypatch: pytest.MonkeyPatch, clocks: list[int | None], users: list[int], expected: dict[str, Any]
) -> None:
    monkeypatch.setattr(probe.perf, "REST_S", 0.3)
    monkeypatch.setattr(probe.perf, "SAMPLE_S", 0.01)
    meter = object.__new__(probe.perf.Meter)
    meter.nvml, meter.handles = FalseDriver(clocks, users), [0]
    assert meter.rest(time.monotonic() + 60) == [expected]
    assert meter.rest(time.monotonic() + 0.2) == [None], "there is no time to wait"


LOST, NO_HANDLE = 15, 999
ANSWER = """#!{python}
import json, os, sys
def say(**answer):
    print("gpuprov-json=" + json.dumps(answer), flush=True)
say(part="start", answer={{"version": "2.11.0", "cuda": "13.0"}})
for line in iter(sys.stdin.readline, ""):
    part = line.split()[0]
    say(part="loaded")
    say(part=part, answer={{"world": sys.argv[4], "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}})
"""


@pytest.fixture
def nvml(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Five cards by NVML, of which one is lost, one has no handle and one is for a display; and a PyTorch that measures what it sees."""
    real = Nvml().real

    def handle(index: int) -> Any:
        return real.NVMLError(NO_HANDLE) if index == 3 else index

    names = {4: "NVIDIA DGX Display"}
    answers = {
        "nvmlDeviceGetCount": 5,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetName": lambda index: names.get(index, "NVIDIA A100-SXM4-80GB"),
        "nvmlDeviceGetTemperature": lambda index, _: real.NVMLError(LOST) if index == 1 else 40,
        "nvmlDeviceGetUUID": lambda index: f"GPU-{index}",
    }
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(**answers))
    monkeypatch.setattr(probe.perf, "need_gpu", lambda: None)
    monkeypatch.setattr(probe.device, "present", lambda: {"module": True})
    home = tmp_path / "venv"
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").write_text(ANSWER.format(python=sys.executable))
    (home / "bin/python").chmod(0o755)
    monkeypatch.setattr(probe.perf, "home_of", lambda _: str(home))
    monkeypatch.setattr(probe.perf, "REST_S", 0.05)
    monkeypatch.setitem(probe.run.REQUEST, "until", time.monotonic() + 60)
    return probe


def test_the_gpus_that_nvml_reaches_are_measured_and_the_others_named(nvml: Any) -> None:
    found = nvml.perf.measurement()
    assert [device["index"] for device in found["devices"]] == [0, 1, 2, 3]
    answer = {"world": "2", "visible": "GPU-0,GPU-2"}
    reasons = [answer, "GPU is lost", answer, "Unknown Error"]
    for device, reason in zip(found["devices"], reasons, strict=True):
        for part in ("gemm", "memory", "copies", "amp", "triton"):
            assert device[part] == (reason if reason is answer else {"reason": "lost", "unknown": reason})
    assert [device["name"] for device in found["devices"]] == ["NVIDIA A100-SXM4-80GB", None] * 2
    assert found["all_reduce"] == {**answer, "environment": {}}


def test_programs_of_the_probe_see_the_cards_that_compute_and_are_reached(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nvml.device.selected() == {"CUDA_VISIBLE_DEVICES": "GPU-0,GPU-2"}
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(nvmlDeviceGetCount=2))
    assert nvml.device.selected() == {}, "all cards compute"


def test_a_card_that_is_made_to_draw_is_known_by_its_name(probe: Any) -> None:
    for name in ("NVIDIA DGX Display", "NVIDIA T400 4GB", "NVIDIA T1000 8GB", "Quadro P620", "Quadro P2200", "NVS 310"):
        assert probe.device.draws(name)
        assert probe.device.draws(name.encode())
    for name in ("Tesla P4", "Tesla T4", "NVIDIA T4G", "Quadro P6000", "NVIDIA RTX 4000 Ada Generation", "NVIDIA A100-SXM4-80GB"):
        assert not probe.device.draws(name)

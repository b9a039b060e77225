"""The process of the host and its workers, for real; NVML, PyTorch and the recipe are stand-ins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import psutil
import pytest

from provision.host import python
from provision.host.ssh import LOCALHOST
from provision.verify.bench import heard
from provision.verify.bench.figures import Measured, ToolMessage
from provision.verify.bench.heard import BenchRun
from provision.verify.bench.plan import BenchStep
from provision.watch.bench import run
from provision.watch.bench.run import BenchMoment, measure
from tests.waiting import until

from .stand_in import stand_ins


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    travel(monkeypatch)


def travel(monkeypatch: pytest.MonkeyPatch, *, busy: bool = False, lost: int | None = None) -> None:
    """Let the stand-ins travel with our modules."""
    loader, packed = run._modules()
    texts = {**json.loads(zlib.decompress(packed)), **stand_ins(busy=busy, lost=lost)}
    monkeypatch.setattr(run, "_modules", lambda: (loader, zlib.compress(json.dumps(texts).encode(), 1)))


def of(*steps: BenchStep, force: bool = False, interpreter: str = sys.executable, told: list[BenchMoment] | None = None) -> BenchRun:
    moments = told if told is not None else []
    return asyncio.run(measure(LOCALHOST, steps, interpreter=interpreter, force=force, told=lambda _, moment: moments.append(moment)))


def test_each_gpu_is_measured_alone_and_all_together_with_its_clocks_beside_the_figure() -> None:
    told: list[BenchMoment] = []
    done = of(BenchStep("toy", "each", 1), BenchStep("toy", "all", 1), told=told)
    assert (done.ended, done.error, done.refused) == (True, None, None)
    assert [(figure.gpu, figure.value, figure.alone) for figure in done.measured[:2]] == [(0, 100.0, True), (1, 101.0, True)]
    assert sorted((figure.gpu, figure.alone) for figure in done.measured[2:]) == [(0, False), (1, False)]
    load = done.measured[0].load
    assert load is not None
    assert (load.sm_mhz, load.power_w, load.temperature_c, load.reasons) == (1200, 300.0, None, {"4": 1.0})
    assert len({figure.detail["pid"] for figure in done.measured}) == 2
    assert [moment.ranks for moment in told] == [(0,), (1,), (0, 1)]
    assert told[0].left_s > told[2].left_s > 0
    assert done.start is not None
    assert [gpu.uuid for gpu in done.start.gpus] == ["GPU-0", "GPU-1"]


def test_a_worker_that_dies_costs_its_own_step_and_no_other() -> None:
    done = of(BenchStep("toy", "all", 1, {"dies": 1}), BenchStep("toy", "all", 1))
    assert [sorted(step.whys) for step in done.done] == [["1"], []]
    assert "the process ended" in done.done[0].whys["1"]
    assert sorted(figure.gpu for figure in done.measured) == [0, 0, 1]


def test_a_fault_on_the_gpu_is_named_and_the_next_step_gets_a_new_process() -> None:
    done = of(BenchStep("toy", "first", 1, {"breaks": True}), BenchStep("toy", "first", 1))
    assert [step.whys for step in done.done] == [{"0": "RuntimeError: CUDA error: an illegal memory access was encountered"}, {}]
    before, after = (figure.detail["pid"] for figure in done.measured)
    assert before != after


def test_a_recipe_that_raises_says_why_and_the_figures_before_it_stay() -> None:
    done = of(BenchStep("toy", "first", 1, {"raises": True}))
    assert done.done[0].whys == {"0": "RuntimeError: CUDA out of memory, it says"}
    assert (len(done.measured), done.ended) == (1, True)


def test_a_gpu_in_use_is_refused_with_who_uses_it_and_measured_only_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    travel(monkeypatch, busy=True)
    refused = of(BenchStep("toy", "first", 1)).refused
    assert refused is not None
    assert (refused.code, [holder[:2] for holder in refused.holders]) == ("busy", [(0, 1), (1, 1)])
    forced = of(BenchStep("toy", "first", 1), force=True)
    assert forced.start is not None
    assert ([holder[:2] for holder in forced.start.held], len(forced.measured)) == ([(0, 1), (1, 1)], 1)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_host_with_a_lost_gpu_is_refused_by_the_gpus_name(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    travel(monkeypatch, lost=lost)
    refused = of(BenchStep("toy", "first", 1), force=True).refused
    assert refused is not None
    assert (refused.code, refused.why) == ("lost", f"GPU {lost}: GPU is lost")


def test_a_host_without_that_python_is_refused() -> None:
    refused = of(BenchStep("toy", "first", 1), interpreter="/nowhere/bin/python").refused
    assert refused is not None
    assert refused.code == "no-torch"


def test_a_connection_that_closes_ends_the_process_there_and_its_workers_in_the_middle_of_a_recipe() -> None:
    crew = begun([BenchStep("toy", "all", 1, {"hangs": True}).order()])
    try:
        assert crew.stdin is not None
        assert crew.stdout is not None
        said = iter(lambda: json.loads(crew.stdout.readline().partition(b" ")[2]), None)  # type: ignore[union-attr]
        figures = (message for message in said if message["kind"] == "figure")
        workers = [next(figures)["detail"]["pid"] for _ in range(2)]
        assert all(psutil.pid_exists(worker) for worker in workers)
        crew.stdin.close()
        crew.wait(20)
        until(lambda: not any(running(worker) for worker in workers))
    finally:
        crew.kill()
        crew.wait()
        crew.stdout.close()  # type: ignore[union-attr]


def begun(steps: list[dict[str, Any]]) -> subprocess.Popen[bytes]:
    """The process of the host, with a connection that the test can close."""
    request = {
        "main": "crew",
        "nonce": "n",
        "python": sys.executable,
        "first": python.FIRST,
        "force": False,
        "processor": False,
        "steps": steps,
    }
    parts = (*run._modules(), json.dumps(request).encode())
    crew = subprocess.Popen([sys.executable, "-IBc", python.FIRST], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert crew.stdin is not None
    crew.stdin.write(b"".join(python.piece(part) for part in parts))
    crew.stdin.flush()
    return crew


def running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


PROGRAM = """#!{python}
import os, signal, sys, time
print("asked", *sys.argv[1:], os.environ.get("NCCL_TESTS_SPLIT"), flush=True)
print("a first word", "and the last", sep=chr(10), file=sys.stderr)
{rest}
"""


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, rest: str, *names: str) -> None:
    """Programs of others, first on PATH."""
    for name in names:
        (folder / name).write_text(PROGRAM.format(python=sys.executable, rest=rest))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def said(monkeypatch: pytest.MonkeyPatch, *steps: BenchStep) -> tuple[BenchRun, dict[str, ToolMessage]]:
    """A run, and what the programs of others said in it."""
    messages: dict[str, ToolMessage] = {}

    def figures_of(message: ToolMessage) -> list[Measured]:
        messages[message.tool] = message
        return []

    monkeypatch.setattr(heard, "figures_of", figures_of)
    return of(*steps), messages


TOOL_STEPS = (BenchStep("dcgm", "host", 1), BenchStep("nccl", "host", 1))


def test_programs_of_others_are_asked_last_and_what_they_print_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NCCL_TESTS_SPLIT", "MOD 2")
    installed(monkeypatch, tmp_path, "sys.exit(226)", "dcgmi", "all_reduce_perf")
    run, messages = said(monkeypatch, *TOOL_STEPS, BenchStep("toy", "all", 1))
    assert (run.ended, [step.recipe for step in run.done]) == (True, ["toy", "dcgm", "nccl"])
    workers = [figure.detail["pid"] for figure in run.measured]
    assert len(workers) == 2
    dcgm, nccl = messages["dcgm"], messages["nccl"]
    assert (dcgm.path, dcgm.gpus, dcgm.code) == (f"{tmp_path}/dcgmi", 2, 226)
    assert (dcgm.output, dcgm.error) == ("asked diag -r 1 -j None\n", "and the last")
    assert nccl.output == "asked -b 1G -e 1G -g 2 -n 20 -w 5 -c 1 None\n"


def test_a_program_that_is_not_there_or_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reworded(monkeypatch, "dcgm", "dcgmi", "dcgmi-that-nobody-has")
    (tmp_path / "all_reduce_perf").write_text("no program")
    (tmp_path / "all_reduce_perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _, messages = said(monkeypatch, *TOOL_STEPS)
    assert (messages["dcgm"].path, messages["dcgm"].code) == ("", None)
    assert (messages["nccl"].path, messages["nccl"].code) == (f"{tmp_path}/all_reduce_perf", None)
    assert "Exec format error" in messages["nccl"].error


def test_a_program_that_floods_is_cut_and_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, "print('x' * 200_000)", "dcgmi")
    _, messages = said(monkeypatch, TOOL_STEPS[0])
    assert (messages["dcgm"].cut, messages["dcgm"].output, messages["dcgm"].code) == (True, "", 0)


def test_a_program_that_does_not_end_is_ended_with_what_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reworded(monkeypatch, "crew", "GRACE_S = 20", "GRACE_S = 1")
    rest = "import subprocess; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True); time.sleep(600)"
    installed(monkeypatch, tmp_path, rest, "dcgmi")
    _, messages = said(monkeypatch, TOOL_STEPS[0])
    assert messages["dcgm"].late
    until(lambda: not running(int(messages["dcgm"].output.splitlines()[1])))


def reworded(monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    """Let a module travel with other words in it."""
    loader, packed = run._modules()
    texts = json.loads(zlib.decompress(packed))
    assert old in texts[name]
    texts[name] = texts[name].replace(old, new)
    monkeypatch.setattr(run, "_modules", lambda: (loader, zlib.compress(json.dumps(texts).encode(), 1)))


def test_a_connection_that_closes_ends_a_program_of_others_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)", "dcgmi")
    crew = begun([BenchStep("dcgm", "host", 1).order()])
    try:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        assert crew.stdin is not None
        crew.stdin.close()
        crew.wait(20)
        until(lambda: not running(int((tmp_path / "pid").read_text())))
    finally:
        crew.kill()
        crew.wait()
        crew.stdout.close()  # type: ignore[union-attr]

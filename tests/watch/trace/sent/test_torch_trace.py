"""The wrapper around a user's program, as the host runs it, with a stand-in for PyTorch that tells what was done to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision.watch.trace.sent import torch_trace

TORCH = """
import os, sys, threading
def __getattr__(name):
    if name == "_inductor":
        print("inductor", flush=True)
        return 1
    raise AttributeError(name)
class cuda:
    used = False
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: cuda.used)
"""
PROFILER = """
import os, threading
class ProfilerActivity:
    CPU, CUDA = 1, 2
def say(what):
    print(what, "in the main thread" if threading.current_thread() is threading.main_thread() else "elsewhere", flush=True)
class profile:
    def __init__(self, activities): self.activities = activities
    def start(self):
        if os.environ.get("BROKEN"): raise RuntimeError("no CUPTI")
        say("start")
    def stop(self): say("stop")
    def export_chrome_trace(self, path): open(path, "w").write("trace")
"""
PROGRAM = """
import sys, time, torch
print(sys.argv[1:], __name__, flush=True)
time.sleep(0.15)
print("uses the GPU", flush=True)
torch.cuda.used = True
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: time.sleep(0.01)
print("over", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("torch")
    (made / "torch").mkdir()
    (made / "torch" / "__init__.py").write_text(TORCH)
    (made / "torch" / "profiler.py").write_text(PROFILER)
    (made / "program.py").write_text(PROGRAM)
    return made


def run(folder: Path, *words: str, **environment: str) -> tuple[int, list[str], str]:
    (folder / "out.json.gz").unlink(missing_ok=True)
    path = {**os.environ, "PYTHONPATH": str(folder), **environment}
    argv = [sys.executable, torch_trace.__file__, str(folder / "out.json.gz"), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder, env=path, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_delay_counts_from_the_first_use_of_the_gpu_and_the_duration_ends_the_program(folder: Path) -> None:
    code, said, _ = run(folder, "0.05", "0.1", "program.py", "30")
    expected = ["inductor", "['30'] __main__", "uses the GPU", "start in the main thread", "stop in the main thread"]
    assert (code, said) == (0, expected)
    assert (folder / "out.json.gz").read_text() == "trace"


def test_without_a_duration_the_trace_ends_with_the_program(folder: Path) -> None:
    code, said, _ = run(folder, "0", "0", "-m", "program", "0")
    assert (code, said[1], said[-2:]) == (0, "start in the main thread", ["over", "stop in the main thread"])
    assert (folder / "out.json.gz").exists()


def test_a_profiler_that_does_not_start_is_said_and_not_stopped(folder: Path) -> None:
    code, said, error = run(folder, "0", "0", "program.py", "0", BROKEN="1")
    assert (code, said[-1]) == (torch_trace.NO_PROFILER, "over")
    assert error == "PyTorch's profiler does not start: no CUPTI\n"


def test_a_program_that_ends_first_and_a_python_without_torch_are_said(folder: Path) -> None:
    _, _, error = run(folder, "20", "0", "program.py", "0")
    assert "before the delay was over" in error
    assert not (folder / "out.json.gz").exists()
    (folder / "bare").mkdir()
    (folder / "bare" / "program.py").write_text(PROGRAM)
    code, _, error = run(folder, "0", "0", "bare/program.py", "0", PYTHONPATH="")
    assert code == torch_trace.NO_TORCH
    assert "cannot be imported" in error

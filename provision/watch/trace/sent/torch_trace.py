"""Runs a Python program with PyTorch's profiler around a part of it. It travels to the host, so it knows nothing of gpuprov.

    python torch_trace.py OUT.json.gz DELAY_S DURATION_S SCRIPT [ARGS...]      (or -m MODULE [ARGS...])

The delay is counted from the moment the program first uses the GPU; the imports before it are nobody's bottleneck. A duration of 0
lasts until the program ends. One thread starts and stops the profiler, because PyTorch demands that both happen in the same thread.
"""

import importlib
import os
import runpy
import sys
import threading
import time
from typing import Any, List

NO_TORCH, NO_SCRIPT = 97, 98


def _profiler(torch: Any) -> Any:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    kwargs: Any = {"activities": activities}
    try:  # the ranges of all threads, not of ours alone; PyTorch 2.5 and later
        kwargs["experimental_config"] = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):
        pass
    return torch.profiler.profile(**kwargs)


class _Recorder(threading.Thread):
    def __init__(self, torch: Any, out: str, delay_s: float, duration_s: float) -> None:
        threading.Thread.__init__(self, daemon=True)
        self.torch, self.out, self.delay_s, self.duration_s = torch, out, delay_s, duration_s
        self.started, self.over, self.wrote = threading.Event(), threading.Event(), False

    def run(self) -> None:
        try:
            self._record()
        finally:
            self.started.set()

    def _record(self) -> None:
        cuda = self.torch.cuda
        if self.delay_s:
            self.started.set()
            while cuda.is_available() and not cuda.is_initialized() and not self.over.wait(0.02):
                pass
            if self.over.wait(self.delay_s):
                return
        profiler = _profiler(self.torch)
        profiler.start()
        self.started.set()
        self.over.wait(self.duration_s or None)
        profiler.stop()
        part = self.out + ".part.json.gz"
        profiler.export_chrome_trace(part)
        os.replace(part, self.out)
        self.wrote = True


def main(argv: List[str]) -> int:
    if len(argv) < 5 or (argv[4] == "-m" and len(argv) < 6):
        sys.stderr.write(__doc__)
        return 2
    out, delay_s, duration_s, program = os.path.abspath(argv[1]), float(argv[2]), float(argv[3]), argv[4:]
    module = program[0] == "-m"
    if not module and not os.path.isfile(program[0]):
        sys.stderr.write("no such script: %s\n" % program[0])
        return NO_SCRIPT
    sys.argv = program[1:] if module else program
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(program[0]))
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.profiler")
    except ImportError as error:
        sys.stderr.write("PyTorch cannot be imported: %s\n" % error)
        return NO_TORCH
    # The profiler looks for this module when it starts; imported there, it would meet half of the program's own imports in another thread.
    getattr(torch, "_inductor", None)
    recorder = _Recorder(torch, out, delay_s, duration_s)
    recorder.start()
    recorder.started.wait()
    began = time.time()
    try:
        if module:
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program[0], run_name="__main__")
    finally:
        recorder.over.set()
        recorder.join()
        if not recorder.wrote:
            sys.stderr.write(
                "no trace: the program ended after %.1f s, before the delay of %s s was over\n" % (time.time() - began, delay_s)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""Runs a Python program with PyTorch's profiler around a part of it. It travels to the host, so it knows nothing of gpuprov.

    python torch_trace.py OUT.json.gz DELAY_S DURATION_S SCRIPT [ARGS...]      (or -m MODULE [ARGS...])

The delay is counted from the moment the program first uses the GPU; the imports before it are nobody's bottleneck. After the duration
the program ends; a duration of 0 lasts until it ends by itself. The profiler starts and stops in the main thread, in the handler of a
timer's signal: started in another thread Kineto records no work of the GPU.
"""

import importlib
import os
import runpy
import signal
import sys
import time
from typing import Any, List

NO_TORCH, NO_SCRIPT, NO_PROFILER = 97, 98, 99


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


class _Recorder:
    def __init__(self, torch: Any, out: str, delay_s: float, duration_s: float) -> None:
        self.torch, self.out, self.delay_s, self.duration_s = torch, out, delay_s, duration_s
        self.profiler = None  # type: Any
        self.used_at = None  # type: Any
        self.wrote = self.failed = False

    def begin(self) -> None:
        signal.signal(signal.SIGALRM, self._tick)
        if self.delay_s:
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        else:
            self._start()

    def _tick(self, *_: Any) -> None:
        if self.profiler is not None:
            self.finish()
            raise SystemExit(0)
        cuda = self.torch.cuda
        if cuda.is_available() and not cuda.is_initialized():
            return
        self.used_at = self.used_at or time.monotonic()
        if time.monotonic() - self.used_at >= self.delay_s:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._start()

    def _start(self) -> None:
        profiler = _profiler(self.torch)
        try:
            profiler.start()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on and nothing is stopped that did not start
            sys.stderr.write("PyTorch's profiler does not start: %s\n" % error)
            self.failed = True
            return
        self.profiler = profiler
        if self.duration_s:  # counted from here: the start itself may take seconds
            signal.setitimer(signal.ITIMER_REAL, self.duration_s)

    def finish(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        profiler.stop()
        part = self.out + ".part.json.gz"
        profiler.export_chrome_trace(part)
        os.replace(part, self.out)
        self.wrote = True


def main(argv: List[str]) -> int:
    if len(argv) < 5 or (argv[4] == "-m" and len(argv) < 6):
        sys.stderr.write(__doc__ or "")
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
    # The profiler's start asks for this module; its import takes seconds, and would meet half of the program's own imports.
    getattr(torch, "_inductor", None)
    recorder = _Recorder(torch, out, delay_s, duration_s)
    recorder.begin()
    began = time.time()
    try:
        if module:
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program[0], run_name="__main__")
    finally:
        recorder.finish()
        if not recorder.wrote and not recorder.failed:
            sys.stderr.write("no trace: the program ended after %.1f s, before the delay was over\n" % (time.time() - began))
    return NO_PROFILER if recorder.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

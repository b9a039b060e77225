"""What stands in the place of a GPU: an NVML and a PyTorch of a few lines, and recipes that need neither. They travel as our modules do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

NVML = """
import types
class NVMLError(Exception): pass
NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index):
    if index == LOST: raise NVMLError("GPU is lost")
    return index
def nvmlDeviceGetName(index): return b"NVIDIA H100 80GB HBM3"
def nvmlDeviceGetUUID(index): return "GPU-%d" % index
def nvmlDeviceGetPowerUsage(index): return 300000
def nvmlDeviceGetEnforcedPowerLimit(index): return 700000
def nvmlDeviceGetClockInfo(index, which): return 1200
def nvmlDeviceGetMaxClockInfo(index, which): return 1980
def nvmlDeviceGetCurrentClocksEventReasons(index): return 4
def nvmlDeviceGetTemperature(index, which): raise NVMLError("not supported")
def nvmlDeviceGetComputeRunningProcesses(index): return [types.SimpleNamespace(pid=1)] * BUSY
def nvmlDeviceGetUtilizationRates(index): return types.SimpleNamespace(gpu=0)
"""
TORCH = """
__version__ = "2.11.0"
class version: cuda = "13.0"
class cuda:
    is_available = staticmethod(lambda: True)
    set_device = empty_cache = staticmethod(lambda *_: None)
    broken = False
    @classmethod
    def synchronize(cls):
        if cls.broken: raise RuntimeError("CUDA error: an illegal memory access was encountered")
def device(*words): return words
"""
TOY = """
import os, time
class Window:
    since, until = time.monotonic() - 9, time.monotonic() + 9
def run(bench, seconds):
    if bench.known.get("dies") == bench.index:
        os._exit(7)
    time.sleep(0.25)
    bench.figure("rate", 100.0 + bench.index, "TFLOPS", Window, pid=os.getpid())
    if bench.known.get("breaks"):
        bench.torch.cuda.broken = True
    time.sleep(60 if bench.known.get("hangs") else 0)
    if bench.known.get("raises"):
        raise RuntimeError("CUDA out of memory, it says")
"""


def stand_ins(*, busy: bool = False, lost: int | None = None) -> dict[str, str]:
    """Module → text; `lost` is a GPU that NVML lists and does not reach."""
    return {"pynvml": NVML + f"BUSY, LOST = {int(busy)}, {lost}\n", "torch": TORCH, "toy": TOY}


DATA = Path(__file__).parents[2] / "data" / "bench"


def recorded(name: str) -> list[bytes]:
    """What an H100 said."""
    return (DATA / f"{name}.jsonl").read_bytes().splitlines()


# In the place of ssh: the last word but one is the destination, whose name says how the host behaves.
SSH = f"""#!{sys.executable}
import json, os, sys
name = sys.argv[-2]
stdin = sys.stdin.buffer
pieces = [stdin.read(int(stdin.readline())) for _ in range(3)]
nonce = json.loads(pieces[2])["nonce"]
if name.startswith("refused"):
    sys.stderr.write("ssh: connect to host x port 22: Connection refused\\n")
    sys.exit(255)
lines = open(os.path.join(os.path.dirname(__file__), "lines.jsonl")).read().splitlines()
if name.startswith("busy"):
    holder = [0, 41, "1000", "train.py \\x1b[31m"]
    lines = [json.dumps({{"kind": "refused", "code": "busy", "why": "a GPU is in use", "holders": [holder]}})]
if name.startswith("which"):
    lines = [json.dumps({{"kind": "refused", "code": "no-torch", "why": json.loads(pieces[2])["python"]}})]
if name.startswith("dies"):
    lines = lines[:5]
if name.startswith("lies"):
    lines[3] = lines[3].replace('"value": ', '"value": 1e999, "was": ')
print(nonce, json.dumps({{"kind": "hello", "machine": name}}), flush=True)
for line in lines:
    at = json.loads(line)
    if at["kind"] == "start":
        at["gpus"][0]["uuid"] = "GPU-" + name
    if at["kind"] == "figure" and at["value"] and name.startswith("slow"):
        at["value"] *= 0.96
    print(nonce, json.dumps(at) if at["kind"] in ("start", "figure") and not name.startswith("lies") else line, flush=True)
"""


def play_bench(folder: Path, lines: list[bytes]) -> Path:
    """A folder for PATH with such an `ssh`."""
    folder.mkdir()
    (folder / "lines.jsonl").write_bytes(b"\n".join(lines))
    (folder / "ssh").write_text(SSH)
    (folder / "ssh").chmod(0o755)
    return folder


def changed(lines: list[bytes], key: str, **changes: object) -> list[bytes]:
    """The lines with one figure changed: `load` and `detail` are merged into what they were."""
    answer = []
    for line in lines:
        message = json.loads(line)
        if message["kind"] == "figure" and f"{message['recipe']}.{message['name']}" == key:
            for name, change in changes.items():
                message[name] = {**(message.get(name) or {}), **change} if isinstance(change, dict) else change
        answer.append(json.dumps(message).encode())
    return answer

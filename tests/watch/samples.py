"""Samples made by hand, and programs that behave as a host behind ssh."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from provision.watch.sample import Sample, parse

GPU: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-1",
    "pci": "00000000:00:06.0",
    "driver": "595.71.05",
    "gpm": True,
    "memory_bytes": 80 << 30,
    "memory_used_bytes": 20 << 30,
    "memory_free_bytes": 60 << 30,
    "power_w": 300.0,
    "power_limit_w": 700.0,
    "energy_mj": 1_000_000,
    "sm_mhz": 1980,
    "sm_most_mhz": 1980,
    "memory_mhz": 2619,
    "temperature_c": 60,
    "reasons": 0,
    "kernel_present": 1.0,
    "memory_busy": 0.4,
    "sm_active": 0.87,
    "tensor_active": 0.5,
    "pcie_sent_bytes_s": 1e9,
    "pcie_received_bytes_s": 2e9,
    "ecc_uncorrected": 0,
    "rows_remapped": 0,
    "remap_failed": False,
}
IDLE = {
    "kernel_present": 0.0,
    "sm_active": 0.0,
    "tensor_active": 0.0,
    "power_w": 70.0,
    "pcie_sent_bytes_s": 0.0,
    "pcie_received_bytes_s": 0.0,
}
HOST: dict[str, Any] = {
    "cores": 16,
    "cpu_ticks": 1000,
    "cpu_idle_ticks": 900,
    "memory_bytes": 64 << 30,
    "memory_free_bytes": 32 << 30,
    "disk_read_bytes": 0,
    "disk_written_bytes": 0,
    "network_received_bytes": 0,
    "network_sent_bytes": 0,
    "root_bytes": 200 * 10**9,
    "root_free_bytes": 100 * 10**9,
    "load": 1.0,
    "up_s": 100.0,
}


def gpu(**changes: Any) -> dict[str, Any]:
    """A GPU's readings; a change to None leaves the reading out."""
    return {name: value for name, value in {**GPU, **changes}.items() if value is not None}


def entry(*gpus: dict[str, Any], number: int = 0, at: float = 1000.0, host: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A sample as the host's program prints it."""
    return {"number": number, "at": at, "host": {**HOST, **(host or {})}, "gpus": list(gpus), **more}


def sample(*gpus: dict[str, Any], number: int = 0, at: float = 1000.0, host: dict[str, Any] | None = None, **more: Any) -> Sample:
    """The same, read."""
    return parse(json.dumps(entry(*gpus, number=number, at=at, host=host, **more)).encode(), "h")


# In the place of ssh: the last word but one is the destination, whose name says how the host behaves. Nothing here is a real connection.
SSH = f"""#!{sys.executable}
import json, os, sys, time
name = sys.argv[-2]
stdin = sys.stdin.buffer
pieces = [stdin.read(int(stdin.readline())) for _ in range(4)]
request = json.loads(pieces[3])
template = json.loads(open(os.path.join(os.path.dirname(__file__), "sample.json")).read())
state = os.path.join(os.path.dirname(__file__), name + ".begun")
begun = os.path.exists(state)
open(state, "w").close()
if name.startswith("refused"):
    sys.stderr.write("ssh: connect to host x port 22: Connection refused\\n")
    sys.exit(255)
number = 0
while True:
    if name.startswith("stalls") and number == 2:
        time.sleep(600)
    if name.startswith("dies") and number == 2 and not begun:
        sys.exit(255)
    if name.startswith("lies") and number == 1:
        print(request["nonce"], json.dumps({{"number": -1, "gpus": "none"}}), flush=True)
    if name.startswith("floods") and number == 1:
        while True:
            sys.stdout.write("x" * 1000 + "\\n")
    if name.startswith("endless") and number == 1:
        while True:
            sys.stdout.write("x" * 65536)
    print("a banner that is not a sample")
    print(request["nonce"], json.dumps(dict(template, number=number, at=time.time())), flush=True)
    number += 1
    time.sleep(request["interval_s"])
"""


def play_ssh(folder: Path, *gpus: dict[str, Any], **more: Any) -> Path:
    """A folder for PATH with such an `ssh`; its hosts have these GPUs."""
    folder.mkdir()
    (folder / "sample.json").write_text(json.dumps(entry(*gpus, **more)))
    program = folder / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    return folder

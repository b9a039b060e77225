"""NVML and tools that answer as a test says."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Nvml(ModuleType):
    """NVML as an H100 answers (driver 580.159.04), with some answers changed; a callable answers by its arguments."""

    def __init__(self, **answers: Any) -> None:
        super().__init__("pynvml")
        self.real = importlib.import_module("pynvml")
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetApplicationsClock": lambda _, kind: 2619 if kind == self.real.NVML_CLOCK_MEM else 1980,
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetCurrentClocksEventReasons": 1,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceValidateInforom": None,
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:00:06.0"),
            "nvmlSystemGetCudaDriverVersion_v2": 13000,
            "nvmlSystemGetDriverVersion": b"580.159.04",
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in {"nvmlInit", "nvmlShutdown"}:
            return (lambda: None) if name in {"nvmlInit", "nvmlShutdown"} else getattr(self.real, name)

        def call(*arguments: Any) -> Any:
            answer = self.answers.get(name, self.real.NVMLError(self.real.NVML_ERROR_NOT_SUPPORTED))
            answer = answer(*arguments) if callable(answer) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def device(probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> dict[str, Any]:
    """The readings of the one GPU."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(**answers))
    monkeypatch.setattr(probe.gpu, "need_gpu", lambda: None)
    found: dict[str, Any] = probe.gpu.nvml()["devices"][0]
    assert all(set(reading) in ({"value"}, {"unknown"}) for reading in found.values())
    return found


def tool(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def endless_compiler(folder: Path) -> Path:
    """An nvcc that does not end; returns the file in which it writes its process. Its fact has made a folder by then."""
    pid = folder / "nvcc.pid"
    said = f"echo $$ > {pid}.new\nmv {pid}.new {pid}"
    tool(folder, "nvcc", f'[ "$1" = --list-gpu-code ] || exit 1\n{said}\nexec sleep 600')
    tool(folder, "setpriv", 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"')  # the user nobody cannot enter our folder
    return pid

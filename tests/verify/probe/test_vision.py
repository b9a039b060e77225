"""The probe's program for OpenCV, run against a stand-in of OpenCV that computes with NumPy, and one of NVIDIA's decoder."""

import json
import sys
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from provision.verify.facts.stack import OpenCvBuildFacts

pytest.importorskip("numpy")

# dnn multiplies by GAIN on "CUDA", and says on standard output what it leaves to the processor, as OpenCV does at level INFO.
CV2 = """
import os, numpy
from types import SimpleNamespace
__version__, INTER_AREA, error = "4.14.0", 3, RuntimeError
def resize(image, size, interpolation):
    high, wide = image.shape[0] // size[1], image.shape[1] // size[0]
    return image.reshape(size[1], high, size[0], wide).mean((1, 3)).round().astype(numpy.uint8)
def getBuildInformation():
    return "  NVIDIA CUDA:   YES (ver 13.0)\\n    NVIDIA GPU arch:   90\\n  cuDNN:   %s\\n" % os.environ["CUDNN"]
class cuda_GpuMat:
    def upload(self, image): self.image = image
    def download(self): return self.image
def there(mat, size, interpolation):
    small = cuda_GpuMat()
    small.image = resize(mat.image, size, interpolation)
    return small
cuda = SimpleNamespace(getCudaEnabledDeviceCount=lambda: 1, setDevice=lambda index: None, resize=there)
class Net:
    def setPreferableBackend(self, backend): self.backend = backend
    def setPreferableTarget(self, target): pass
    def setInput(self, image): assert image.shape == (1, 1, 16, 16)
    def forward(self):
        if self.backend == 5 and os.environ.get("FALLS_BACK"):
            os.write(int(os.environ["FALLS_BACK"][0]), os.environ["FALLS_BACK"][1:].encode() + b"\\n[ INFO:0] loaded\\n")
        return numpy.full((1, 2, 16, 16), 60228 / 512) * (float(os.environ["GAIN"]) if self.backend == 5 else 1)
targets = lambda backend: [6] if os.environ["CUDNN"].startswith("YES") else []
dnn = SimpleNamespace(DNN_TARGET_CUDA=6, DNN_BACKEND_CUDA=5, DNN_BACKEND_OPENCV=3, DNN_TARGET_CPU=0, getAvailableTargets=targets,
                      readNetFromONNX=lambda model: Net())
"""
DECODER = """
import ctypes, numpy
class SimpleDecoder:
    def __init__(self, data, gpu_id, use_device_memory):
        assert data[4:8] == b"ftyp" and not use_device_memory
        self.held = numpy.full((192, 128), 128, numpy.uint8)
        self.held[:128, :64], self.held[:128, 64:] = 60, 180
    def __len__(self): return 2
    def __getitem__(self, index): return self
    def framesize(self): return self.held.size
    def GetPtrToPlane(self, plane): return self.held.ctypes.data
"""


@pytest.fixture
def venv(probe: Any, tmp_path: Path, monkeypatch: Any) -> Path:
    """An environment with both stand-ins."""
    python = tmp_path / "venvs/opencv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "cv2.py").write_text(CV2)
    (tmp_path / "PyNvVideoCodec.py").write_text(DECODER)
    for name, value in {"PYTHONPATH": str(tmp_path), "CUDNN": "YES (ver 9.19.0)", "GAIN": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(probe.stack, "VENVS", str(tmp_path / "venvs"))
    return tmp_path


def seen(probe: Any) -> OpenCvBuildFacts:
    return OpenCvBuildFacts.model_validate_json(json.dumps(probe.vision.opencv()["found"]))


@pytest.mark.usefixtures("venv")
def test_an_image_a_network_and_a_frame_are_each_a_part_of_the_fact(probe: Any) -> None:
    build = seen(probe)
    assert (build.version, build.cuda, build.cudnn, build.arch_list) == ("4.14.0", True, True, ("90",))
    (device,) = build.devices
    assert device.dnn is not None
    assert device.decode is not None
    assert (device.sum, device.dnn.off, device.dnn.fell_back) == (build.sum, 0.0, "")
    assert device.dnn.total == pytest.approx(60228)
    assert (device.decode.left, device.decode.right) == (60.0, 180.0)


@pytest.mark.usefixtures("venv")
@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (1, "[ INFO:0] CUDA backend will fallback to the CPU implementation for the layer c"),
        (2, "[ WARN:0] DNN module was not built with CUDA backend; switching to CPU"),
        (2, "DNN: falling back to default implementation"),
    ],
)
def test_a_wrong_network_is_off_and_one_that_ran_on_the_processor_says_so(probe: Any, monkeypatch: Any, stream: int, said: str) -> None:
    monkeypatch.setenv("GAIN", "1.5")
    monkeypatch.setenv("FALLS_BACK", f"{stream}{said}")
    net = seen(probe).devices[0].dnn
    assert net is not None
    assert net.off == pytest.approx(0.5)
    assert net.fell_back == said


def test_a_part_that_fails_does_not_hide_the_others(probe: Any, venv: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CUDNN", "NO")
    (venv / "PyNvVideoCodec.py").unlink()
    build = seen(probe)
    device = build.devices[0]
    assert device.dnn is not None
    assert device.decode is not None
    assert (build.cudnn, device.sum, device.dnn.error) == (False, build.sum, "dnn lists no target for CUDA")
    assert device.decode.error == "No module named 'PyNvVideoCodec'"


def test_what_the_probe_carries_is_a_network_and_a_video(probe: Any) -> None:
    assert b"Conv" in zlib.decompress(b64decode(probe.vision.NET))
    assert b"avc1" in zlib.decompress(b64decode(probe.vision.CLIP))

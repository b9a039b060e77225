"""The shape of the facts about what is installed for the GPU: toolkit, libraries, profilers, frameworks, encoders."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from provision.verify.schema import Count, Fact

__all__ = [
    "Cudnn",
    "Cupti",
    "Encoders",
    "Extras",
    "FrameworkDevice",
    "FrameworkUsed",
    "Installed",
    "Jax",
    "Nvcc",
    "OpenCv",
    "OpenCvDevice",
    "OpenCvUsed",
    "Profilers",
    "PyTorch",
    "TensorFlow",
]


class Installed(BaseModel):
    """The compiler of the toolkit."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    path: str
    version: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    link: str


class Nvcc(Fact):
    """The compiler of the toolkit."""

    name = "nvcc"
    found: Installed | None


class Cudnn(Fact):
    """cuDNN by its header and as the loader finds it."""

    name = "cudnn"
    header: str | None
    library: Count | None


class Cupti(Fact):
    """CUPTI's files, what the loader's cache has, and the version that it answers."""

    name = "cupti"
    files: Annotated[tuple[str, ...], Field(strict=False)]
    cached: Annotated[tuple[str, ...], Field(strict=False)]
    version: Count | None


class Profilers(Fact):
    """Versions of the profilers."""

    name = "profilers"
    nsys: str | None
    ncu: str | None
    nvprof: str | None = None


class OpenCvDevice(BaseModel):
    """One GPU as OpenCV used it: the sum of the image that it made smaller."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    sum: int | None = None
    error: str = ""


class OpenCvUsed(BaseModel):
    """OpenCV after a real operation; `error` when it did not get there."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    version: str = ""
    sum: int | None = None
    cuda: bool = False
    arch_list: Annotated[tuple[str, ...], Field(strict=False)] = ()
    devices: Annotated[tuple[OpenCvDevice, ...], Field(strict=False)] = ()
    error: str = ""


class OpenCv(Fact):
    """OpenCV in its environment."""

    name = "opencv"
    found: OpenCvUsed | None


class FrameworkDevice(BaseModel):
    """One GPU as a framework used it: the product of two 256 x 256 matrices of ones sums to 256 ** 3."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    capability: str = ""
    product: float | None = None
    device: str = ""
    error: str = ""


class FrameworkUsed(BaseModel):
    """A framework after a real product; `error` when it did not get there."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    version: str = ""
    cuda: str | None = None
    arch_list: Annotated[tuple[str, ...], Field(strict=False)] = ()
    devices: Annotated[tuple[FrameworkDevice, ...], Field(strict=False)] = ()
    error: str = ""


class PyTorch(Fact):
    """PyTorch in its environment."""

    name = "pytorch"
    found: FrameworkUsed | None


class TensorFlow(Fact):
    """TensorFlow in its environment."""

    name = "tensorflow"
    found: FrameworkUsed | None


class Jax(Fact):
    """JAX in its environment."""

    name = "jax"
    found: FrameworkUsed | None


class Extras(Fact):
    """Environment → package → version, names normalised; and DCGM's version."""

    name = "extras"
    environments: dict[str, dict[str, str]]
    dcgm: str | None


class Encode(BaseModel):
    """What became of one frame that was given to the GPU's encoder; `code` is ffmpeg's exit code."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    code: int
    said: str


class Encoders(Fact):
    """The NVENC encoders that ffmpeg was built with, None without ffmpeg; and a real encode, None where none was tried."""

    name = "encoders"
    nvenc: Annotated[tuple[str, ...], Field(strict=False)] | None
    encode: Encode | None = None

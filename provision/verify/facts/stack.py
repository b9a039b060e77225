"""What is installed for the GPU: toolkit, libraries, profilers, frameworks, encoders."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Count, Fact, FactPart


class Compiler(FactPart):
    """The compiler of the toolkit."""

    path: str
    version: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    link: str


class NvccFacts(Fact):
    """The compiler of the toolkit."""

    name = "nvcc"
    compiler: Compiler | None = Field(alias="found")


class CudnnFacts(Fact):
    """cuDNN by its header and as the loader finds it."""

    name = "cudnn"
    header: str | None
    library: Count | None


class CuptiFacts(Fact):
    """CUPTI's files, what the loader's cache has, and the version that it answers."""

    name = "cupti"
    files: tuple[str, ...]
    cached: tuple[str, ...]
    version: Count | None


class ProfilersFacts(Fact):
    """Versions of the profilers."""

    name = "profilers"
    nsys: str | None
    ncu: str | None
    nvprof: str | None = None


class OpenCvDevice(FactPart):
    """One GPU as OpenCV used it: the sum of the image that it made smaller."""

    sum: int | None = None
    error: str = ""


class OpenCvBuild(FactPart):
    """OpenCV after a real operation; `error` when it did not get there."""

    version: str = ""
    sum: int | None = None
    cuda: bool = False
    arch_list: tuple[str, ...] = ()
    devices: tuple[OpenCvDevice, ...] = ()
    error: str = ""


class OpenCvFacts(Fact):
    """OpenCV in its environment."""

    name = "opencv"
    build: OpenCvBuild | None = Field(alias="found")


class FrameworkDevice(FactPart):
    """One GPU as a framework used it: the product of two 256 x 256 matrices of ones sums to 256 ** 3."""

    capability: str = ""
    product: float | None = None
    device: str = ""
    error: str = ""


class FrameworkBuild(FactPart):
    """A framework after a real product; `error` when it did not get there."""

    version: str = ""
    cuda: str | None = None
    arch_list: tuple[str, ...] = ()
    devices: tuple[FrameworkDevice, ...] = ()
    error: str = ""


class PyTorchFacts(Fact):
    """PyTorch in its environment."""

    name = "pytorch"
    build: FrameworkBuild | None = Field(alias="found")


class TensorFlowFacts(Fact):
    """TensorFlow in its environment."""

    name = "tensorflow"
    build: FrameworkBuild | None = Field(alias="found")


class JaxFacts(Fact):
    """JAX in its environment."""

    name = "jax"
    build: FrameworkBuild | None = Field(alias="found")


class ExtrasFacts(Fact):
    """Environment → package → version, names normalised; and DCGM's version."""

    name = "extras"
    environments: dict[str, dict[str, str]]
    dcgm: str | None


class Encode(FactPart):
    """What became of one frame that was given to the GPU's encoder; `code` is ffmpeg's exit code."""

    code: int
    message: Annotated[str, Field(alias="said")]


class EncodersFacts(Fact):
    """The NVENC encoders that ffmpeg was built with, None without ffmpeg; and a real encode, None where none was tried."""

    name = "encoders"
    nvenc: tuple[str, ...] | None
    encode: Encode | None = None

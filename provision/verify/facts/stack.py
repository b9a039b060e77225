"""What is installed for the GPU: toolkit, libraries, profilers, frameworks, encoders."""

from typing import Annotated, Final, Literal

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


class NvccDevice(FactPart):
    """One GPU as a program of nvcc's used it: its architecture, that of the machine code that ran, and what the kernel added up."""

    capability: str
    built_for: Annotated[str, Field(alias="code")]
    sum: int
    error: str = ""  # the name of CUDA's error, empty for none


NvccStep = Literal["find", "list", "host-compiler", "compile", "run"]


class NvccTrial(FactPart):
    """How far a program got that the toolkit's compiler was given: the last step and its exit code."""

    step: NvccStep
    code: int
    message: Annotated[str, Field(alias="said")]
    lists: tuple[str, ...]  # the architectures that nvcc has
    gpus: tuple[str, ...]  # those of the host's GPUs
    built: tuple[str, ...]  # those that the program was compiled for
    as_root: bool
    error: str = ""

    @property
    def ended(self) -> str:
        """How the last step ended."""
        return f"{self.step} ended with {self.code}: {self.message or 'without a word'}"


class NvccRunFacts(NvccTrial, Fact):
    """How far a kernel got that the toolkit's compiler was given, and what the GPUs made of it."""

    name = "nvcc_runs"
    devices: tuple[NvccDevice, ...]


class CudnnFacts(Fact):
    """cuDNN by its header and as the loader finds it."""

    name = "cudnn"
    header: str | None
    library: Count | None

    @property
    def version(self) -> tuple[int, int, int] | None:
        """The version of the library, whose encoding changed with cuDNN 9: docs/sources/verification.md §2.9."""
        if self.library is None:
            return None
        unit = 10_000 if self.library >= 90_000 else 1_000  # noqa: PLR2004
        return self.library // unit, self.library % unit // 100, self.library % 100


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

    def unreadable(self, name: str) -> bool:
        """Whether a profiler is there, and its version could not be read; the fact then holds `unreadable: ` and its output."""
        return (getattr(self, name) or "").startswith("unreadable")


class OpenCvNetwork(FactPart):
    """A network on the GPU: how far its result is off that of the processor, whose absolute values add up to `total`."""

    off: float | None = None
    total: float | None = None
    fell_back: str = ""  # what OpenCV said of layers that did not run on the GPU
    error: str = ""


class OpenCvFrame(FactPart):
    """A frame that the GPU's decoder decoded: the mean of its left and its right half."""

    left: float | None = None
    right: float | None = None
    error: str = ""


class OpenCvDevice(FactPart):
    """One GPU as OpenCV used it: the sum of the image that it made smaller, a network and a frame."""

    sum: int | None = None
    error: str = ""
    dnn: OpenCvNetwork | None = None
    decode: OpenCvFrame | None = None


class OpenCvBuildFacts(FactPart):
    """OpenCV after a real operation; `error` when it did not get there."""

    version: str = ""
    sum: int | None = None
    cuda: bool = False
    cudnn: bool = False
    arch_list: tuple[str, ...] = ()
    devices: tuple[OpenCvDevice, ...] = ()
    error: str = ""


class OpenCvFacts(Fact):
    """OpenCV in its environment."""

    name = "opencv"
    build: OpenCvBuildFacts | None = Field(alias="found")


class FrameworkDevice(FactPart):
    """One GPU as a framework used it: the product of two 256 x 256 matrices of ones sums to 256 ** 3."""

    capability: str = ""
    product: float | None = None
    device: str = ""
    error: str = ""


class FrameworkBuildFacts(FactPart):
    """A framework after a real product; `error` when it did not get there, `message` what it said where it saw no GPU."""

    version: str = ""
    cuda: str | None = None
    arch_list: tuple[str, ...] = ()
    devices: tuple[FrameworkDevice, ...] = ()
    error: str = ""
    message: Annotated[str, Field(alias="said")] = ""


class FrameworkFacts(Fact):
    """A framework in its environment, None where there is no such environment; the fact has the framework's name."""

    build: FrameworkBuildFacts | None = Field(alias="found")
    home: str = ""  # the folder of the environment


class ExtrasFacts(Fact):
    """Environment → package → version, names normalised; DCGM's version, and that of TensorRT's library."""

    name = "extras"
    environments: dict[str, dict[str, str]]
    dcgm: str | None
    nvinfer: str | None = None


EncodeError = Literal["no-library", "no-driver", "old-driver", "no-encoder", "busy", "other"]
# What ffmpeg prints (libavcodec/nvenc.c); its exit code does not tell these apart.
_ENCODE_ERRORS: Final[tuple[tuple[str, EncodeError], ...]] = (
    ("Cannot load libnvidia-encode", "no-library"),
    ("Cannot load libcuda", "no-driver"),
    ("Driver does not support the required nvenc API", "old-driver"),
    ("No capable devices found", "no-encoder"),
    # All sessions are taken, or no memory is left for one: the encoder works, at the moment for another program.
    ("out of memory", "busy"),
    ("incompatible client key", "busy"),
    ("No free encoding session", "busy"),
)


class Encode(FactPart):
    """What became of one frame that was given to the GPU's encoder; `code` is ffmpeg's exit code."""

    code: int
    message: Annotated[str, Field(alias="said")]

    @property
    def error(self) -> EncodeError | None:
        """Why the frame was not encoded; None where it was."""
        if self.code == 0:
            return None
        return next((kind for words, kind in _ENCODE_ERRORS if words in self.message), "other")


class EncodersFacts(Fact):
    """The NVENC encoders that ffmpeg was built with, None without ffmpeg; and a real encode, None where none was tried."""

    name = "encoders"
    nvenc: tuple[str, ...] | None
    encode: Encode | None = None

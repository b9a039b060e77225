"""The software that a profile asks for: the keys of `stack`."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from provision.profile.strings import AbsolutePath, FileName, RayHead, VersionOrAuto, WheelVersionOrAuto
from provision.strict import StrictModel, later

# Ports that Ray takes by itself: of its client, its workers (10002 to 19999), its dashboard and the agent of that.
_OF_RAY: Final = (range(10_001, 20_000), range(8265, 8266), range(52_365, 52_366))

# The names in catalog/data/extras.yaml; a test checks that they are the same.
Extra = Literal["triton", "nccl", "nvtx", "dali", "cutlass", "dcgm", "opencl", "tensorrt", "transformer-engine", "flash-attn", "apex"]


class Frameworks(StrictModel):
    """Machine-learning frameworks. One without a version is not installed."""

    pytorch: WheelVersionOrAuto | None = None
    """The release of PyTorch. Fix it where a program needs one; its wheels decide which CUDA libraries it brings."""
    tensorflow: VersionOrAuto | None = None
    """The release of TensorFlow, in an environment of its own."""
    jax: VersionOrAuto | None = None
    """The release of JAX, in an environment of its own."""


class OwnPython(StrictModel):
    """A team's own packages in the framework's environment, or the environment of an image.

    `requirements` or `pylock` names a file beside the profile. With `prefix`, such as /opt/pytorch, PyTorch is the image's own: it is
    verified there, and nothing is installed into it.
    """

    requirements: FileName | None = None
    """A requirements file beside the profile. Its packages join the framework's environment, and the lock pins each with its hash."""
    pylock: FileName | None = None
    """A pylock.toml beside the profile, for a whole environment that your own tools have resolved."""
    prefix: AbsolutePath | None = None
    """The environment that an image has already. It is verified, and nothing is installed into it."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if sum(each is not None for each in (self.requirements, self.pylock, self.prefix)) != 1:
            msg = "stack.python names one of requirements, pylock and prefix; nothing is installed into a prefix"
            raise ValueError(msg)
        return self

    @property
    def file(self) -> str | None:
        """The file beside the profile; None with a prefix."""
        return self.requirements or self.pylock


class RayCluster(StrictModel):
    """The Ray cluster that the machine is in. Ray itself is one of the packages of `stack.python`, and so the lock pins it.

    Ray asks for no password here: whoever reaches the head's port can run programs on all machines of the cluster.
    """

    head: RayHead
    """Which machine is the head: `self` for this one, otherwise the private address or the host name of the one that exists."""
    port: Annotated[int, Field(ge=1024, le=65_535)] = 6379
    """The port of the head. Change it where another program has it, on every machine of the cluster alike."""

    @field_validator("port")
    @classmethod
    def _is_no_other_of_ray_s(cls, value: int) -> int:
        if any(value in taken for taken in _OF_RAY):
            msg = "Ray takes the ports 8265, 10001 to 19999 and 52365 for other things; choose another one, such as 6379"
            raise ValueError(msg)
        return value

    @property
    def is_head(self) -> bool:
        """Whether this machine is the head."""
        return self.head == "self"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What Ray is started with, as the host's unit has it (https://docs.ray.io/en/latest/cluster/cli.html#ray-start)."""
        # The dashboard can run programs as well, so that only this machine reaches it.
        here = ("--head", f"--port={self.port}", "--dashboard-host=127.0.0.1")
        return ("start", "--block", *(here if self.is_head else (f"--address={self.head}:{self.port}",)), "--disable-usage-stats")


class Stack(StrictModel):
    """The software. `auto` is the newest supported version that works on this GPU.

    `opencv: wheel` is without CUDA; `cuda` is built from source on each host, for this GPU's compute capability alone.
    `driver_build: dkms` builds the kernel modules on the host, `signed` takes those that the distribution signed, so that Secure Boot
    can stay on; `auto` is signed where `os.secure_boot` is required, and dkms otherwise.
    `containers: podman` runs containers without root; docker's service is root, and so is in effect each member of its group.
    """

    driver: VersionOrAuto = "auto"
    """The branch of NVIDIA's driver. Fix it where a program or the organisation needs that one."""
    driver_flavour: Literal["auto", "open", "proprietary"] = "auto"
    """Open or proprietary kernel modules. GPUs since Turing can have open ones, those since Blackwell need them."""
    driver_build: Literal["auto", "dkms", "signed"] = later("auto")
    """Who builds the kernel modules: DKMS on the host, or the distribution, which signs them for Secure Boot."""
    cuda: VersionOrAuto = "auto"
    """The release of the CUDA toolkit. Fix it where code is compiled for one release."""
    cudnn: Literal["none"] | VersionOrAuto = "auto"
    """The release of cuDNN for programs that are compiled on the machine. The wheels of frameworks bring their own."""
    frameworks: Frameworks = Frameworks()
    """The frameworks that are installed."""
    opencv: Literal["wheel", "cuda", "none"] = "none"
    """Whether OpenCV is installed, and how. `cuda` is built on each host, which takes long."""
    ffmpeg: bool = False
    """Whether FFmpeg is installed, with the encoders of the GPU where it has them."""
    tools: Annotated[tuple[Literal["gcc", "make", "cmake", "git", "tmux"], ...], Field(max_length=20, strict=False)] = (
        "gcc",
        "make",
        "git",
        "tmux",
    )
    """Compilers and tools of the distribution."""
    profilers: Annotated[tuple[Literal["nsys", "ncu", "nvprof"], ...], Field(max_length=5, strict=False)] = ()
    """NVIDIA's profilers. `ncu` looks at one kernel, `nsys` at a whole program, `nvprof` at cards before Turing."""
    extras: Annotated[tuple[Extra, ...], Field(max_length=20, strict=False)] = ()
    """Further libraries for programs that need them. Each adds to what is downloaded and reviewed."""
    containers: Literal["none", "podman", "docker"] = later("none")
    """What runs containers with the GPU. podman needs no root; a member of the group of docker is in effect root."""
    python: OwnPython | None = later(None)
    """A team's own packages."""
    ray: RayCluster | None = later(None)
    """The Ray cluster that the machine joins, or is the head of. Its packages must have Ray among them."""

    @model_validator(mode="after")
    def _has_a_ray_to_start(self) -> Self:
        if self.ray is not None and (self.python is None or self.python.file is None):
            msg = "stack.ray needs Ray among the packages of stack.python, in its requirements or pylock, so that the lock pins it"
            raise ValueError(msg)
        return self

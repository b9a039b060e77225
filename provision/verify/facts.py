"""What was observed, typed: each fact is a value that holds its model, or unknown with the reason.

A fact that is missing, malformed or absurd is unknown as well, so that no check can take it for an observation.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from provision.errors import FactsInvalidError

__all__ = [
    "Clocks",
    "Counters",
    "Cudnn",
    "Cupti",
    "Driver",
    "Encoders",
    "Fact",
    "Facts",
    "FileSystems",
    "Gpu",
    "Identity",
    "Kernel",
    "NotObservedError",
    "Nvcc",
    "Nvml",
    "OpenCv",
    "Persistenced",
    "Profilers",
    "PyTorch",
    "Python3",
    "Reading",
    "Release",
    "Sessions",
    "TensorFlow",
    "Tool",
    "Users",
    "dump",
    "load",
    "parse",
]

SCHEMA: Final = "gpuprov-facts/1"
_MAX_BYTES: Final = 16 * 1024 * 1024


class NotObservedError(Exception):
    """A check asked for a fact that nobody observed; `judge` turns it into an unknown finding."""


class Fact(BaseModel):
    """The base of all facts; `name` is the key in the facts file. Unknown keys are of a newer probe, and ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    name: ClassVar[str]


F = TypeVar("F", bound=Fact)
Count = Annotated[int, Field(ge=0)]
Mhz = Annotated[int, Field(gt=0, lt=100_000)]


class Reading(BaseModel):
    """One reading of NVML: a value, or the library's reason for none."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    value: int | float | str | None = None
    unknown: str | None = None


class Release(Fact):
    """What os-release says."""

    name = "os"
    id: Annotated[str, Field(min_length=1)]
    version_id: str
    pretty: str
    stand_in: bool


class Kernel(Fact):
    """Release and machine of the kernel."""

    name = "kernel"
    release: Annotated[str, Field(min_length=1)]
    machine: Annotated[str, Field(min_length=1)]


class Identity(Fact):
    """As whom the facts were gathered, and in which boot."""

    name = "identity"
    user: Annotated[str, Field(min_length=1)]
    uid: Count
    boot_id: str
    over_ssh: bool


class Python3(Fact):
    """The host's own python3, which ran the probe."""

    name = "python3"
    version: Annotated[str, Field(pattern=r"^3\.\d+")]


class Found(BaseModel):
    """A tool: where it is, and its version."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    path: Annotated[str, Field(pattern=r"^/")]
    version: Annotated[str, Field(pattern=r"^\d")]


class Tool(Fact):
    """A family of facts: `tool_gcc`, `tool_tmux`, …; asked for with `Facts.tool`."""

    name = "tool_"
    found: Found | None


class Users(Fact):
    """The people who can log in."""

    name = "users"
    names: tuple[str, ...]


class FileSystem(BaseModel):
    """One mounted file system."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    source: str
    target: Annotated[str, Field(pattern=r"^/")]
    type: Annotated[str, Field(min_length=1)]
    size_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    free_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    owner: str
    mode: Count
    writable: bool
    at_boot: bool | None


class FileSystems(Fact):
    """Every mounted file system that keeps data."""

    name = "file_systems"
    mounted: tuple[FileSystem, ...]

    def at(self, target: str) -> FileSystem | None:
        """The file system mounted last at a path."""
        return next((fs for fs in reversed(self.mounted) if fs.target == target), None)


class Sessions(Fact):
    """PATH as each kind of session has it (None: not seen), and the loader's folders."""

    name = "sessions"
    login: str | None
    ssh: str | None
    service: str | None
    loader: Annotated[tuple[str, ...], Field(strict=False)]


class Gpu(Fact):
    """What speaks for an NVIDIA GPU on the host."""

    name = "gpu"
    pci: Annotated[tuple[str, ...], Field(strict=False)]
    nodes: Annotated[tuple[str, ...], Field(strict=False)]
    readable: bool
    module: bool
    nouveau: bool

    @property
    def exists(self) -> bool:
        """Whether anything speaks for an NVIDIA GPU."""
        return bool(self.pci or self.nodes or self.module)


class Device(BaseModel):
    """One GPU as NVML sees it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    name: Reading = Reading(unknown="not read")
    memory_mib: Reading = Reading(unknown="not read")
    capability: Reading = Reading(unknown="not read")
    persistence: Reading = Reading(unknown="not read")
    app_memory_mhz: Reading = Reading(unknown="not read")
    app_graphics_mhz: Reading = Reading(unknown="not read")
    max_memory_mhz: Reading = Reading(unknown="not read")
    max_graphics_mhz: Reading = Reading(unknown="not read")


class Nvml(Fact):
    """The driver's own library on itself and each device."""

    name = "nvml"
    driver: Reading
    cuda: Reading
    devices: Annotated[tuple[Device, ...], Field(strict=False)]


class Driver(Fact):
    """The driver's version where it is loaded, installed and used; None where it was not found."""

    name = "driver"
    loaded: str | None
    installed: str | None
    nvidia_smi: str | None
    nvidia_smi_said: str


class AsUser(BaseModel):
    """What an ordinary user got when she asked for counters."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    outcome: str
    user: str | None
    said: str


class Counters(Fact):
    """Access to performance counters in its three layers; None where a layer says nothing."""

    name = "counters"
    on_disk: Annotated[str, Field(pattern=r"^[01]$")] | None
    live: Annotated[str, Field(pattern=r"^[01]$")] | None
    as_user: AsUser


class Unit(Fact):
    """A systemd unit."""

    exists: bool
    enabled: bool
    active: bool
    command: str


class Persistenced(Unit):
    """The persistence daemon."""

    name = "persistence_unit"


class Clocks(Unit):
    """The unit that sets clocks at boot."""

    name = "clocks_unit"


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


class OpenCvUsed(BaseModel):
    """OpenCV after a real operation; `error` when it did not get there."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    version: str = ""
    sum: int | None = None
    cuda: bool = False
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


class Encoders(Fact):
    """The NVENC encoders that ffmpeg was built with; None without ffmpeg."""

    name = "encoders"
    nvenc: Annotated[tuple[str, ...], Field(strict=False)] | None


# Facts whose value is a bare list in the file, and the field that holds it here.
_LISTS: Final = {"users": "names", "file_systems": "mounted"}


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one observation, as the probe sent them; `read` makes one of them typed.

    Attributes:
        gathered_at: ISO 8601 UTC by the host's clock; empty when unknown.
        elapsed_s: seconds that the probe took on the host.
        raw: name → {"value": …} or {"unknown": reason}.
    """

    gathered_at: str
    elapsed_s: float
    raw: dict[str, Any]

    def read(self, kind: type[F], name: str = "") -> F:
        """One fact.

        Raises:
            NotObservedError: it is not there, unknown, or not of its shape.
        """
        name = name or kind.name
        answer = self.raw.get(name)
        if not isinstance(answer, dict) or ("value" not in answer and "unknown" not in answer):
            msg = f"the probe sent no fact {name!r}"
            raise NotObservedError(msg)
        if "value" not in answer:
            raise NotObservedError(str(answer["unknown"]))
        value = answer["value"]
        try:
            # JSON mode: in JSON an array is the only sequence there is.
            return kind.model_validate_json(json.dumps({_LISTS[name]: value} if name in _LISTS else value))
        except (ValidationError, ValueError, TypeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            where = ".".join(map(str, first["loc"]))
            msg = f"the fact {name!r} is malformed at {where or 'its top'}: {first['msg']}"
            raise NotObservedError(msg) from error

    def tool(self, name: str) -> Found | None:
        """Where a tool is, None if it is not there.

        Raises:
            NotObservedError: nobody looked.
        """
        return self.read(Tool, f"tool_{name}").found


def parse(data: Any, origin: str) -> Facts:
    """Facts from JSON data.

    Raises:
        FactsInvalidError: it is none, or of another version.
    """
    hint = "make one with `gpuprov probe HOST > facts.json`"
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        msg = f"{origin} holds no facts of version {SCHEMA}"
        raise FactsInvalidError(msg, hint=hint)
    gathered, elapsed, raw = data.get("gathered_at"), data.get("elapsed_s"), data.get("facts")
    if not isinstance(gathered, str) or not isinstance(elapsed, int | float) or not isinstance(raw, dict):
        msg = f"{origin} holds broken facts: gathered_at, elapsed_s or facts is not what it should be"
        raise FactsInvalidError(msg, hint=hint)
    return Facts(gathered, float(elapsed), raw)


def dump(facts: Facts) -> str:
    """The facts file of an observation."""
    data = {"schema": SCHEMA, "gathered_at": facts.gathered_at, "elapsed_s": facts.elapsed_s, "facts": facts.raw}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def load(path: Path) -> Facts:
    """Read a facts file; `-` is standard input.

    Raises:
        FactsInvalidError: it cannot be read, or holds no facts.
    """
    try:
        raw = sys.stdin.buffer.read(_MAX_BYTES + 1) if str(path) == "-" else path.read_bytes()[: _MAX_BYTES + 1]
        if len(raw) > _MAX_BYTES:
            msg = f"{path} is larger than facts can be"
            raise FactsInvalidError(msg, hint="make one with `gpuprov probe HOST > facts.json`")
        return parse(json.loads(raw), str(path))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint="make one with `gpuprov probe HOST > facts.json`") from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is no JSON: {str(error)[:100]}"
        raise FactsInvalidError(msg, hint="make one with `gpuprov probe HOST > facts.json`") from error

"""Kernels that are not PyTorch's: a product of CUTLASS's, and a sum of OpenCL's."""

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Count, Fact, FactPart
from provision.verify.facts.stack import NvccTrial


class ProductDevice(FactPart):
    """One GPU as CUTLASS used it: its architecture, that of the machine code that ran, and how many of the product's sums are wrong."""

    capability: str
    built_for: Annotated[str, Field(alias="code")]
    sums: Count
    wrong: Count
    error: str = ""


class CutlassTrial(NvccTrial):
    """How far the product got, and what the GPUs made of it; the release is that of the headers, empty before the program has run."""

    release: str = ""
    devices: tuple[ProductDevice, ...]


class CutlassFacts(Fact):
    """A product of CUTLASS's, None where there are no headers."""

    name = "cutlass"
    trial: CutlassTrial | None = Field(alias="found")


class OpenClDevice(FactPart):
    """One GPU as OpenCL used it: how many of the sums are wrong."""

    device: Annotated[str, Field(alias="name")]
    sums: Count
    wrong: Count
    error: str = ""


class OpenClRun(FactPart):
    """What the loader knows, and what became of the kernel on each device of NVIDIA's platform."""

    loader: bool
    platforms: tuple[str, ...]
    devices: tuple[OpenClDevice, ...]
    error: str = ""


class OpenClFacts(Fact):
    """The loader's list of drivers (file → its line), NVIDIA's libraries, and a run; None where the program did not end by itself."""

    name = "opencl"
    named: dict[str, str]
    libraries: tuple[str, ...]
    code: int
    message: Annotated[str, Field(alias="said")]
    run: OpenClRun | None

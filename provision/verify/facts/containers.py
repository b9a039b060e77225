"""What is installed for containers, and what a small CUDA program answered in one."""

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Fact, FactPart, UnitFacts


class DockerSettings(FactPart):
    """What docker's own file says: the runtimes that it knows, whether it takes devices of CDI, and whether systemd has its cgroups."""

    runtimes: tuple[str, ...]
    cdi: bool
    systemd: bool = False


class ContainersFacts(Fact):
    """The versions of engines and toolkit, None where there is none; its units, the GPUs that it lists for CDI, its runtime's mode."""

    name = "containers"
    engines: dict[str, str | None]
    toolkit: str | None
    refresh: dict[str, UnitFacts]
    devices: tuple[str, ...]
    docker: DockerSettings | None
    runtime_mode: str = "auto"


class ContainerDevice(FactPart):
    """One GPU as the program used it: what its threads added up."""

    sum: int | None = None
    error: str = ""


class ContainerProgram(FactPart):
    """The program's answer: the library that it found, and the GPUs that it computed on."""

    uid: int
    library: str
    error: str
    devices: tuple[ContainerDevice, ...]


class ContainerCounters(FactPart):
    """What ncu said in the container of the performance counters: `open`, `refused` or `failed`."""

    outcome: str
    message: Annotated[str, Field(alias="said")]


class ContainerRunFacts(Fact):
    """One container; `code` is the engine's exit code, `way` how it was given GPUs, and `own_pids` whether its process ids were its own."""

    name = "container_run"
    engine: str
    code: int
    message: Annotated[str, Field(alias="said")]
    way: str
    own_pids: bool
    program: ContainerProgram | None
    counters: ContainerCounters | None

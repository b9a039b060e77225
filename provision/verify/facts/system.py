"""The system: release, kernel, who looked, Python, tools, people, clock."""

from typing import Annotated, Literal

from pydantic import Field

from provision.verify.facts.base import Count, Fact, FactPart, Facts


class ReleaseFacts(Fact):
    """What os-release says."""

    name = "os"
    id: Annotated[str, Field(min_length=1)]
    version_id: str
    pretty: str
    stand_in: bool


class KernelFacts(Fact):
    """Release and machine of the kernel."""

    name = "kernel"
    release: Annotated[str, Field(min_length=1)]
    machine: Annotated[str, Field(min_length=1)]


class IdentityFacts(Fact):
    """As whom the facts were gathered, and in which boot."""

    name = "identity"
    user: Annotated[str, Field(min_length=1)]
    uid: Count
    boot_id: str
    over_ssh: bool


class Python3Facts(Fact):
    """The host's own python3, which ran the probe; facts of the first releases have no path."""

    name = "python3"
    version: Annotated[str, Field(pattern=r"^3\.\d+")]
    path: str | None = None


class InstalledTool(FactPart):
    """A tool: where it is, and its version."""

    path: Annotated[str, Field(pattern=r"^/")]
    version: Annotated[str, Field(pattern=r"^\d")]


class ToolFacts(Fact):
    """A family of facts: `tool_gcc`, `tool_tmux`, …; see `tool`."""

    name = "tool_"
    program: InstalledTool | None = Field(alias="found")


class UsersFacts(Fact):
    """The people who can log in."""

    name = "users"
    bare = "names"
    names: tuple[str, ...]


class ClockFacts(Fact):
    """How long the host is up, and whether its clock follows a time server; None where nothing says."""

    name = "clock"
    up_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    synchronised: bool | None


class MachineFacts(Fact):
    """What an engine for workloads asks of a host.

    Attributes:
        cpus: that the kernel schedules on; with hyper-threading, each counts twice.
        memory_mib: what the kernel has, in MiB.
        address: IPv4, from which the host reaches others; None where it has none.
        interface, mtu: of that address.
        rdma: the devices of InfiniBand and EFA.
    """

    name = "machine"
    hostname: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")]
    cpus: Annotated[int, Field(ge=1, le=1_000_000)]
    memory_mib: Annotated[int, Field(ge=1, le=1 << 40)]
    address: Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,3}){3}$")] | None
    interface: str | None
    mtu: Annotated[int, Field(ge=68, le=1 << 20)] | None
    rdma: tuple[str, ...] = ()


class RdmaPort(FactPart):
    """A port of a device for RDMA, in the kernel's words; `kind` is its driver and model, `grown` the errors that came meanwhile."""

    name: str
    kind: str
    active: bool
    state: str
    phys_state: str
    link_layer: str
    gb_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    errors: dict[str, Count]
    grown: tuple[str, ...]


class RdmaFacts(Fact):
    """The ports for RDMA, and whether the module that opens the memory of GPUs to them is loaded, or there for this kernel."""

    name = "rdma"
    ports: tuple[RdmaPort, ...]
    peermem: Literal["loaded", "built"] | None


def tool(facts: Facts, name: str) -> InstalledTool | None:
    """Where a tool is; None if it is not there, NotObservedError if the facts do not say."""
    return facts.read(ToolFacts, f"tool_{name}").program

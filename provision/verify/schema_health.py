"""The shape of the facts about a host's health and surroundings: kernel log, fabric, variables, boot image, upgrades, clock."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from provision.verify.schema import Count, Fact, Unit

__all__ = ["BootFile", "Clock", "Fabric", "Initramfs", "Manager", "Upgrades", "Variables", "Xid", "Xids"]

Named = dict[str, str]


class Xid(BaseModel):
    """A driver's complaint about one GPU, and how often it came; `pci` is empty where the line does not say."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    pci: str
    code: Count
    count: Annotated[int, Field(ge=1)]
    last: str


class Xids(Fact):
    """The XIDs of the kernel log of this boot; `complete` is whether the log still has its beginning."""

    name = "xids"
    source: Annotated[str, Field(min_length=1)]
    complete: bool
    events: Annotated[tuple[Xid, ...], Field(strict=False)]


class Manager(Unit):
    """The fabric manager."""

    name = "fabric_manager"


class Fabric(Fact):
    """NVSwitches that this host sees, and the unit that configures them; None without systemd."""

    name = "fabric"
    switches: Count
    manager: Manager | None


class Variables(Fact):
    """What each kind of session and /etc/environment set of the variables that change what CUDA does; None: not seen."""

    name = "variables"
    login: Named | None
    ssh: Named | None
    service: Named | None
    system: Named


class BootFile(BaseModel):
    """A file that the next boot reads, and when it was written, in seconds of the epoch."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    path: Annotated[str, Field(pattern=r"^/")]
    changed: float


class Initramfs(Fact):
    """The file that decides on the counters, None where none does; and the running kernel's initramfs, None where none was found."""

    name = "initramfs"
    option: BootFile | None
    image: BootFile | None


class Upgrades(Fact):
    """Packages of the driver, whether upgrades are installed unattended, and which patterns they leave out."""

    name = "upgrades"
    packages: Annotated[tuple[str, ...], Field(strict=False)]
    unattended: bool
    excluded: Annotated[tuple[str, ...], Field(strict=False)]


class Clock(Fact):
    """How long the host is up, and whether its clock follows a time server; None where nothing says."""

    name = "clock"
    up_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    synchronised: bool | None

"""How GPUs are connected: NVML's readings of each, and the fabric between them."""

import re
from typing import Final

from provision.verify.facts.base import NOT_READ, Count, Fact, FactPart, Reading, UnitFacts

_MANAGER: Final = re.compile(r"nvidia-fabric-?manager")
_USER_SPACE: Final = re.compile(r"libnvidia-compute|nvidia-driver-cuda$")
_SUBNET: Final = "nvlsm"


class LinkReadings(FactPart):
    """Where one GPU sits and how it is connected: the bus, NVLink, the fabric."""

    pci: Reading = NOT_READ
    virtualization: Reading = NOT_READ
    pcie_generation: Reading = NOT_READ
    pcie_generation_max: Reading = NOT_READ
    pcie_generation_gpu: Reading = NOT_READ
    pcie_width: Reading = NOT_READ
    pcie_width_max: Reading = NOT_READ
    links: Reading = NOT_READ
    links_up: Reading = NOT_READ
    fabric_state: Reading = NOT_READ
    fabric_status: Reading = NOT_READ
    fabric_health: Reading = NOT_READ


class FabricFacts(Fact):
    """NVSwitches that this host sees, the unit that configures them (None without systemd), and what cuInit returned if it was called."""

    name = "fabric"
    switches: Count
    manager: UnitFacts | None
    cuda_init: Count | None = None


class FabricOnDiskFacts(Fact):
    """The driver's module and the packages of driver, fabric manager and subnet manager, by upstream version; the fabric manager's unit."""

    name = "fabric_on_disk"
    packages: dict[str, str]
    module: str | None
    unit: UnitFacts | None

    @property
    def manager(self) -> str | None:
        """The version of the fabric manager's package, of several that of the newest branch; None where there is none."""
        return next((version for name, version in sorted(self.packages.items(), reverse=True) if _MANAGER.match(name)), None)

    @property
    def drivers(self) -> tuple[str, ...]:
        """The version of the driver's module; where the running kernel has none, those of the driver's packages, each once."""
        packages = {version for name, version in self.packages.items() if name != _SUBNET and not _MANAGER.match(name)}
        return (self.module,) if self.module else tuple(sorted(packages))

    @property
    def user_space(self) -> str | None:
        """The version of the package with the driver's libraries; None where there is none, or packages of several versions."""
        versions = {version for name, version in self.packages.items() if _USER_SPACE.match(name)}
        return versions.pop() if len(versions) == 1 else None

    @property
    def subnet(self) -> str | None:
        """The version of the subnet manager's package; None where there is none."""
        return self.packages.get(_SUBNET)

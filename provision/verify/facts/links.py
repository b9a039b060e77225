"""How GPUs are connected: NVML's readings of each, and the fabric between them."""

from provision.verify.facts.base import NOT_READ, Count, Fact, FactPart, Reading, UnitFacts


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


class FabricFacts(Fact):
    """NVSwitches that this host sees, and the unit that configures them; None without systemd."""

    name = "fabric"
    switches: Count
    manager: UnitFacts | None

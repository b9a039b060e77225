"""How GPUs are connected: the bus, NVLink, the fabric."""

import glob

from device import filled, need_gpu, parts, pci_devices
from run import Unknown, unit


def link(pynvml, ask, handle):
    """The readings of one device."""
    pci, states = ask("nvmlDeviceGetPciInfo", handle), []
    for number in range(getattr(pynvml, "NVML_NVLINK_MAX_LINKS", 18)):
        state = ask("nvmlDeviceGetNvLinkState", handle, number)
        if "value" not in state:
            break
        states.append(state["value"])
    fabric_info = {"unknown": "Not Supported by this pynvml"}
    if hasattr(pynvml, "c_nvmlGpuFabricInfoV_t"):
        fabric_info = filled(ask, "nvmlDeviceGetGpuFabricInfoV", handle, pynvml.c_nvmlGpuFabricInfoV_t())
    if "value" in fabric_info:
        fabric_info = {"value": (fabric_info["value"].state, fabric_info["value"].status)}
    if "value" in pci:
        bus = pci["value"].busId
        pci = {"value": (bus.decode() if isinstance(bus, bytes) else bus).lower()}
    return {
        **parts(fabric_info, "fabric_state", "fabric_status"),
        "pci": pci,
        "virtualization": ask("nvmlDeviceGetVirtualizationMode", handle),
        "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_generation_max": ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "pcie_generation_gpu": ask("nvmlDeviceGetGpuMaxPcieLinkGeneration", handle),
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "links": {"value": len(states)} if states else state,
        "links_up": {"value": states.count(1)} if states else state,
    }


def fabric():
    """The NVSwitches of this host (PCI class 0680, or a device node), and the fabric manager's unit; None without systemd."""
    need_gpu()
    try:
        manager = unit("nvidia-fabricmanager.service")
    except Unknown:
        manager = None
    return {"switches": len(pci_devices("0x0680")) or len(glob.glob("/dev/nvidia-nvswitch[0-9]*")), "manager": manager}


FACTS = {"fabric": fabric}

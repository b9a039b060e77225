"""How GPUs are connected: the bus, NVLink, the fabric."""

import glob
import re
import shutil
import sys

from device import filled, need_gpu, parts, pci_devices
from run import UNITS, Unknown, command, output, unit

MANAGER = "nvidia-fabricmanager.service"
UNITS.add(MANAGER)
PACKAGES = re.compile(
    r"(nvidia-fabric-?manager|libnvidia-compute|nvidia-dkms|nvidia-open)(-\d+(-server)?(-open)?)?|nvidia-dkms-(\d+-)?open"
)
OTHERS = {
    "nvidia-driver-cuda",
    "nvidia-kernel-dkms",
    "nvidia-kernel-open-dkms",
    "kmod-nvidia-open-dkms",
    "kmod-nvidia-latest-dkms",
    "nvlsm",
}
# In a process of its own: a fabric that is not configured may keep the call waiting.
CUDA_INIT = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"


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
        fabric_info = {"value": (fabric_info["value"].state, fabric_info["value"].status, fabric_info["value"].healthMask)}
    if "value" in pci:
        bus = pci["value"].busId
        pci = {"value": (bus.decode() if isinstance(bus, bytes) else bus).lower()}
    return {
        **parts(fabric_info, "fabric_state", "fabric_status", "fabric_health"),
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


def manager():
    """The fabric manager's unit; None without systemd."""
    try:
        return unit(MANAGER)
    except Unknown:
        return None


def fabric():
    """The NVSwitches of this host (PCI class 0680, or a device node), the fabric manager's unit, and what cuInit returns with either."""
    need_gpu()
    state = manager()
    switches = len(pci_devices("0x0680")) or len(glob.glob("/dev/nvidia-nvswitch[0-9]*"))
    either = switches or (state and state["exists"])
    return {"switches": switches, "manager": state, "cuda_init": cuda_init() if either else None}


def cuda_init():
    """The code of cuInit: 0 for success, 802 for a fabric that is not configured; None where the library cannot be called."""
    try:
        code, out, _ = command([sys.executable, "-c", CUDA_INIT], 20)
    except Unknown:
        return None
    return int(out) if code == 0 and out.strip().isdigit() else None


def fabric_on_disk():
    """The versions of the driver's module and of the packages of driver and fabric manager, without epoch and revision; and the unit."""
    if shutil.which("apt-mark"):  # a host of dnf may have dpkg too
        listed = output(["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\n"])
    else:
        listed = output(["rpm", "-qa", "--queryformat", "%{NAME} %{VERSION} installed\n"])
    if listed is None:
        raise Unknown("neither dpkg nor rpm lists the packages")
    rows = [line.split() for line in listed.splitlines()]
    versions = {row[0]: re.sub(r"^\d+:|-.*$", "", row[1]) for row in rows if len(row) == 3 and row[2] == "installed"}
    named = {name: version for name, version in versions.items() if PACKAGES.fullmatch(name) or name in OTHERS}
    module = (output(["modinfo", "-F", "version", "nvidia"]) or "").strip()
    return {"packages": named, "module": module or None, "unit": manager()}


FACTS = {"fabric": fabric, "fabric_on_disk": fabric_on_disk}

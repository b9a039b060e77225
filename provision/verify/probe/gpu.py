"""Facts about the GPU: the device, the driver, and the settings that the profile asks for, each in its layers.

Techniques and their sources: shared/facts/verification.md §2.1-2.8.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import os
import re
import shutil
import stat

from run import Unknown, command, read


def pci_devices(kind="0x03"):
    """Bus addresses of NVIDIA's devices of a PCI class, display and compute (03) unless told; the vendor is 10de."""
    found = []
    for folder in sorted(glob.glob("/sys/bus/pci/devices/*")):
        if (read(folder + "/vendor") or "").strip() == "0x10de" and (read(folder + "/class") or "").startswith(kind):
            found.append(os.path.basename(folder))
    return found


def present():
    """What speaks for an NVIDIA GPU on this host: the bus, device nodes, the loaded module."""
    nodes = sorted(path for path in glob.glob("/dev/nvidia*") if re.search(r"nvidia\d+$", path))
    return {
        "pci": pci_devices(),
        "nodes": nodes,
        "readable": all(os.access(path, os.R_OK | os.W_OK) for path in nodes),
        "module": os.path.isdir("/sys/module/nvidia"),
        "nouveau": os.path.isdir("/sys/module/nouveau"),
        "modes": {path: stat.S_IMODE(os.stat(path).st_mode) for path in sorted(glob.glob("/dev/nvidia*")) if not os.path.isdir(path)},
    }


def need_gpu():
    """Raise the one reason that all GPU facts share on a host without a GPU."""
    seen = present()
    if not (seen["pci"] or seen["nodes"] or seen["module"]):
        raise Unknown("no NVIDIA GPU on this host")


def nvml():
    """What the driver's library says of itself and each device; a reading that fails is its reason."""
    need_gpu()
    pynvml = importlib.import_module("pynvml")  # 30 ms that hosts without a GPU do not pay
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unknown("NVML: %s" % error) from None

    def ask(name, *arguments):
        try:
            value = getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            return {"unknown": str(error)}
        except AttributeError:
            return {"unknown": "Not Supported by this pynvml"}
        return {"value": value.decode() if isinstance(value, bytes) else value}

    devices = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        devices.append(
            {
                **memory_health(pynvml, ask, handle),
                **limits(pynvml, ask, handle),
                **link(pynvml, ask, handle),
                "name": ask("nvmlDeviceGetName", handle),
                "uuid": ask("nvmlDeviceGetUUID", handle),
                "memory_mib": {"value": memory["value"].total >> 20} if "value" in memory else memory,
                "capability": {"value": "%d.%d" % tuple(capability["value"])} if "value" in capability else capability,
                "persistence": ask("nvmlDeviceGetPersistenceMode", handle),
                "app_memory_mhz": ask("nvmlDeviceGetApplicationsClock", handle, pynvml.NVML_CLOCK_MEM),
                "app_graphics_mhz": ask("nvmlDeviceGetApplicationsClock", handle, pynvml.NVML_CLOCK_GRAPHICS),
                "max_memory_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_MEM),
                "max_graphics_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_GRAPHICS),
            }
        )
    cuda = ask("nvmlSystemGetCudaDriverVersion_v2")
    answer = {
        "driver": ask("nvmlSystemGetDriverVersion"),
        "cuda": {"value": "%d.%d" % (cuda["value"] // 1000, cuda["value"] % 1000 // 10)} if "value" in cuda else cuda,
        "devices": devices,
    }
    pynvml.nvmlShutdown()
    return answer


def parts(answer, *names):
    """A reading of several numbers as a reading each; a reason for none is the reason of each of them."""
    if "value" in answer:
        return {name: {"value": value} for name, value in zip(names, answer["value"])}  # noqa: B905 - strict= is of Python 3.10
    return dict.fromkeys(names, answer)


def filled(ask, name, handle, record):
    """The record that NVML fills, or its reason."""
    answer = ask(name, handle, ctypes.byref(record))
    return {"value": record} if "value" in answer else answer


def field(pynvml, ask, handle, number):
    """One of NVML's numbered fields: each has a return code of its own, and says which member of the union it filled."""
    answer = ask("nvmlDeviceGetFieldValues", handle, [number])
    if "value" not in answer:
        return answer
    got = answer["value"][0]
    if got.nvmlReturn == 2:  # an invalid argument: the field's number is of a later driver
        return {"unknown": "Not Supported by this driver"}
    if got.nvmlReturn:
        return {"unknown": str(pynvml.NVMLError(got.nvmlReturn))}
    member = dict(enumerate(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal"))).get(got.valueType, "ullVal")
    return {"value": getattr(got.value, member)}


def memory_health(pynvml, ask, handle):
    """Memory errors of one device, what the driver did about them, and what it asks for."""
    count, valid = {}, ask("nvmlDeviceValidateInforom", handle)
    for name, cause in (("retired_single", 0), ("retired_double", 1)):
        pages = ask("nvmlDeviceGetRetiredPages", handle, cause)
        count[name] = {"value": len(pages["value"])} if "value" in pages else pages
    sram = {"unknown": "Not Supported by this pynvml"}
    if hasattr(pynvml, "c_nvmlEccSramErrorStatus_v1_t"):
        sram = filled(ask, "nvmlDeviceGetSramEccErrorStatus", handle, pynvml.c_nvmlEccSramErrorStatus_v1_t())
    # A corrupt infoROM is the one answer of this call that is no failure to answer.
    damaged = "orrupted infoROM" in valid.get("unknown", "")
    return {
        **count,
        **parts(ask("nvmlDeviceGetEccMode", handle), "ecc", "ecc_pending"),
        # By position: failure is the fourth and last. Azure's health check looks for it in a query of three.
        **parts(
            ask("nvmlDeviceGetRemappedRows", handle),
            "remapped_correctable",
            "remapped_uncorrectable",
            "remapped_pending",
            "remapped_failure",
        ),
        "uncorrected": ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
        "uncorrected_ever": ask("nvmlDeviceGetTotalEccErrors", handle, 1, 1),
        "sram_threshold": {"value": sram["value"].bThresholdExceeded} if "value" in sram else sram,
        "retired_pending": ask("nvmlDeviceGetRetiredPagesPendingStatus", handle),
        "unrepairable": ask("nvmlDeviceGetUnrepairableMemoryFlag_v1", handle),
        "recovery_action": field(pynvml, ask, handle, 230),
        "inforom": {"value": 0} if damaged else {"value": 1} if "value" in valid else valid,
    }


def limits(pynvml, ask, handle):
    """What holds the clocks of one device down now, and for how long something has since the driver was loaded."""
    now = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    return {
        # The name before driver 535.
        "event_reasons": now if "value" in now else ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
        "hw_thermal": field(pynvml, ask, handle, 270),
        "hw_power_brake": field(pynvml, ask, handle, 271),
    }


def link(pynvml, ask, handle):
    """Where one device sits and how it is connected: the bus, NVLink, the fabric."""
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
    """The NVSwitches that this host sees (PCI class 0680, or a device node), and the unit of the fabric manager; None without systemd."""
    need_gpu()
    try:
        manager = unit("nvidia-fabricmanager.service")
    except Unknown:
        manager = None
    return {"switches": len(pci_devices("0x0680")) or len(glob.glob("/dev/nvidia-nvswitch[0-9]*")), "manager": manager}


def driver():
    """The driver's version in three places: loaded into the kernel, installed on disk, and as the command line sees it."""
    need_gpu()
    loaded = re.search(r"NVRM version:.*?(\d+\.\d+(?:\.\d+)?)", read("/proc/driver/nvidia/version") or "")
    answer = {"loaded": loaded.group(1) if loaded else None, "installed": None, "nvidia_smi": None, "nvidia_smi_said": ""}
    if shutil.which("modinfo"):
        for module in ("nvidia", "nvidia-current"):  # Debian's own packaging calls it nvidia-current
            code, out, _ = command(["modinfo", "-F", "version", module], 10)
            if code == 0 and out.strip():
                answer["installed"] = out.strip()
                break
    if shutil.which("nvidia-smi"):
        code, out, err = command(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], 20)
        if code == 0 and out.strip():
            answer["nvidia_smi"] = out.split()[0]
        else:
            answer["nvidia_smi_said"] = "exit %d: %s" % (code, (out + err).strip()[:300])
    return answer


def modules():
    """Each kernel that has headers or is installed, and whether it has the driver's module; what is held against upgrades."""
    kernels, installed, held = [], [], []
    for folder in sorted(glob.glob("/lib/modules/*/")):
        kernel = os.path.basename(folder[:-1])
        names = [name for _, _, found in os.walk(folder) for name in found]
        state = {"kernel": kernel, "built": any(re.match(r"nvidia(-current(-open)?)?\.ko(\.|$)", name) for name in names)}
        if os.path.exists(folder + "build/Makefile"):
            kernels.append(state)
        if os.path.exists("/boot/vmlinuz-" + kernel) or os.path.exists(folder + "vmlinuz"):
            installed.append(state)
    if shutil.which("apt-mark"):
        held = command(["apt-mark", "showhold"], 20)[1].split()
    elif shutil.which("dnf"):
        held = [line.strip() for line in (read("/etc/dnf/plugins/versionlock.list") or "").splitlines() if line and line[0] != "#"]
    return {"kernels": kernels, "installed": installed, "held": sorted(held)}


def unit(name):
    """Whether a unit is enabled and active, and what it starts."""
    try:
        code, out, _ = command(["systemctl", "show", "--property=LoadState,UnitFileState,ActiveState,ExecStart", name], 10)
    except FileNotFoundError:
        raise Unknown("no systemd on this host") from None
    if code:
        raise Unknown("systemctl failed on this host")
    said = dict(line.partition("=")[::2] for line in out.splitlines())
    started = re.search(r"argv\[\]=(.*?) ;", said.get("ExecStart", ""))
    return {
        "exists": said.get("LoadState") == "loaded",
        "enabled": said.get("UnitFileState") in ("enabled", "static"),
        "active": said.get("ActiveState") == "active",
        "command": started.group(1) if started else "",
    }


def persistence_unit():
    """The persistence daemon at boot."""
    return unit("nvidia-persistenced.service")


def clocks_unit():
    """The unit that sets clocks at boot."""
    return unit("gpuprov-clocks.service")


def facts():
    """Name -> function of this subject."""
    return {
        "gpu": present,
        "nvml": nvml,
        "driver": driver,
        "modules": modules,
        "fabric": fabric,
        "persistence_unit": persistence_unit,
        "clocks_unit": clocks_unit,
    }

"""Facts about the GPU and its driver."""

import glob
import importlib
import os
import re
import shutil

from device import LOST, loader_cache, need_gpu, present
from health import limits, memory_health
from links import link
from mig import split
from run import Unknown, command, output, read


def nvml():
    """What NVML says of the driver and each device; a reading that fails is the reason."""
    need_gpu()
    pynvml = importlib.import_module("pynvml")  # 30 ms that hosts without a GPU do not pay
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unknown("NVML: %s" % error) from None

    codes = []

    def ask(name, *arguments):
        if arguments and isinstance(arguments[0], dict):  # no handle: its reason is that of every reading
            return arguments[0]
        try:
            value = getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            codes.append(error.value)
            return {"unknown": str(error)}
        except AttributeError:
            return {"unknown": "Not Supported by this pynvml"}
        return {"value": value.decode() if isinstance(value, bytes) else value}

    devices, count = [], ask("nvmlDeviceGetCount")
    if "value" not in count:
        raise Unknown("NVML: %s" % count["unknown"])
    for index in range(count["value"]):
        del codes[:]
        found = ask("nvmlDeviceGetHandleByIndex", index)
        handle, refused = found.get("value", found), codes[:]
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        devices.append(
            {
                **memory_health(pynvml, ask, handle),
                **limits(pynvml, ask, handle),
                **link(pynvml, ask, handle),
                **split(pynvml, ask, handle),
                "name": ask("nvmlDeviceGetName", handle),
                "uuid": ask("nvmlDeviceGetUUID", handle),
                "memory_mib": {"value": memory["value"].total >> 20} if "value" in memory else memory,
                "capability": {"value": "%d.%d" % tuple(capability["value"])} if "value" in capability else capability,
                "persistence": ask("nvmlDeviceGetPersistenceMode", handle),
                "compute_mode": ask("nvmlDeviceGetComputeMode", handle),
                "app_memory_mhz": ask("nvmlDeviceGetApplicationsClock", handle, pynvml.NVML_CLOCK_MEM),
                "app_graphics_mhz": ask("nvmlDeviceGetApplicationsClock", handle, pynvml.NVML_CLOCK_GRAPHICS),
                "memory_mhz": ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM),
                "sm_mhz": ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
                "max_memory_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_MEM),
                "max_graphics_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_GRAPHICS),
                "error": {"value": next((code for code in refused + codes if refused or code in LOST), 0)},
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


def module_version(*kernel):
    """The version of the driver's module on disk; None where there is none."""
    for module in ("nvidia", "nvidia-current"):  # Debian's name
        version = (output(["modinfo", "-F", "version", *kernel, module]) or "").strip()
        if version:
            return version
    return None


def library():
    """The version of NVML's library that a 64-bit program loads, by the name of its file; it must be the module's own."""
    for line in loader_cache():
        if re.match(r"\s*libnvidia-ml\.so\.1 \(libc6,(x86-64|AArch64)", line):
            file = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", os.path.realpath(line.rpartition("=> ")[2]))
            return file.group(1) if file else None
    return None


def driver():
    """The driver's version as loaded, as installed on disk, as NVML's library on disk, and as nvidia-smi sees it."""
    need_gpu()
    loaded = re.search(r"NVRM version:.*?(\d+\.\d+(?:\.\d+)?)", read("/proc/driver/nvidia/version") or "")
    answer = {"loaded": loaded.group(1) if loaded else None, "installed": None, "nvidia_smi": None, "nvidia_smi_said": ""}
    answer.update(installed=module_version(), library=library())
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
        names = [name for _, _, files in os.walk(folder) for name in files]
        state = {"kernel": kernel, "built": any(re.match(r"nvidia(-current(-open)?)?\.ko(\.|$)", name) for name in names)}
        if state["built"]:
            state["version"] = module_version("-k", kernel)
        if os.path.exists(folder + "build/Makefile"):
            kernels.append(state)
        if os.path.exists("/boot/vmlinuz-" + kernel) or os.path.exists(folder + "vmlinuz"):
            installed.append(state)
    if shutil.which("apt-mark"):
        held = command(["apt-mark", "showhold"], 20)[1].split()
    elif shutil.which("dnf"):
        held = [line.strip() for line in (read("/etc/dnf/plugins/versionlock.list") or "").splitlines() if line and line[0] != "#"]
    return {"kernels": kernels, "installed": installed, "held": sorted(held)}


FACTS = {"gpu": present, "nvml": nvml, "driver": driver, "modules": modules}

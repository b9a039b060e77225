"""Whether there is a GPU, and how NVML is read."""

import ctypes
import glob
import os
import re
import shutil
import stat

from run import Unknown, output, read

BUS = "/sys/bus/pci/devices"


def pci_devices(kind="0x03"):
    """Bus addresses of NVIDIA's devices (vendor 10de) of a PCI class; 03 is display and compute."""
    addresses = []
    for folder in sorted(glob.glob(BUS + "/*")):
        if (read(folder + "/vendor") or "").strip() == "0x10de" and (read(folder + "/class") or "").startswith(kind):
            addresses.append(os.path.basename(folder))
    return addresses


def present():
    """What speaks for an NVIDIA GPU on this host: the bus, device nodes, the loaded module."""
    nodes = sorted(path for path in glob.glob("/dev/nvidia*") if re.search(r"nvidia\d+$", path))
    addresses = pci_devices()
    links = {address: "%s/%s/driver" % (BUS, address) for address in addresses}
    return {
        "pci": addresses,
        "drivers": {address: os.path.basename(os.readlink(links[address])) for address in addresses if os.path.islink(links[address])},
        "nodes": nodes,
        "readable": all(os.access(path, os.R_OK | os.W_OK) for path in nodes),
        "module": os.path.isdir("/sys/module/nvidia"),
        "nouveau": os.path.isdir("/sys/module/nouveau"),
        "modes": {path: stat.S_IMODE(os.stat(path).st_mode) for path in sorted(glob.glob("/dev/nvidia*")) if not os.path.isdir(path)},
    }


def loader_cache():
    """The loader's cache of libraries, line by line; empty where no ldconfig prints it."""
    path = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin") or "ldconfig"
    return (output([path, "-p"]) or "").splitlines()


def need_gpu():
    """Raise the one reason that all GPU facts share on a host without a GPU."""
    signs = present()
    if not (signs["pci"] or signs["nodes"] or signs["module"]):
        raise Unknown("no NVIDIA GPU on this host")


def parts(answer, *names):
    """A reading of several numbers as one reading each; a reason is the reason of each."""
    if "value" in answer:
        return {name: {"value": value} for name, value in zip(names, answer["value"])}  # noqa: B905 - Python 3.8
    return dict.fromkeys(names, answer)


def filled(ask, name, handle, record):
    """The record that NVML fills, or its reason for not filling it."""
    answer = ask(name, handle, ctypes.byref(record))
    return {"value": record} if "value" in answer else answer


def field(pynvml, ask, handle, number):
    """One of NVML's numbered fields, each with its own return code and type."""
    answer = ask("nvmlDeviceGetFieldValues", handle, [number])
    if "value" not in answer:
        return answer
    entry = answer["value"][0]
    if entry.nvmlReturn == 2:  # invalid argument: a later driver has this field
        return {"unknown": "Not Supported by this driver"}
    if entry.nvmlReturn:
        return {"unknown": str(pynvml.NVMLError(entry.nvmlReturn))}
    member = dict(enumerate(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal"))).get(entry.valueType, "ullVal")
    return {"value": getattr(entry.value, member)}

"""Whether there is a GPU, and how NVML is read."""

import ctypes
import glob
import importlib
import os
import re
import shutil
import stat

from run import Unknown, output, read

BUS = "/sys/bus/pci/devices"
CARD_INFORMATION = "/proc/driver/nvidia/gpus/%s/information"  # the driver's own, with the name of the card
# NVML's return codes that speak of the whole device, whatever was asked: it is lost, or requires a reset.
LOST = (15, 16)
# Cards that are made to draw, as the one of a DGX Station A100 (docs/sources/verification.md §2.2).
DISPLAY = re.compile(r"\b(DGX Display|NVS \d+|T[46]00|T1000|Quadro [KP][1-9]\d{2}|Quadro [KP][12][02]\d{2}|GeForce GT \d+)\b")


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
        "displays": [address for address in addresses if draws(read(CARD_INFORMATION % address) or "")],
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


def gpus(pynvml):
    """Of an NVML that was begun: the cards that compute, by index, each as its handle, and those that it does not reach as its reason."""
    handles, lost = {}, {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle, name = None, ""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(handle)
            pynvml.nvmlDeviceGetTemperature(handle, 0)
        except pynvml.NVMLError as error:
            if handle is None or error.value in LOST:
                lost[index] = str(error)
                continue
        if not draws(name):
            handles[index] = handle
    return handles, lost


def draws(name):
    """Whether NVML's name of a card is that of one for a display."""
    return bool(DISPLAY.search(name.decode() if isinstance(name, bytes) else name))


def selected():
    """What shows CUDA the cards that compute, by their UUIDs: others are for a display, or lost. Nothing where all cards compute."""
    if not present()["module"]:
        return {}
    pynvml = importlib.import_module("pynvml")
    try:
        pynvml.nvmlInit()
        handles, _ = gpus(pynvml)
        if not handles or len(handles) == pynvml.nvmlDeviceGetCount():
            return {}
        uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles.values()]
    except pynvml.NVMLError:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuid.decode() if isinstance(uuid, bytes) else uuid for uuid in uuids)}


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

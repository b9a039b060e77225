"""How each GPU is split, as NVML tells it slice by slice, and what the unit that splits them reached."""

import re

from device import parts
from run import UNITS, read, unit

MIG_UNIT = "gpuprov-mig.service"
UNITS.add(MIG_UNIT)
MIG_REPORT = "/run/gpuprov-mig/report"  # of the role mig: a line a GPU, "<index> <state>"


def split(pynvml, ask, handle):
    """The readings of one device: whether it is split now and after the next reset, and into which slices, by name and in their order."""
    mode = ask("nvmlDeviceGetMigMode", handle)
    return {
        **parts(mode, "mig", "mig_pending"),
        "mig_slices": slices(pynvml, ask, handle) if mode.get("value", [0])[0] else mode_only(mode),
    }


def mode_only(mode):
    """No slices where the device is not split; the reason where nobody knows."""
    return {"value": ""} if "value" in mode else mode


def slices(pynvml, ask, handle):
    """The slices of a split device, as in `1g.10gb 1g.10gb`."""
    most = ask("nvmlDeviceGetMaxMigDeviceCount", handle)
    if "value" not in most:
        return most
    names = []
    for index in range(min(most["value"], 64)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue  # as many as fit are counted, and fewer may be there
        except pynvml.NVMLError as error:
            return {"unknown": str(error)}
        name = ask("nvmlDeviceGetName", device)
        match = re.search(r"\bMIG (\S{1,40})$", str(name.get("value", "")))
        if match is None:
            return {"unknown": "the name of MIG device %d does not end in its slice" % index}
        names.append(match.group(1))
    return {"value": " ".join(sorted(names))}


def mig_report():
    """What the unit reached at this boot; null where it did not run."""
    text = read(MIG_REPORT)
    return {"lines": None if text is None else text.splitlines()[:64]}


FACTS = {"mig_unit": lambda: unit(MIG_UNIT), "mig_report": mig_report}

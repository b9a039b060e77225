"""Whether GPUs are well."""

import re
import shutil

from counters import option
from device import field, filled, parts
from run import Unknown, command, read

# Why the driver did not start a card, in its own words (nv.c and nv-pci.c of open-gpu-kernel-modules), the causes before what follows.
CAUSES = (
    ("branch", re.compile(r"supported through the NVIDIA|is not supported by the \d")),
    ("proprietary", re.compile(r"is not supported by open")),
    ("flavour", re.compile(r"requires use of the NVIDIA open kernel modules")),
    ("address-space", re.compile(r"PCI I/O region assigned to your NVIDIA device is invalid")),
    ("other-driver", re.compile(r"probe routine was not called for")),
    ("versions", re.compile(r"API mismatch")),
    ("reset", re.compile(r"NV_ERR_RESET_REQUIRED")),
    ("firmware", re.compile(r"No firmware image found|nvidia \S+ Direct firmware load for nvidia/\S+ failed")),
    ("start", re.compile(r"RmInitAdapter failed|rm_init_adapter failed|Cannot initialize GSP firmware|probe routine failed")),
)
REMAPPED = ("remapped_correctable", "remapped_uncorrectable", "remapped_pending", "remapped_failure")
# Of a GPU that is split, the instance follows the address: kernel_rc.c of open-gpu-kernel-modules.
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\)[^:]*: (\d+)")
# What NVLink 5 says besides its code, 144 to 150. No name of a program, which stands before it, is as long.
NONFATAL = re.compile(r" Nonfatal\s+XC\d+ i\d+ Link")


# nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
SXID = re.compile(r"nvidia-nvswitch\d+: SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+), (Fatal|Non-fatal)")


def memory_health(pynvml, ask, handle):
    """Memory errors of one device, what the driver did about them, and which recovery it asks for."""
    count, valid = {}, ask("nvmlDeviceValidateInforom", handle)
    for name, cause in (("retired_single", 0), ("retired_double", 1)):
        pages = ask("nvmlDeviceGetRetiredPages", handle, cause)
        count[name] = {"value": len(pages["value"])} if "value" in pages else pages
    sram = {"unknown": "Not Supported by this pynvml"}
    if hasattr(pynvml, "c_nvmlEccSramErrorStatus_v1_t"):
        sram = filled(ask, "nvmlDeviceGetSramEccErrorStatus", handle, pynvml.c_nvmlEccSramErrorStatus_v1_t())
    # This one error is an answer: the infoROM was read, and is corrupt.
    damaged = "orrupted infoROM" in valid.get("unknown", "")
    return {
        **count,
        **parts(ask("nvmlDeviceGetEccMode", handle), "ecc", "ecc_pending"),
        # By position; failure is the fourth.
        **parts(ask("nvmlDeviceGetRemappedRows", handle), *REMAPPED),
        "uncorrected": ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
        "uncorrected_ever": ask("nvmlDeviceGetTotalEccErrors", handle, 1, 1),
        "sram_threshold": {"value": sram["value"].bThresholdExceeded} if "value" in sram else sram,
        "retired_pending": ask("nvmlDeviceGetRetiredPagesPendingStatus", handle),
        "unrepairable": ask("nvmlDeviceGetUnrepairableMemoryFlag_v1", handle),
        "recovery_action": field(pynvml, ask, handle, 230),
        **parts(ask("nvmlDeviceGetGspFirmwareMode", handle), "gsp"),
        "inforom": {"value": 0} if damaged else {"value": 1} if "value" in valid else valid,
    }


def limits(pynvml, ask, handle):
    """What holds the clocks of one device down now, and for how long something has since the driver was loaded."""
    now = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    return {
        # The name before driver 535.
        "event_reasons": now if "value" in now else ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
        "power_limit_mw": ask("nvmlDeviceGetEnforcedPowerLimit", handle),
        "power_default_mw": ask("nvmlDeviceGetPowerManagementDefaultLimit", handle),
        "hw_thermal": field(pynvml, ask, handle, 270),
        "hw_power_brake": field(pynvml, ask, handle, 271),
    }


def kernel_log():
    """Where the log of this boot is from, its first lines and the driver's; a log that this user may not read is not an empty log."""
    refusals = []
    for words in ("journalctl -k -b 0 -o cat --no-pager", "dmesg"):
        name = words.split()[0]
        if not shutil.which(name):
            refusals.append("no %s" % name)
            continue
        # A firewall or containers can fill a kernel log with megabytes of their own.
        filtered = words + " | sed -n -e 1,50p -e '51,$ { /NVRM/p; /nvidia-nvswitch/p; /load for nvidia/p; }' | head -c 2000000"
        _, out, err = command(["/bin/sh", "-c", filtered], 25)
        lines = [line for line in out.splitlines() if line.strip() and not line.startswith("-- ")]
        if lines:
            return words.partition(" -b")[0], lines
        refusals.append("%s: %s" % (name, (err.strip().splitlines() or ["shows nothing to this user"])[-1][:200]))
    raise Unknown("the kernel log cannot be read (%s): run as root, or as a member of adm or systemd-journal" % "; ".join(refusals))


def xids():
    """The driver's errors since the boot, by device and code. A GPU that fell off the bus may be reported without its code, 79."""
    source, lines = kernel_log()
    events, switches = {}, {}
    for line in lines:
        switch = SXID.search(line)
        if switch:
            note(switches, (switch.group(1).lower(), int(switch.group(2)), switch.group(3) == "Non-fatal"), line)
        match = XID.search(line)
        key = (match.group(1).lower(), int(match.group(2)), bool(NONFATAL.search(line))) if match else None
        if not match and "NVRM" in line and "fallen off the bus" in line:
            where = re.search(r"GPU (?:at )?(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})", line)
            key = (where.group(1).lower() if where else "", 79, False)
        if key:
            note(events, key, line)
    # dmesg's ring and a rotated journal lose their beginning first, where every boot prints its version.
    complete = any("Linux version" in line for line in lines[:50])
    found = {name: [rows[key] for key in sorted(rows)] for name, rows in (("events", events), ("switches", switches))}
    return {"source": source, "complete": complete, **found, "causes": causes(lines)}


def note(events, key, line):
    """One line more of a device's address, code, and whether it says nonfatal."""
    before = events.get(key, {"count": 0})
    events[key] = {"pci": key[0], "code": key[1], "nonfatal": key[2], "count": before["count"] + 1, "last": line.strip()[:200]}


def causes(lines):
    """Why the driver did not start a card: each cause with the last line that says so."""
    found = {
        kind: line.strip()[:200]
        for line in lines
        if "NVRM" in line or "load for nvidia" in line
        for kind, words in CAUSES
        if words.search(line)
    }
    return [{"kind": kind, "last": found[kind]} for kind, _ in CAUSES if kind in found]


def gsp():
    """Which kernel modules are loaded, and what the next load of them is given about the GSP's firmware."""
    version = read("/proc/driver/nvidia/version") or ""
    loaded = "open" if "Open Kernel Module" in version else "proprietary" if "NVRM version" in version else None
    return {"modules": loaded, "on_disk": option("NVreg_EnableGpuFirmware")[1]}


FACTS = {"xids": xids, "gsp": gsp}

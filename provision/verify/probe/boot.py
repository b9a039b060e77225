"""What the firmware and the kernel say of Secure Boot, and who signed the driver's module."""

import glob
import os
import re
import shutil

from device import need_gpu
from run import Unknown, output, read

EFI = "/sys/firmware/efi"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
SECURITY = "/sys/kernel/security/lockdown"
MODULE = "/sys/module/nvidia/"
DKMS = "/var/lib/dkms/nvidia*"


def variable(name):
    """A variable of the firmware that is on or off: four bytes of attributes, then one; None where the firmware has none of that name."""
    try:
        with open("%s/efivars/%s-%s" % (EFI, name, GLOBAL), "rb") as file:
            content = file.read(8)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unknown("the firmware's variable %s: %s" % (name, error.strerror)) from None
    if len(content) != 5:
        raise Unknown("the firmware's variable %s has %d bytes" % (name, len(content)))
    return content[4] == 1


def secure_boot():
    """Whether this boot was checked by the firmware's keys, whether it has any, and how far the kernel is locked down."""
    lockdown = re.search(r"\[(\w+)\]", read(SECURITY) or "")
    answer = {"firmware": "bios", "on": False, "setup_mode": None, "lockdown": lockdown.group(1) if lockdown else None}
    if os.path.isdir(EFI):
        if not os.path.isdir(EFI + "/efivars") or not os.listdir(EFI + "/efivars"):
            raise Unknown("the firmware is UEFI, and its variables are not mounted")
        # Firmware without the variable has no Secure Boot.
        answer.update(firmware="uefi", on=bool(variable("SecureBoot")), setup_mode=variable("SetupMode"))
    return answer


def module_signature():
    """Who signed the driver's module on disk, whether that is the one that is loaded, and what DKMS has of it."""
    need_gpu()
    if not shutil.which("modinfo"):
        raise Unknown("there is no modinfo on PATH")
    answer = {"loaded": os.path.isdir(MODULE), "signer": None, "same": None, "taint": None, "in_keyring": None, "dkms": []}
    signer = output(["modinfo", "-F", "signer", "nvidia"])
    answer["signer"] = signer.strip()[:200] if signer and signer.strip() else None
    if answer["loaded"]:
        on_disk, live = output(["modinfo", "-F", "srcversion", "nvidia"]), read(MODULE + "srcversion")
        if on_disk and on_disk.strip() and live:
            answer["same"] = on_disk.strip() == live.strip()
        taint = read(MODULE + "taint")
        answer["taint"] = None if taint is None else taint.strip()
    keys = [line for line in (read("/proc/keys") or "").splitlines() if " asymmetri" in line]
    if keys and answer["signer"]:
        answer["in_keyring"] = any(answer["signer"] in line for line in keys)
    answer["dkms"] = sorted(os.path.basename(path) for path in glob.glob(DKMS))
    return answer


FACTS = {"secure_boot": secure_boot, "module_signature": module_signature}

#!/usr/bin/python
"""Finish the driver after its packages are installed: hold it, build it for every kernel with headers, load it where there is a GPU."""

from __future__ import annotations

DOCUMENTATION = """
module: driver
short_description: Hold the driver, build its module for every kernel that has headers, and load it
description:
  - Packages are held by apt-mark or dnf's versionlock.
  - A kernel is one with a build folder in /lib/modules. If its module cannot be built, the task fails with the error of DKMS's log.
  - Without an NVIDIA device on the bus nothing is loaded. Where nouveau drives it, or only the kernel of the next boot has the module, that
    takes a reboot.
options:
  module: {description: The name of the kernel module., type: str, required: true}
  packages: {description: The packages to hold., type: list, elements: str, default: []}
  signed: {description: Whether the module comes built and signed. DKMS must then have none., type: bool, default: false}
author: [gpuprov]
"""
EXAMPLES = """
- name: Load the driver
  gpuprov.host.driver: {module: nvidia}
"""
RETURN = """
changes: {description: One line for each change that was or would be made., returned: always, type: list}
kernels: {description: The kernels that have the module., returned: always, type: list}
reboot: {description: Whether the installed version can be loaded by a reboot only., returned: always, type: bool}
"""

import glob
import os
import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.dkms import DKMS, first_error
from ansible_collections.gpuprov.host.plugins.module_utils.ledger import Ledger, must_run, run

NOUVEAU, UPTIME = "/etc/modprobe.d/gpuprov-nouveau.conf", "/proc/uptime"


def is_locked(name, locks):
    """Whether dnf keeps a package as it is. A lock is a name with a version, such as nvidia-driver-3:580.95.05-1.el9.*"""
    return any(lock == name or re.match(r"%s-(\d+:)?\d+\.\d" % re.escape(name), lock) for lock in locks)


class Driver:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.changes = []

    def act(self, argv, undo=None):
        """Run a command that must succeed, and record what reverses it."""
        self.changes.append(" ".join(argv))
        if self.module.check_mode:
            return
        if undo:
            ledger = Ledger("nvidia_driver")
            if undo not in ledger.data["undo"]:
                ledger.data["undo"].append(undo)
                ledger.save()
        must_run(self.module, argv)

    def hold(self):
        """Hold the packages, so that no upgrade replaces the files of the loaded module."""
        if os.path.exists("/usr/bin/apt-mark"):
            holds = set(run(["apt-mark", "showhold"])[1].split())
            # In check mode a package may not be installed yet; the real run holds it after its installation.
            free = [name for name in self.module.params["packages"] if name.partition(":")[0] not in holds]
            if free:
                self.act(["apt-mark", "hold", *free], ["apt-mark", "unhold", *free])
        elif os.path.exists("/usr/bin/dnf"):
            locks = run(["dnf", "--quiet", "versionlock", "list"])[1].split()
            free = [name for name in self.module.params["packages"] if not is_locked(name, locks)]
            if free:
                verb = ["dnf", "--assumeyes", "--quiet", "versionlock"]
                self.act([*verb, "add", *free], [*verb, "delete", *free])

    def build(self):
        """Build the module for every kernel with headers; returns the kernels that have it."""
        ready, dry = [], self.module.check_mode
        for kernel in kernels():
            argv = ["dkms", "autoinstall", "-k", kernel]
            if not has_module(kernel):
                self.changes.append(" ".join(argv))
                # It also ends with an error where another module than ours does not build.
                output = "" if dry else run(argv)[1]
            if has_module(kernel) or dry:
                ready.append(kernel)
            else:
                first = next((line for line in output.splitlines() if line.startswith("Error! ")), "Bad return status")
                why = log() if "Bad return status" in first else first
                self.module.fail_json(msg="DKMS built no module for kernel %s: %s" % (kernel, why), dkms=output[-4000:])
        return ready

    def signed(self):
        """The kernels for which a signed module was installed."""
        built = sorted(os.path.basename(path) for path in glob.glob(DKMS + "/nvidia*"))
        if built:
            self.module.fail_json(
                msg="DKMS has %s, which comes before the signed module: `gpuprov undo` removes an earlier set-up" % ", ".join(built)
            )
        ready = [kernel for kernel in installed() if has_module(kernel)]
        if not ready and not self.module.check_mode:
            self.module.fail_json(msg="no kernel has the signed module; the kernels are %s" % ", ".join(installed()))
        return ready

    def load(self, ready):
        """Load the installed version; True when that takes a reboot."""
        name, running = self.module.params["module"], os.uname().release
        owners = on_the_bus()
        if not owners or self.module.check_mode:
            return False
        lacks = "signed module" if self.module.params["signed"] else "headers"
        if running not in ready:
            if next_boot() in ready:
                if was_there_at_boot("/boot/vmlinuz-" + next_boot()):
                    self.module.fail_json(
                        msg="the host booted %s, which has no %s, although %s was there, which has the module: make that one the "
                        "default of the boot loader, reboot, and run this again" % (running, lacks, next_boot())
                    )
                return True
            self.module.fail_json(
                msg="the running kernel %s has no %s here, and the newest kernel that can be booted is %s; "
                "the module is built for %s: install the %s of one of the two, then run this again"
                % (running, lacks, next_boot() or "unknown", " and ".join(ready) or "none", lacks)
            )
        if "nouveau" in owners and run(["modprobe", "--remove", "nouveau"])[0]:
            if was_there_at_boot(NOUVEAU):
                self.module.fail_json(
                    msg="nouveau has the card although %s was there when the host booted: it is loaded by the initramfs or the kernel's "
                    "command line; take it out there, reboot, and run this again" % NOUVEAU
                )
            return True  # it drives the console too; the next boot does not load it
        if owners <= {"vfio-pci", "pci-stub"}:
            self.module.fail_json(
                msg="%s has every card, for virtual machines: take the cards out of its ids in /etc/modprobe.d and in the kernel's "
                "command line, reboot, and run this again" % " and ".join(sorted(owners))
            )
        version = run(["modinfo", "-F", "version", name])[1].strip()
        if loaded_version() == version:
            return False
        if loaded_version() is not None:
            run(["systemctl", "stop", "nvidia-persistenced.service"])
            if run(["modprobe", "--remove", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", name])[0]:
                return True
        self.act(["modprobe", name])
        return False


def kernels():
    """Kernels with headers."""
    return sorted(
        os.path.basename(os.path.dirname(path)) for path in glob.glob("/lib/modules/*/build") if os.path.exists(path + "/Makefile")
    )


def installed():
    """All kernels, with headers or without."""
    return sorted(os.path.basename(folder[:-1]) for folder in glob.glob("/lib/modules/*/"))


def has_module(kernel):
    """Whether a kernel has the module, wherever its packages put it."""
    return any(
        re.match(r"nvidia(-current(-open)?)?\.ko(\.(xz|zst|gz))?$", name)
        for _, _, names in os.walk("/lib/modules/" + kernel)
        for name in names
    )


def next_boot():
    """The newest kernel with an image, which the boot loader takes; None where there is none."""
    images = [path.partition("vmlinuz-")[2] for path in glob.glob("/boot/vmlinuz-*")]
    images += [os.path.basename(os.path.dirname(path)) for path in glob.glob("/lib/modules/*/vmlinuz")]
    return max(images, key=lambda kernel: [int(part) for part in re.findall(r"\d+", kernel)], default=None)


def was_there_at_boot(path):
    """Whether a file has not changed since the boot, so that another reboot would change nothing."""
    with open(UPTIME, encoding="ascii") as file:
        booted_at = time.time() - float(file.read().split()[0])
    return os.path.exists(path) and os.stat(path).st_ctime < booted_at


def log():
    """What DKMS's newest log of the driver says of the failure."""
    logs = sorted(glob.glob(DKMS + "/nvidia*/*/build/make.log"), key=os.path.getmtime)
    return first_error(logs[-1]) if logs else "there is no log; is the driver's DKMS package installed?"


def on_the_bus():
    """The kernel's drivers of the NVIDIA devices (PCI vendor 10de, display class), an empty name for a device without one."""
    owners = set()
    for folder in glob.glob("/sys/bus/pci/devices/*"):
        with open(folder + "/vendor", encoding="ascii") as vendor, open(folder + "/class", encoding="ascii") as kind:
            if vendor.read().strip() == "0x10de" and kind.read().startswith("0x03"):
                owners.update([os.path.basename(os.readlink(path)) for path in glob.glob(folder + "/driver")] or [""])
    return owners


def loaded_version():
    """The version of the loaded module, or None."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            match = re.search(r"NVRM version:.*?(\d+\.\d+(?:\.\d+)?)", file.read())
    except OSError:
        return None
    return match.group(1) if match else None


def main():
    """As Ansible calls it."""
    module = AnsibleModule(
        argument_spec={
            "module": {"type": "str", "required": True},
            "packages": {"type": "list", "elements": "str", "default": []},
            "signed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    driver = Driver(module)
    driver.hold()
    ready = driver.signed() if module.params["signed"] else driver.build()
    reboot = driver.load(ready)
    module.exit_json(changed=bool(driver.changes), changes=driver.changes, kernels=ready, reboot=reboot)


if __name__ == "__main__":
    main()

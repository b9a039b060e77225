#!/usr/bin/python
"""Refuse a host that cannot be set up, before anything is changed."""

from __future__ import annotations

DOCUMENTATION = """
module: preflight
short_description: Wait for what is still going on, and refuse what cannot be set up
description:
  - Waits for cloud-init and for other package managers; then all reasons against this host are given at once. Changes nothing.
options:
  systems: {description: All systems that are known., type: list, elements: str, required: true}
  system: {description: The system of the profile., type: str, required: true}
  free_gb: {description: What must be free on the root file system., type: int, required: true}
  wait_s: {description: How long is waited., type: int, required: true}
  modules: {description: Whether kernel modules will be built here., type: bool, default: false}
  headers: {description: Packages that a repository of the host must have., type: list, elements: str, default: []}
author: [gpuprov]
"""
EXAMPLES = """
- name: Refuse what cannot be set up
  gpuprov.host.preflight: {systems: [debian 12], system: debian 12, free_gb: 5, wait_s: 600}
"""
RETURN = """
system: {description: The system of this host., returned: always, type: str}
"""

import fcntl
import glob
import os
import platform
import re
import shutil
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

_NAMES = {"almalinux": "alma", "centos": "centos-stream"}
_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock", "/var/lib/rpm/.rpm.lock")
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_GIB = 1 << 30


def system():
    """The system in the words of the catalogue, as `ubuntu 24.04` or `rocky 9`."""
    with open("/etc/os-release", encoding="utf-8") as file:
        said = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', file.read(), re.MULTILINE))
    name, version = said.get("ID", "?"), said.get("VERSION_ID", "?")
    return "%s %s" % (_NAMES.get(name, name), version if name == "ubuntu" else version.partition(".")[0])


def cloud_init(wait_s):
    """Why cloud-init is in the way; empty when it is not."""
    try:
        done = subprocess.run(
            ["cloud-init", "status", "--wait"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=wait_s, check=False
        )
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        return "cloud-init still runs after %d s: see `cloud-init status --long`" % wait_s
    # 2 is "done, with recoverable errors".
    return "cloud-init failed: see `cloud-init status --long`" if done.returncode == 1 else ""


def package_managers(wait_s):
    """Why the package manager cannot be used; empty when it can."""
    deadline = time.monotonic() + wait_s
    for path in _LOCKS:
        while True:
            holder = held(path)
            if holder is None:
                break
            if time.monotonic() > deadline:
                return "%s is held by %s since more than %d s: let it end, or end it" % (path, holder, wait_s)
            time.sleep(2)
    return ""


def held(path):
    """Who holds a lock file; None when nobody does."""
    try:
        with open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except OSError:
        inode = os.stat(path).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            pids = [line.split()[4] for line in locks if line.split()[5].endswith(":%d" % inode)]
        try:
            with open("/proc/%s/comm" % pids[0], encoding="utf-8", errors="replace") as comm:
                return "%s (process %s)" % (comm.read().strip(), pids[0])
        except (IndexError, OSError):
            return "another process"
    return None


def secure_boot():
    """Why modules that are built here would not load; empty when they would."""
    try:
        with open(_SECURE_BOOT, "rb") as file:
            on = file.read()[4:5] == b"\x01"
    except OSError:
        return ""
    return (
        "Secure Boot is on, and modules built on the host are not signed: switch it off, or take an image with a signed driver"
        if on
        else ""
    )


def without_candidate(names):
    """Which packages no repository that this host knows has; none where it has not yet asked its repositories, or cannot be asked."""
    missing = []
    for name in names:
        if shutil.which("apt-cache"):
            if not glob.glob("/var/lib/apt/lists/*_Packages*"):
                return []
            argv = ["apt-cache", "policy", name]
        else:
            argv = ["dnf", "--quiet", "repoquery", name]
        try:
            done = subprocess.run(
                argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=120, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        said = done.stdout.decode("utf-8", "replace")
        known = "Candidate:" in said and "Candidate: (none)" not in said if argv[0] == "apt-cache" else bool(said.strip())
        missing += [] if known or done.returncode else [name]
    return missing


def main():
    """As Ansible calls it."""
    module = AnsibleModule(
        argument_spec={
            "systems": {"type": "list", "elements": "str", "required": True},
            "system": {"type": "str", "required": True},
            "free_gb": {"type": "int", "required": True},
            "wait_s": {"type": "int", "required": True},
            "modules": {"type": "bool", "default": False},
            "headers": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    asked, here = module.params, system()
    problems = []
    if here not in asked["systems"]:
        problems.append("%s is not supported; %s are" % (here, ", ".join(asked["systems"])))
    elif here != asked["system"] and not os.path.exists("/etc/gpuprov-rehearsal"):
        problems.append("this host is %s, and the profile is for %s" % (here, asked["system"]))
    if platform.machine() != "x86_64":
        problems.append("the processor is %s, and packages and wheels are for x86_64" % platform.machine())
    space = os.statvfs("/")
    free = space.f_bavail * space.f_frsize // _GIB
    if free < asked["free_gb"]:
        problems.append("/ has %d GB free, and the stack needs %d" % (free, asked["free_gb"]))
    problems += [secure_boot()] if asked["modules"] and secure_boot() else []
    missing = without_candidate(asked["headers"])
    if missing:
        problems.append("no repository has %s, which the driver is built with: add the system's own to it" % " and ".join(missing))
    problems += [said for said in (cloud_init(asked["wait_s"]), package_managers(asked["wait_s"])) if said]
    if problems:
        module.fail_json(msg="; ".join(problems))
    module.exit_json(changed=False, system=here)


if __name__ == "__main__":
    main()

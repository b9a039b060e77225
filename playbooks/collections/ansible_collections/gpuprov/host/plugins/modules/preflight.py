#!/usr/bin/python
"""Refuse a host that cannot be set up, before anything is changed."""

from __future__ import annotations

DOCUMENTATION = """
module: preflight
short_description: Wait for other installations, and refuse a host that cannot be set up
description:
  - Waits for cloud-init and for other package managers; then reports all reasons against this host at once. Changes nothing.
  - Warns of what a hardened image may have that makes programs or a first login fail.
options:
  systems: {description: All systems of the catalog., type: list, elements: str, required: true}
  system: {description: The system of the profile., type: str, required: true}
  free_gb: {description: Space that must be free on the root file system., type: int, required: true}
  wait_s: {description: How long to wait., type: int, required: true}
  modules: {description: Whether kernel modules will be built here., type: bool, default: false}
  headers: {description: Packages that a repository of the host must have., type: list, elements: str, default: []}
  given: {description: Packages that the owner of the host makes available., type: list, elements: str, default: []}
  by_hand: {description: How the owner does that., type: str, default: ""}
  repositories: {description: The repositories that the role sources adds., type: list, elements: dict, default: []}
  branch: {description: The branch of the driver that will be installed; empty where none is., type: str, default: ""}
author: [gpuprov]
"""
EXAMPLES = """
- name: Refuse a host that cannot be set up
  gpuprov.host.preflight: {systems: [debian 12], system: debian 12, free_gb: 5, wait_s: 600}
"""
RETURN = """
system: {description: The system of this host., returned: always, type: str}
ansible_facts:
  description: >-
    The fact `pkg_mgr` as Ansible would gather it; `kernel_packages`, the headers of the running kernel or the image of the newest;
    `sources_elsewhere`, files of the host in which entries of these repositories are off; `sources_keyrings`, the keyrings by which the
    host reads those of the system
  returned: always
  type: dict
"""

import fcntl
import glob
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.entries import Elsewhere
from ansible_collections.gpuprov.host.plugins.module_utils.ledger import installed_packages

_NAMES = {"almalinux": "alma", "amzn": "amazon-linux", "centos": "centos-stream"}
_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock", "/var/lib/rpm/.rpm.lock")
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_GIB = 1 << 30
# How DKMS makes its key: Ubuntu's by a program of shim-signed, others with openssl (dkms.in, prepare_mok).
_NEW_UBUNTU_KEY = "sudo apt-get install shim-signed && sudo update-secureboot-policy --new-key && "
_NEW_KEY = (
    "sudo mkdir -p %s && sudo openssl req -new -x509 -nodes -days 36500 -subj '/CN=DKMS module signing key' -newkey rsa:2048 "
    "-keyout %s -outform DER -out %s && "
)
# Where programs and scripts of packages are run from; of a package manager that is not here the folder is not either.
_RUN_FROM = ("/opt", "/usr/local", "/var/lib/dpkg", "/var/lib/dkms")
# What a set-up writes to beside the root, where it is a file system of its own. With less free than this it counts as full: no package and
# no initramfs fits, and either breaks off in the middle.
_BESIDE_ROOT, _FULL_MB = ("/boot", "/opt", "/tmp", "/usr", "/var"), 256
# Where containerd keeps what it gave to runc, with the hooks that NVIDIA's runtime or docker added: its own, and that of docker.
_TASKS = ("/run/containerd", "/run/docker/containerd/daemon")
# Who holds the lock of the packages at a boot, by the name of the process, and what to do about it.
_AGENTS = {
    "unattended-upgr": "it is the system's own upgrade, which ends by itself",
    "apt.systemd.dai": "it is the system's own upgrade, which ends by itself",
    "dnf-automatic": "it is the system's own upgrade, which ends by itself: `systemctl disable dnf-automatic.timer` in the image",
    "packagekitd": "it is PackageKit: `systemctl mask packagekit` in the image",
    "ssm-document-w": "it is AWS Systems Manager, patching: leave the machine out of the patch baseline until it is set up",
    "amazon-ssm-agen": "it is AWS Systems Manager, patching: leave the machine out of the patch baseline until it is set up",
    "google_osconfig": "it is Google's OS Config agent, patching: leave the machine out of the patch job until it is set up",
}


def system():
    """The system in the words of the catalog, such as `ubuntu 24.04` or `rocky 9`."""
    with open("/etc/os-release", encoding="utf-8") as file:
        release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', file.read(), re.MULTILINE))
    name, version = release.get("ID", "?"), release.get("VERSION_ID", "?")
    return "%s %s" % (_NAMES.get(name, name), version if name == "ubuntu" else version.partition(".")[0])


def package_manager():
    """The program that installs packages here, as Ansible's fact `pkg_mgr` has it."""
    if shutil.which("apt-get"):
        return "apt"
    return "dnf5" if os.path.basename(os.path.realpath(shutil.which("dnf") or "")).startswith("dnf5") else "dnf"


def cloud_init(wait_s):
    """Why cloud-init prevents the set-up; empty when it does not. What it leaves at its end says so in no time."""
    if '"errors": []' in text_of("/run/cloud-init/result.json"):
        return ""
    try:
        process = subprocess.run(
            ["cloud-init", "status", "--wait"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=wait_s, check=False
        )
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        return "cloud-init is still running after %d s: see `cloud-init status --long`" % wait_s
    # 2 is "done, with recoverable errors".
    return "cloud-init failed: see `cloud-init status --long`" if process.returncode == 1 else ""


def package_managers(wait_s):
    """Why the package manager cannot be used; empty when it can."""
    deadline = time.monotonic() + wait_s
    for path in _LOCKS:
        while True:
            holder = holder_of(path)
            if holder is None:
                break
            if time.monotonic() > deadline:
                agent = _AGENTS.get(holder.partition(" (")[0], "wait for it, or end it")
                return "%s has been held by %s for more than %d s: %s" % (path, holder, wait_s, agent)
            time.sleep(2)
    return ""


def holder_of(path):
    """The process that holds a lock file; None when none does."""
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
    """Whether the firmware checks what it boots."""
    try:
        with open(_SECURE_BOOT, "rb") as file:
            return file.read()[4:5] == b"\x01"
    except OSError:
        return False


def text_of(path):
    """A small file; empty where it is not there, or not to be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def key_pair():
    """The key by which DKMS signs here, and its certificate, as its configuration or else its program has them."""
    texts = [text_of(path) for path in ["/etc/dkms/framework.conf", *sorted(glob.glob("/etc/dkms/framework.conf.d/*.conf"))]]
    named = dict(re.findall(r"(?m)^\s*(mok_signing_key|mok_certificate)=[\"']?([^\"'\s]+)", "\n".join(texts)))
    usual = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
    usual = usual if system().startswith("ubuntu") else ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
    return named.get("mok_signing_key", usual[0]), named.get("mok_certificate", usual[1])


def is_enrolled(path):
    """Whether the kernel has the key of a certificate: /proc/keys lists it by the identifier in the certificate, an octet string."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return False
    keys = re.findall(r"asymmetri .*: ((?:[0-9a-f]{2})+): ", text_of("/proc/keys"))
    return any(b"\4" + bytes([len(key) // 2]) + bytes.fromhex(key) in content for key in keys)


def signed_only():
    """Why modules that are built on this host would not load; empty when they would."""
    reasons = ["module.sig_enforce=1"] if text_of("/sys/module/module/parameters/sig_enforce") == "Y" else []
    lockdown = re.search(r"\[(\w+)\]", text_of("/sys/kernel/security/lockdown"))
    reasons += ["lockdown=%s" % lockdown.group(1)] if lockdown and lockdown.group(1) != "none" else []
    if not secure_boot():  # then the kernel has no key of the owner's either
        return (
            "the kernel loads signed modules only (%s), and knows no key of this host's: take that out of its command line and "
            "reboot, or take an image with a signed driver" % " and ".join(reasons)
            if reasons
            else ""
        )
    key, path = key_pair()
    why, first = "the key by which DKMS signs modules is not enrolled", ""
    if not key.startswith("pkcs11:") and not (os.path.exists(key) and os.path.exists(path)):
        why = "there is no key by which DKMS could sign modules"
        first = _NEW_UBUNTU_KEY if path.startswith("/var/lib/shim-signed/") else _NEW_KEY % (os.path.dirname(key), key, path)
    elif is_enrolled(path):
        return ""
    return (
        "Secure Boot is on, and %s: `%ssudo mokutil --import %s`, reboot, choose Enroll MOK on the machine's console with the password "
        "that you gave, and run this again; or switch Secure Boot off, or take an image with a signed driver" % (why, first, path)
    )


def under_windows():
    """Why no driver is to be installed under Windows' kernel for Linux; empty elsewhere."""
    # https://docs.nvidia.com/cuda/wsl-user-guide/index.html
    wsl = re.search(r"-microsoft-\S*WSL2", os.uname().release)
    return "this is Linux under Windows (WSL), whose driver is that of Windows: set up a host of its own" if wsl else ""


def of_others(branch):
    """What the host has of a driver that is not this branch's packages: why it is refused, and what is replaced."""
    problems, packages = [], installed_packages()
    # NVIDIA's installer keeps its log until it takes the driver away, and its first line has the version (its backup.c).
    log = re.match(r"1\.0-\d+ \((\S+)\)", text_of("/var/lib/nvidia/log"))
    if log:
        problems.append(
            "NVIDIA's .run installer has put the driver %s here, which packages would overwrite: `sudo nvidia-uninstall`, or "
            "`sudo sh NVIDIA-Linux-x86_64-%s.run --uninstall`; then reboot, and run this again" % (log.group(1), log.group(1))
        )
    vendors = sorted(name for name in packages if name.startswith(("xorg-x11-drv-nvidia", "akmod-nvidia", "nvidia-x11-drv")))
    if vendors:
        problems.append(
            "%s of RPM Fusion or ELRepo cannot stay beside NVIDIA's own packages: `sudo dnf remove %s 'kmod-nvidia*'`, reboot, and run "
            "this again" % (" and ".join(vendors), " ".join(vendors))
        )
    others = sorted(
        "%s %s" % (name, version)
        for name, version in packages.items()
        if re.match(r"(lib)?nvidia-(driver|dkms|open|kernel|compute)|kmod-nvidia|libcuda1", name)
        and re.match(r"(\d+:)?(?!%s)\d{3}\." % branch, version)
    )
    replaced = "the host has the driver of another branch (%s): that of %s takes its place, and an undo does not bring it back"
    return problems, [replaced % (", ".join(others[:3]), branch)] if others and not vendors else []


def noexec(folders):
    """Why programs do not run where they are installed; empty when they do."""
    bare = [folder for folder in folders if os.path.isdir(folder) and os.statvfs(folder).f_flag & os.ST_NOEXEC]
    return (
        "%s mounted noexec, and programs run from there: `mount -o remount,exec`, and the same in /etc/fstab"
        % ("%s is" % bare[0] if len(bare) == 1 else "%s are" % " and ".join(bare))
        if bare
        else ""
    )


def full_disks():
    """File systems beside the root's that are full."""
    states = {path: os.statvfs(path) for path in _BESIDE_ROOT if os.path.ismount(path)}
    free_mb = {path: state.f_bavail * state.f_frsize >> 20 for path, state in states.items()}
    return ["%s has %d MB free, and less than %d is full" % (path, free, _FULL_MB) for path, free in free_mb.items() if free < _FULL_MB]


def legacy_containers():
    """How many containers run with GPUs that a hook of NVIDIA's gave them, beside the cgroups that systemd keeps for them."""
    specs = [text_of(path) for place in _TASKS for path in glob.glob(place + "/io.containerd.runtime.v2.task/*/*/config.json")]
    return sum("nvidia-container-runtime-hook" in spec and re.search(r'"cgroupsPath": ?"[^":]*:', spec) is not None for spec in specs)


def warnings():
    """What of a hardened image makes programs, builds or a first login fail later, each with what to do."""
    said = []
    scratch = tempfile.gettempdir()
    if noexec([scratch]):
        said.append("%s is mounted noexec: builds of pip and installers fail there; set TMPDIR to a folder where programs run" % scratch)
    if text_of("/proc/sys/crypto/fips_enabled") == "1":
        said.append("FIPS mode is on: keys of ed25519 and algorithms that are not approved are refused; log in with an ECDSA or RSA key")
    if shutil.which("cloud-init") is None and not os.path.exists("/var/lib/gpuprov/first-boot"):  # which a script of ours leaves
        said.append("there is no cloud-init: a machine that starts from this image has neither key nor deadline; install it in the image")
    google = text_of("/sys/class/dmi/id/product_name") == "Google Compute Engine"
    if google and shutil.which("google_guest_agent") is None:
        said.append("there is no Google guest agent: keys of the metadata make no login; install google-guest-agent in the image")
    running = legacy_containers()
    if running:
        said.append(
            "containers have GPUs of NVIDIA's legacy mode (%d running) and lose them when systemd reloads its units, as for a package "
            "that is installed (NVIDIA/nvidia-container-toolkit issue 48): start them again after this, or use CDI" % running
        )
    if os.path.exists("/run/fapolicyd.pid") or os.path.exists("/run/fapolicyd/fapolicyd.pid"):
        said.append("fapolicyd runs: it denies programs of no package; `fapolicyd-cli --file add /opt/gpuprov && fapolicyd-cli --update`")
    return said


def printed(argv):
    """What a package manager prints; None if it cannot be asked, as apt before it has package lists."""
    if argv[0] == "apt-cache" and not glob.glob("/var/lib/apt/lists/*_Packages*"):
        return None
    try:
        process = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if process.returncode else process.stdout.decode("utf-8", "replace")


def candidate(name, how="--whatprovides"):
    """Whether a repository of this host has a package; None if the host cannot be asked."""
    if shutil.which("apt-cache"):
        output = printed(["apt-cache", "policy", name])
        return None if output is None else "Candidate:" in output and "Candidate: (none)" not in output
    output = printed(["dnf", "--quiet", "repoquery", how, name])
    return None if output is None else bool(output.strip())


def without_candidate(names):
    """The packages that no repository of this host has."""
    return [name for name in names if candidate(name) is False]


def for_the_kernel(headers, release):
    """What the running kernel needs beside the headers of the lock, which are those of the newest kernel.

    Returns:
        packages: its own headers, else the image of the newest kernel, which takes a reboot; none where it has headers.
        image: whether it is the image.
        problem: why neither can be; empty if one can, or if the host cannot be asked.
    """
    if not headers or os.path.exists("/lib/modules/%s/build/Makefile" % release) or os.path.exists("/etc/gpuprov-rehearsal"):
        return [], False, ""
    devel = re.sub(r"-devel.*", "-devel", headers[0])
    own = "%s-%s" % ("linux-headers" if devel.startswith("linux-") else devel, release)
    exists = candidate(own, "--available")
    if exists is not False:
        return [own] if exists else [], False, ""
    if own.startswith("linux-"):
        newest = [name for name in headers if release.endswith(name[len("linux-headers") :])] or headers
        needed = re.findall(r"Depends: linux-headers-(\d\S+)", printed(["apt-cache", "depends", newest[0]]) or "")
        image = [name for name in ["linux-image-" + kernel for kernel in needed[:1]] if candidate(name)]
    else:
        image = (printed(["dnf", "--quiet", "repoquery", "--latest-limit=1", devel]) or "").replace("-devel-", "-").split()[:1]
    if image:
        return image, True, ""
    problem = "the running kernel %s has no headers here, and no repository has %s: boot a kernel of the system's own repositories"
    return [], False, problem % (release, own)


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
            "given": {"type": "list", "elements": "str", "default": []},
            "by_hand": {"type": "str", "default": ""},
            "repositories": {"type": "list", "elements": "dict", "default": []},
            "branch": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    options, here = module.params, system()
    problems = []
    if here not in options["systems"]:
        problems.append("%s is not supported; %s are" % (here, ", ".join(options["systems"])))
    elif here != options["system"] and not os.path.exists("/etc/gpuprov-rehearsal"):
        problems.append("this host is %s, and the profile is for %s" % (here, options["system"]))
    if platform.machine() != "x86_64":
        problems.append("the processor is %s, and packages and wheels are for x86_64" % platform.machine())
    space = os.statvfs("/")
    free = space.f_bavail * space.f_frsize // _GIB
    if free < options["free_gb"]:
        problems.append("/ has %d GB free, and the stack needs %d" % (free, options["free_gb"]))
    reasons = [signed_only() if options["modules"] else "", under_windows() if options["branch"] else "", noexec(_RUN_FROM)]
    problems += full_disks() + [why for why in reasons if why]
    refused, replaced = of_others(options["branch"]) if options["branch"] else ([], [])
    problems += refused
    missing = without_candidate(options["headers"])
    if missing:
        names = " and ".join(missing)
        problems.append("no repository has %s, which the build of the driver needs: add the repositories of the system" % names)
    given = without_candidate(options["given"])
    if given:
        problems.append("no repository has %s: %s" % (" and ".join(given), options["by_hand"]))
    packages, image, problem = for_the_kernel(options["headers"] if options["modules"] and not missing else [], os.uname().release)
    problems += [problem] if problem else []
    elsewhere = Elsewhere(options["repositories"])
    problems += elsewhere.problems
    problems += [reason for reason in (cloud_init(options["wait_s"]), package_managers(options["wait_s"])) if reason]
    if problems:
        module.fail_json(msg="; ".join(problems))
    reboot = "no repository has the headers of the running kernel %s: %s is installed, and the host is rebooted once if it has a GPU"
    for warning in warnings() + elsewhere.taken + replaced + ([reboot % (os.uname().release, packages[0])] if image else []):
        module.warn(warning)
    facts = {
        "pkg_mgr": package_manager(),
        "kernel_packages": packages,
        "sources_elsewhere": elsewhere.files,
        "sources_keyrings": elsewhere.keyrings,
    }
    module.exit_json(changed=False, system=here, ansible_facts=facts)


if __name__ == "__main__":
    main()

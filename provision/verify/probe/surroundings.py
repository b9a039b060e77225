"""What surrounds the stack: variables, the initramfs, upgrades."""

import glob
import os
import platform
import re
import shutil

from counters import option
from run import Unknown, command, read
from sessions import login_environment, service_environment

# What changes how every program uses the GPU: DCGM's ten (docs/sources/verification.md §1b), and those that users set and forget.
VARIABLES = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING",
    "XLA_FLAGS",
    "CUDA_INJECTION32_PATH",
    "CUDA_INJECTION64_PATH",
    "CUDA_AUTO_BOOST",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_COREDUMP_FILE",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_PROFILE",
    "COMPUTE_PROFILE",
    "OPENCL_PROFILE",
    "NSIGHT_CUDA_DEBUGGER",
)


def relevant(lines):
    """Those of the variables that `NAME=value` lines set; the last one wins, as in a shell. None where there are no lines."""
    pairs = [line.partition("=") for line in lines or []]
    return None if lines is None else {name: value.strip("\"'")[:500] for name, _, value in pairs if name in VARIABLES}


def variables():
    """What each kind of session and /etc/environment set of the variables that change what CUDA does."""
    return {
        "login": relevant(login_environment()),
        "ssh": relevant(["%s=%s" % item for item in os.environ.items()] if "SSH_CONNECTION" in os.environ else None),
        "service": relevant(service_environment()),
        "system": relevant([re.sub(r"^\s*(export\s+)?", "", line) for line in (read("/etc/environment") or "").splitlines()]),
    }


def initramfs():
    """That file, and the running kernel's initramfs, which holds a copy of it: when each was written."""
    path, kernel = option()[0], platform.release()
    images = ["/boot/initrd.img-" + kernel, "/boot/initramfs-%s.img" % kernel]
    image = next((name for name in images if os.path.exists(name)), None)
    return {
        "option": {"path": path, "changed": os.stat(path).st_mtime} if path else None,
        "image": {"path": image, "changed": os.stat(image).st_mtime} if image else None,
    }


def upgrades():
    """Packages of the driver, whether upgrades are installed unattended, and what these leave out."""
    packages = sorted({os.path.basename(path)[: -len(".list")].split(":")[0] for path in glob.glob("/var/lib/dpkg/info/*nvidia*.list")})
    unattended, excluded = False, []
    if shutil.which("apt-config"):
        code, out, err = command(["apt-config", "dump"], 20)
        if code:
            raise Unknown("apt-config dump: %s" % err.strip()[:200])
        options = re.findall(r'^([\w:-]+) "(.*)";$', out, re.MULTILINE)
        period = [value for name, value in options if name == "APT::Periodic::Unattended-Upgrade"][-1:]
        unattended = bool(shutil.which("unattended-upgrade")) and bool(period) and period[0] not in ("", "0")
        excluded = [value for name, value in options if name == "Unattended-Upgrade::Package-Blacklist::"]
    elif shutil.which("rpm"):
        _, out, _ = command(["rpm", "-qa", "--qf", "%{NAME}\\n", "*nvidia*"], 20)
        packages = sorted(set(out.split()))
        automatic = read("/etc/dnf/automatic.conf") or ""
        unattended = bool(re.search(r"^\s*apply_updates\s*=\s*(yes|true|1)", automatic, re.MULTILINE))
        for line in re.findall(r"^\s*(?:exclude|excludepkgs)\s*=(.*)$", automatic + "\n" + (read("/etc/dnf/dnf.conf") or ""), re.MULTILINE):
            excluded += line.replace(",", " ").split()
    return {"packages": packages, "unattended": unattended, "excluded": sorted(excluded)}


FACTS = {"variables": variables, "initramfs": initramfs, "upgrades": upgrades}

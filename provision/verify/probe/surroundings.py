"""What surrounds the stack: variables, the initramfs, upgrades."""

import glob
import os
import platform
import re
import shutil

from counters import COMMAND_LINE, option
from device import loader_cache
from run import Unknown, command, output, read
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

# What PAM and systemd give to sessions, and what login shells run (pam_env(8), environment.d(5), bash(1)).
SYSTEM_FILES = ("/etc/environment", "/usr/lib/environment.d/*.conf", "/etc/environment.d/*.conf", "/etc/security/pam_env.conf")
PROFILES = ("/etc/profile", "/etc/profile.d/*.sh", "/etc/bash.bashrc", "/etc/bashrc")
OWN_PROFILES = ("~/.bash_profile", "~/.bash_login", "~/.profile", "~/.bashrc")


CUDA_LIBRARY = re.compile(r"lib(cuda|nvidia-ml|cudart|cudnn\w*|cublas\w*|nccl)\.so[.\d]*$")


def relevant(lines):
    """Those of the variables that `NAME=value` lines set; the last one wins, as in a shell. None where there are no lines."""
    pairs = [line.partition("=") for line in lines or []]
    return None if lines is None else {name: value.strip("\"'")[:500] for name, _, value in pairs if name in VARIABLES}


def assignments(path, text):
    """NAME=value lines that a file of variables has: a list of assignments, PAM's own form, or a script of the shell."""
    if path.endswith("/pam_env.conf"):
        found = re.findall(r"^\s*(\w+)\s+(.*)$", text, re.MULTILINE)
        values = [(name, dict(re.findall(r'(DEFAULT|OVERRIDE)=("[^"]*"|\S+)', rest))) for name, rest in found]
        return ["%s=%s" % (name, given.get("OVERRIDE", given.get("DEFAULT", ""))) for name, given in values if given]
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    if path.endswith((".conf", "/environment")):
        return [re.sub(r"^\s*(export\s+)?", "", line) for line in lines]
    return ["=".join(pair) for line in lines for pair in re.findall(r"(?:^|[\s;])(\w+)=(\"[^\"]*\"|'[^']*'|[^\s;]*)", line)]


def set_in(patterns):
    """File → its relevant variables, for the files that set any; and the files that this user may not read."""
    files, unread = {}, []
    for path in [path for pattern in patterns for path in sorted(glob.glob(pattern))]:
        try:
            values = relevant(assignments(path, read(path) or ""))
        except (PermissionError, IsADirectoryError):
            unread.append(path)
            continue
        if values:
            files[path] = values
    return files, unread


def variables(root=""):
    """What each kind of session sets of the variables that change what CUDA does; where none can be seen, what the files for it set."""
    files, unread = set_in([root + path for path in SYSTEM_FILES])
    system = files.pop(root + "/etc/environment", {})
    seen = {"login": relevant(login_environment()), "service": relevant(service_environment())}
    ssh = relevant(["%s=%s" % item for item in os.environ.items()] if "SSH_CONNECTION" in os.environ else None)
    by_files = sorted(kind for kind in seen if seen[kind] is None)
    if seen["login"] is None:
        scripts, closed = set_in([root + path for path in PROFILES] + [os.path.expanduser(path) for path in OWN_PROFILES])
        files.update(scripts)
        unread += closed
    return {
        # Without systemd's files nothing sets variables for services.
        **{kind: {} if seen[kind] is None else seen[kind] for kind in seen},
        "ssh": ssh,
        "system": system,
        "files": files,
        "unread": unread,
        "by_files": by_files,
        "libraries": libraries(
            place.get("LD_LIBRARY_PATH", "") for place in [*filter(None, seen.values()), ssh or {}, system, *files.values()]
        ),
    }


def libraries(paths):
    """Folder of a path for libraries -> where it really is, whether the loader looks there anyway, and which libraries of CUDA's it has."""
    folders = sorted({folder for path in paths for folder in path.split(":") if folder})
    own = {os.path.realpath(os.path.dirname(line.rpartition("=> ")[2])) for line in loader_cache() if "=> " in line} if folders else set()
    found = {}
    for folder in folders:
        try:
            names = [name for name in os.listdir(folder) if CUDA_LIBRARY.match(name)]
        except (FileNotFoundError, NotADirectoryError):
            names = []
        except OSError:
            names = None
        place = os.path.realpath(folder)
        files = names and sorted({os.path.basename(os.path.realpath(os.path.join(folder, name))) for name in names})[:40]
        found[folder] = {"place": place, "own": place in own, "files": files}
    return found


def initramfs():
    """That file, and the running kernel's initramfs, which holds a copy of it: when each was written."""
    path, kernel = option()[0], platform.release()
    path = None if path == COMMAND_LINE else path  # which no image holds
    images = ["/boot/initrd.img-" + kernel, "/boot/initramfs-%s.img" % kernel]
    image = next((name for name in images if os.path.exists(name)), None)
    return {
        "option": {"path": path, "changed": os.stat(path).st_mtime} if path else None,
        "image": {"path": image, "changed": os.stat(image).st_mtime} if image else None,
    }


def upgrades():
    """Packages of the driver, whether upgrades are installed unattended, and what these leave out."""
    packages, unattended, excluded = [], False, []
    if shutil.which("apt-config"):
        listed = output(["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", "*nvidia*"]) or ""
        rows = [line.split() for line in listed.splitlines()]
        # A package that was removed and not purged is still listed: an upgrade to another branch leaves those of the former one.
        packages = sorted({row[0] for row in rows if len(row) == 2 and row[1] not in ("config-files", "not-installed")})
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

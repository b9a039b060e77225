"""Facts about the system: release, user, tools, file systems, sessions, kernel log, upgrades, clock."""

from __future__ import annotations

import glob
import os
import platform
import pwd
import re
import shutil
import stat
import sys

from run import Unknown, command, read

TOOLS = {
    "gcc": ["-dumpfullversion"],
    "make": ["--version"],
    "cmake": ["--version"],
    "git": ["--version"],
    "tmux": ["-V"],
    "ffmpeg": ["-version"],
}
# What changes how every program uses the GPU: DCGM's ten (shared/facts/verification.md §1b), and those that users set and forget.
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
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\)[^:]*: (\d+)")
FILE_SYSTEMS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "zfs", "f2fs"}


def release():
    """What os-release says, and whether this is a rehearsal host."""
    text = read("/etc/os-release")
    if text is None:
        raise Unknown("there is no /etc/os-release")
    said = {k: v.strip("\"'") for k, _, v in (line.partition("=") for line in text.splitlines()) if k}
    return {
        "id": said.get("ID", ""),
        "version_id": said.get("VERSION_ID", ""),
        "pretty": said.get("PRETTY_NAME", ""),
        "stand_in": os.path.exists("/etc/gpuprov-rehearsal"),
    }


def kernel():
    """Release and machine of the kernel."""
    return {"release": platform.release(), "machine": platform.machine()}


def identity():
    """As whom the facts were gathered, and in which boot."""
    return {
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "uid": os.geteuid(),
        "boot_id": (read("/proc/sys/kernel/random/boot_id") or "").strip(),
        "over_ssh": "SSH_CONNECTION" in os.environ,
    }


def python3():
    """The interpreter that runs this."""
    return {"version": platform.python_version(), "path": sys.executable}


def tool(name):
    """Where a tool is and its version; None where there is none."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/bin")
    if path is None:
        return None
    _, out, err = command([path] + TOOLS[name], 20)
    found = re.search(r"[0-9]+(\.[0-9]+)*", out or err)
    return {"path": path, "version": found.group(0) if found else ""}


def users():
    """Names of the people who can log in."""
    return sorted(entry.pw_name for entry in pwd.getpwall() if 1000 <= entry.pw_uid < 60000)


def file_systems():
    """Every mounted file system that keeps data, with its size, owner, and whether the next boot mounts it."""
    units = mount_units()
    found = []
    for line in (read("/proc/self/mounts") or "").splitlines():
        source, target, kind = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), part) for part in line.split(" ")[:3]]
        if kind not in FILE_SYSTEMS:
            continue
        try:
            space, point = os.statvfs(target), os.stat(target)
        except OSError:
            continue
        found.append(
            {
                "source": source,
                "target": target,
                "type": kind,
                "size_bytes": space.f_blocks * space.f_frsize,
                "free_bytes": space.f_bavail * space.f_frsize,
                "owner": owner(point.st_uid),
                "mode": stat.S_IMODE(point.st_mode),
                "writable": os.access(target, os.W_OK),
                "at_boot": None if units is None else units.get(target, False),
            }
        )
    return found


def root_disk():
    """How far the root partition and its file system fill their disk; only type and source where / is not ext4 or xfs on a partition."""
    mounted = [line.split(" ")[:3] for line in (read("/proc/self/mounts") or "").splitlines()]
    source, _, kind = [parts for parts in mounted if parts[1] == "/"][-1]
    found = {"source": source, "type": kind, "partition": None}
    number = os.stat("/").st_dev
    node = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(number), os.minor(number)))
    if kind not in ("ext4", "xfs"):
        return found
    if not os.path.isdir(node):
        raise Unknown("/sys does not show %s, which / lies on" % source)
    if not os.path.exists(node + "/partition"):
        return found
    disk = os.path.dirname(node)
    start, size, whole = sectors(node + "/start"), sectors(node + "/size"), sectors(disk + "/size")
    starts = [sectors(path) for path in glob.glob(disk + "/*/start")]
    space = os.statvfs("/")
    found["partition"] = {
        "disk_bytes": whole * 512,
        "size_bytes": size * 512,
        "behind_bytes": (min([at for at in starts if at > start] + [whole]) - start - size) * 512,
        "file_system_bytes": space.f_blocks * space.f_frsize,
    }
    return found


def sectors(path):
    """A number of /sys in its unit of 512 bytes, whatever the disk's own sectors are."""
    return int(read(path) or "")


def owner(uid):
    """The name of a user id, or the id where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def mount_units():
    """Mount point -> whether systemd mounts it at boot (enabled, static, or generated from fstab); None without systemd."""
    try:
        code, out, _ = command(["systemctl", "show", "--property=Where,UnitFileState,FragmentPath", "*.mount"], 10)
    except FileNotFoundError:
        return None
    if code:
        return None
    units = {}
    for block in out.split("\n\n"):
        said = dict(line.partition("=")[::2] for line in block.splitlines())
        generated = said.get("FragmentPath", "").startswith("/run/systemd/generator")
        if said.get("Where"):
            units[said["Where"]] = generated or said.get("UnitFileState") in ("enabled", "static", "generated")
    return units


def clean():
    """The environment that a login begins with."""
    person = pwd.getpwuid(os.geteuid())
    return {"HOME": person.pw_dir, "USER": person.pw_name, "LOGNAME": person.pw_name, "PATH": "/usr/bin:/bin", "TERM": "dumb"}


def sessions():
    """The PATH that each kind of session has, and the folders of the loader's configuration."""
    mark = "gpuprov-path="
    code, out, _ = command(["bash", "-lc", "echo %s$PATH" % mark], 10, env=clean())
    login = [line[len(mark) :] for line in out.splitlines() if line.startswith(mark)]
    try:
        code, out, _ = command(["systemctl", "show-environment"], 10)
        service = [line[5:] for line in out.splitlines() if line.startswith("PATH=")] if code == 0 else []
    except FileNotFoundError:
        service = []
    return {
        "login": login[-1] if login else None,
        "ssh": os.environ.get("PATH") if "SSH_CONNECTION" in os.environ else None,
        "service": service[-1] if service else None,
        "loader": loader_folders(),
    }


def loader_folders():
    """The folders that /etc/ld.so.conf.d adds to the loader's search."""
    folders = []
    try:
        names = sorted(os.listdir("/etc/ld.so.conf.d"))
    except OSError:
        return folders
    for name in names:
        if name.endswith(".conf"):
            folders += [line.strip() for line in (read("/etc/ld.so.conf.d/" + name) or "").splitlines() if line.strip().startswith("/")]
    return folders


def chosen(lines):
    """Those of the variables that `NAME=value` lines set; the last one wins, as in a shell."""
    said = [line.partition("=") for line in lines]
    return {name: value.strip("\"'")[:500] for name, _, value in said if name in VARIABLES}


def variables():
    """What each kind of session and /etc/environment set of the variables that change what CUDA does."""
    mark = "gpuprov-environment"
    _, out, _ = command(["bash", "-lc", "echo %s; env" % mark], 10, env=clean())
    _, here, login = out.rpartition(mark + "\n")
    try:
        code, service, _ = command(["systemctl", "show-environment"], 10)
    except FileNotFoundError:
        code, service = 1, ""
    system = [re.sub(r"^\s*(export\s+)?", "", line) for line in (read("/etc/environment") or "").splitlines()]
    return {
        "login": chosen(login.splitlines()) if here else None,
        "ssh": chosen("%s=%s" % item for item in os.environ.items()) if "SSH_CONNECTION" in os.environ else None,
        "service": chosen(service.splitlines()) if code == 0 else None,
        "system": chosen(system),
    }


def kernel_log():
    """The log's first lines and the driver's, of this boot, and where they are from; a log that this user may not read is no empty log."""
    refused = []
    for asked in ("journalctl -k -b 0 -o cat --no-pager", "dmesg"):
        name = asked.split()[0]
        if not shutil.which(name):
            refused.append("no %s" % name)
            continue
        # A firewall or containers can fill a kernel log with megabytes that nobody asks for.
        filtered = asked + " | sed -n -e 1,50p -e '51,$ { /NVRM/p; }' | head -c 2000000"
        _, out, err = command(["/bin/sh", "-c", filtered], 25)
        lines = [line for line in out.splitlines() if line.strip() and not line.startswith("-- ")]
        if lines:
            return asked.partition(" -b")[0], lines
        refused.append("%s: %s" % (name, (err.strip().splitlines() or ["shows nothing to this user"])[-1][:200]))
    raise Unknown("the kernel log cannot be read (%s): run as root, or as a member of adm or systemd-journal" % "; ".join(refused))


def xids():
    """The driver's complaints since the boot, by GPU and code. A GPU that fell off the bus may be said without a code: it is 79."""
    source, lines = kernel_log()
    events = {}
    for line in lines:
        said = XID.search(line)
        key = (said.group(1).lower(), int(said.group(2))) if said else None
        if not said and "NVRM" in line and "fallen off the bus" in line:
            where = re.search(r"GPU (?:at )?(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})", line)
            key = (where.group(1).lower() if where else "", 79)
        if key:
            before = events.get(key, {"count": 0})
            events[key] = {"pci": key[0], "code": key[1], "count": before["count"] + 1, "last": line.strip()[:200]}
    # The ring of dmesg and a journal that was rotated lose their beginning first, where every boot says its version.
    complete = any("Linux version" in line for line in lines[:50])
    return {"source": source, "complete": complete, "events": [events[key] for key in sorted(events)]}


def upgrades():
    """Packages of the driver, whether upgrades are installed unattended, and what these leave out."""
    found = sorted({os.path.basename(path)[: -len(".list")].split(":")[0] for path in glob.glob("/var/lib/dpkg/info/*nvidia*.list")})
    unattended, excluded = False, []
    if shutil.which("apt-config"):
        code, out, err = command(["apt-config", "dump"], 20)
        if code:
            raise Unknown("apt-config dump: %s" % err.strip()[:200])
        said = re.findall(r'^([\w:-]+) "(.*)";$', out, re.MULTILINE)
        period = [value for name, value in said if name == "APT::Periodic::Unattended-Upgrade"][-1:]
        unattended = bool(shutil.which("unattended-upgrade")) and bool(period) and period[0] not in ("", "0")
        excluded = [value for name, value in said if name == "Unattended-Upgrade::Package-Blacklist::"]
    elif shutil.which("rpm"):
        _, out, _ = command(["rpm", "-qa", "--qf", "%{NAME}\\n", "*nvidia*"], 20)
        found = sorted(set(out.split()))
        automatic = read("/etc/dnf/automatic.conf") or ""
        unattended = bool(re.search(r"^\s*apply_updates\s*=\s*(yes|true|1)", automatic, re.MULTILINE))
        for line in re.findall(r"^\s*(?:exclude|excludepkgs)\s*=(.*)$", automatic + "\n" + (read("/etc/dnf/dnf.conf") or ""), re.MULTILINE):
            excluded += line.replace(",", " ").split()
    return {"packages": found, "unattended": unattended, "excluded": sorted(excluded)}


def clock():
    """How long the host is up, and whether its clock follows a time server."""
    try:
        code, out, _ = command(["timedatectl", "show", "--property=NTPSynchronized", "--value"], 10)
    except FileNotFoundError:
        code, out = 1, ""
    up = float((read("/proc/uptime") or "").split()[0])
    return {"up_s": up, "synchronised": {"yes": True, "no": False}.get(out.strip()) if code == 0 else None}


def facts():
    """Name -> function of this subject."""
    named = {"tool_" + name: (lambda name=name: {"found": tool(name)}) for name in TOOLS}
    return dict(
        named,
        os=release,
        kernel=kernel,
        identity=identity,
        python3=python3,
        users=users,
        file_systems=file_systems,
        root_disk=root_disk,
        sessions=sessions,
        variables=variables,
        xids=xids,
        upgrades=upgrades,
        clock=clock,
    )

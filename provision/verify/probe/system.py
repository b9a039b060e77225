"""Facts about the system: release, user, tools, file systems, sessions."""

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


def sessions():
    """The PATH that each kind of session has, and the folders of the loader's configuration."""
    person = pwd.getpwuid(os.geteuid())
    clean = {"HOME": person.pw_dir, "USER": person.pw_name, "LOGNAME": person.pw_name, "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    mark = "gpuprov-path="
    code, out, _ = command(["bash", "-lc", "echo %s$PATH" % mark], 10, env=clean)
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
    )

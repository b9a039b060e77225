"""Facts about file systems and the disk below /."""

import glob
import os
import pwd
import re
import stat

from run import Unknown, output, read

FILE_SYSTEMS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "zfs", "f2fs"}


def mounts():
    """Source, target and type of each mount, in their order."""
    lines = [line.split(" ")[:3] for line in (read("/proc/self/mounts") or "").splitlines()]
    return [[re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), part) for part in parts] for parts in lines]


def file_systems():
    """Every mounted file system that keeps data, with its size, owner, and whether the next boot mounts it."""
    units = mount_units()
    rows = []
    for source, target, kind in mounts():
        if kind not in FILE_SYSTEMS:
            continue
        try:
            space, point = os.statvfs(target), os.stat(target)
        except OSError:
            continue
        rows.append(
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
    return rows


def root_disk():
    """How far the root partition and its file system fill their disk; no partition where / is not ext4 or xfs on one."""
    source, _, kind = [mount for mount in mounts() if mount[1] == "/"][-1]
    answer = {"source": source, "type": kind, "partition": None}
    number = os.stat("/").st_dev
    node = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(number), os.minor(number)))
    if kind not in ("ext4", "xfs"):
        return answer
    if not os.path.isdir(node):
        raise Unknown("/sys does not show %s, which / lies on" % source)
    if not os.path.exists(node + "/partition"):
        return answer
    disk = os.path.dirname(node)
    start, size, whole = sectors(node + "/start"), sectors(node + "/size"), sectors(disk + "/size")
    starts = [sectors(path) for path in glob.glob(disk + "/*/start")]
    space = os.statvfs("/")
    answer["partition"] = {
        "disk_bytes": whole * 512,
        "size_bytes": size * 512,
        "behind_bytes": (min([at for at in starts if at > start] + [whole]) - start - size) * 512,
        "file_system_bytes": space.f_blocks * space.f_frsize,
    }
    return answer


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
    out = output(["systemctl", "show", "--property=Where,UnitFileState,FragmentPath", "*.mount"])
    if out is None:
        return None
    units = {}
    for block in out.split("\n\n"):
        unit_file = dict(line.partition("=")[::2] for line in block.splitlines())
        generated = unit_file.get("FragmentPath", "").startswith("/run/systemd/generator")
        if unit_file.get("Where"):
            units[unit_file["Where"]] = generated or unit_file.get("UnitFileState") in ("enabled", "static", "generated")
    return units


FACTS = {"file_systems": file_systems, "root_disk": root_disk}

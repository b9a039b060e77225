"""What this machine needs to hold the embedded clouds and their hosts: it is tried for real, and what was tried is gone afterwards."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from provision import paths
from provision.rehearsal import cgroups, disks, rootfs
from provision.rehearsal.namespaces import KINDS, apart
from provision.rehearsal.programs import run, search_path
from provision.structs import Struct

_PACKAGES: Final = ("moto", "proxpi", "googleapiclient", "psutil", "openapi_schema_validator")
_TOOLS: Final = {
    "mmdebstrap": "mmdebstrap",
    "apt-cacher-ng": "apt-cacher-ng",
    "bash": "bash",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "pivot_root": "util-linux",
    "losetup": "mount",
    "mount": "mount",
    "hostname": "hostname",
    "mkfs.ext4": "e2fsprogs",
    "apt-get": "apt",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
_TRIAL: Final = Path(__file__).with_name("trial.sh")
_TRIAL_S: Final = 60
# The root file system and what the proxies keep, and the 5 GB that role `preflight` asks of a host.
_ROOM_GB: Final = 6
# One host's systemd (of the system and of a user), logind and dbus, counted on Debian 12; without them "Failed to allocate manager object".
_WATCHES: Final = 10
_CONTAINER: Final = "in a container, start it with --privileged"
# Step of the trial → what is said of it, and the way out.
_STEPS: Final = {
    "cgroup": ("no control group can be entered", f"give this machine a writable cgroup2 hierarchy; {_CONTAINER}"),
    "namespaces": ("namespaces cannot be made", f"leave the chroot, or what else confines gpuprov; {_CONTAINER}"),
    "network": (
        "no bridge and no veth pair can be made, or no rule for ports",
        f"modprobe bridge veth; Linux 4.17 with policy routing; {_CONTAINER}",
    ),
    "overlay": ("no overlay can be mounted", "modprobe overlay; let GPUPROV_HOME name a folder on ext4 or xfs, not on an overlay"),
    "mounts": ("proc, sysfs, cgroup2 or devpts cannot be mounted", f"leave what confines gpuprov; {_CONTAINER}"),
    "devices": ("no device node can be made", f"keep CAP_MKNOD; {_CONTAINER}"),
    "pivot_root": (
        "pivot_root is refused",
        "leave the chroot, or the initial RAM disk: the root of gpuprov must be a file system that is mounted",
    ),
}


class Gap(Struct):
    """What this machine lacks, and how to get it: a line each."""

    what: str
    how: str


def gaps(folder: Path, *, hosts: bool) -> list[Gap]:
    """What this machine lacks for a rehearsal in this folder, which need not exist; without hosts no tool and no right is needed."""
    lacking = [name for name in _PACKAGES if find_spec(name) is None]
    extra = "install gpuprov with its extra, '.[rehearse]' in a clone"
    lacks = [Gap(f"Python packages of the extra rehearse are missing: {', '.join(lacking)}", extra)] if lacking else []
    if not hosts:
        return lacks
    missing = [tool for tool in _TOOLS if not shutil.which(tool, path=search_path())]
    install = f"apt-get install {' '.join(sorted({_TOOLS[tool] for tool in missing}))}"
    lacks += [Gap(f"programs are missing: {', '.join(missing)}", install)] if missing else []
    if "apt-get" not in missing and not rootfs.distribution()[1]:
        lacks.append(Gap("apt has no package lists of Debian or Ubuntu, from which hosts are made", "apt-get update"))
    if os.geteuid() != 0:
        return [*lacks, Gap("hosts need root, for namespaces, loop devices and a bridge", 'run `sudo "$(command -v gpuprov)" …`')]
    try:
        with _scratch(folder) as upper, _scratch(paths.cache_path()) as lower:
            lacks += [gap for place in {path.stat().st_dev: path for path in (lower, upper)}.values() if (gap := _room(place))]
            return lacks + list(_trials(upper, lower, set(missing)))
    except subprocess.TimeoutExpired as error:
        return [*lacks, Gap(f"{error.cmd[0]} did not end within {_TRIAL_S} s", "see the kernel's log (dmesg) for what it waits for")]
    except OSError as error:
        return [*lacks, Gap(f"no folder can be made ({error})", "let GPUPROV_HOME and GPUPROV_CACHE name folders that can be written")]


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for a moment, on the file system where `folder` is or would be."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    with tempfile.TemporaryDirectory(prefix=".gpuprov-check-", dir=existing) as name:
        yield Path(name)


def _room(scratch: Path) -> Gap | None:
    free_gb = shutil.disk_usage(scratch).free / 10**9
    if free_gb >= _ROOM_GB:
        return None
    how = "make room there, or let GPUPROV_HOME and GPUPROV_CACHE name folders that have it"
    return Gap(f"{scratch.parent} has {free_gb:.1f} GB free, and a rehearsal host takes {_ROOM_GB}", how)


def _trials(upper: Path, lower: Path, missing: set[str]) -> Iterator[Gap]:
    for name in ("upper", "work", "root"):
        (upper / name).mkdir()
    group = None
    try:
        group = cgroups.make(upper, "check")
    except OSError as error:
        yield Gap(f"no control group can be made ({error.strerror})", _STEPS["cgroup"][1])
    try:
        if not missing & {"bash", "unshare", "setpriv", "ip", "mount", "hostname", "pivot_root"}:
            yield from _trial(upper, lower, group)
        if "losetup" not in missing:
            yield from _loop(upper)
        yield from _inotify()
    finally:
        if group:
            cgroups.remove(group)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return run(*words, check=False, timeout_s=_TRIAL_S)


def _trial(upper: Path, lower: Path, group: Path | None) -> Iterator[Gap]:
    done = _run(*apart(group), "bash", str(_TRIAL), str(upper), str(lower), str(group or ""))
    lines = done.stdout.splitlines()
    for line in lines:
        step, _, reason = line.partition("\t")
        if step in _STEPS:
            what, how = _STEPS[step]
            yield Gap(f"{what} ({reason})", how)
    if "end" not in lines:
        refused = [kind for kind in KINDS if _run(*apart(None, (kind,)), "true").returncode]
        what, how = _STEPS["namespaces"]
        yield Gap(f"{what} ({', '.join(refused) or 'all of them together'}: {_last_line(done.stderr)})", how)


def _loop(folder: Path) -> Iterator[Gap]:
    file = folder / "disk.img"
    file.write_bytes(bytes(4096))
    try:
        done = _run("losetup", "--find", "--show", str(file))
        if done.returncode:
            how = "modprobe loop; in a container, pass /dev/loop-control and /dev/loop*"
            yield Gap(f"no loop device can be had ({_last_line(done.stderr)})", how)
    finally:
        disks.sweep(folder)


def _inotify() -> Iterator[Gap]:
    """All hosts share what the kernel grants this user (max_user_instances in inotify(7))."""
    opened = list[int]()
    try:
        while len(opened) < _WATCHES and (watch := ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)) >= 0:
            opened.append(watch)
    finally:
        for watch in opened:
            os.close(watch)
    if len(opened) < _WATCHES:
        what = f"{len(opened)} inotify instances are left, and a host takes {_WATCHES}"
        yield Gap(what, "end other rehearsals, or sysctl fs.inotify.max_user_instances=1024, by default 128")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason was given")

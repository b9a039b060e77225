"""Who may read the performance counters: what the next boot does, what the driver does now, what an ordinary user and a group get.

Techniques and their sources: shared/facts/verification.md §2.1.
"""

from __future__ import annotations

import contextlib
import glob
import grp
import os
import platform
import pwd
import re
import shutil
import tempfile

from gpu import pci_devices
from run import REQUEST, command, read


def option():
    """The file that decides on the counters at the next load of the driver, and its choice: the last one wins."""
    deciding = (None, None)
    for folder in ("/lib/modprobe.d", "/usr/lib/modprobe.d", "/run/modprobe.d", "/etc/modprobe.d"):
        for path in sorted(glob.glob(folder + "/*.conf")):
            for line in (read(path) or "").splitlines():
                found = re.match(r"\s*options\s+nvidia\S*\s.*NVreg_RestrictProfilingToAdminUsers=(\d)", line)
                deciding = (path, found.group(1)) if found else deciding
    return deciding


def initramfs():
    """That file, and the running kernel's initramfs, which holds a copy of it: when each was written."""
    path, kernel = option()[0], platform.release()
    images = ["/boot/initrd.img-" + kernel, "/boot/initramfs-%s.img" % kernel]
    image = next((name for name in images if os.path.exists(name)), None)
    return {
        "option": {"path": path, "changed": os.stat(path).st_mtime} if path else None,
        "image": {"path": image, "changed": os.stat(image).st_mtime} if image else None,
    }


def counters():
    """The three layers of access to performance counters: on disk, live, and as an ordinary user gets them."""
    setting = option()[1]
    params = read("/proc/driver/nvidia/params") or ""
    # The knob and the readout have different names; older drivers show the knob's.
    live = re.search(r"(?:RmProfilingAdminOnly|RestrictProfilingToAdminUsers): (\d)", params)
    here = bool(pci_devices() or glob.glob("/dev/nvidia[0-9]*"))
    as_user = {"outcome": "no-gpu", "user": None, "said": ""}
    if here:
        quick = {"outcome": "not-tried", "user": None, "said": "tier quick runs no profiler"}
        as_user = quick if REQUEST["tier"] == "quick" else counters_as_user()
    return {
        "on_disk": setting,
        "live": live.group(1) if live else None,
        "as_user": as_user,
        "as_group": counters_as_group(here and REQUEST["tier"] != "quick"),
    }


def query_metrics():
    """The command that lists the metrics of the first GPU, as far as whoever runs it may read them; None without ncu."""
    ncu = shutil.which("ncu") or next(
        (p for p in sorted(glob.glob("/usr/local/cuda/bin/ncu") + glob.glob("/opt/nvidia/nsight-compute/*/ncu"))), None
    )
    return [ncu, "--query-metrics", "--devices", "0"] if ncu else None


@contextlib.contextmanager
def scratch(root=()):
    """The environment for a profiler, whose caches go to a folder that is removed with it; it may run as another user than this one."""
    folder = tempfile.mkdtemp(prefix="gpuprov-")
    os.chmod(folder, 0o777)  # noqa: S103 - a name that nobody knows, for as long as ncu runs
    try:
        yield dict(os.environ, TMPDIR=folder, HOME=folder)
    finally:
        command(list(root) + ["rm", "-rf", folder], 10)


def counters_as_group(here):
    """What a member of gpuprov-counters gets through `with-counters`: her capabilities, and ncu's word; None without that command."""
    if not os.path.exists("/usr/local/bin/with-counters"):
        return None
    try:
        members = sorted(grp.getgrnam("gpuprov-counters").gr_mem)
    except KeyError:
        members = []
    me = pwd.getpwuid(os.geteuid()).pw_name
    answer = {"members": members, "capabilities": None, "outcome": "not-tried", "said": ""}
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if not members or (me not in members and root and not (shutil.which("sudo") and command([*root, "true"], 10)[0] == 0)):
        return answer
    step = []
    if me not in members:
        member = pwd.getpwnam(members[0])
        step = root + ["setpriv", "--reuid=%d" % member.pw_uid, "--regid=%d" % member.pw_gid, "--init-groups", "--inh-caps=-all"]
    code, out, err = command(step + ["/usr/local/bin/with-counters", "cat", "/proc/self/status"], 20)
    effective = re.search(r"^CapEff:\s*([0-9a-f]{16})$", out, re.MULTILINE)
    answer["capabilities"] = effective.group(1) if code == 0 and effective else None
    answer["said"] = "" if code == 0 else (out + err).strip()[:300]
    argv = query_metrics()
    if here and argv and code == 0:
        with scratch(root) as env:
            answer.update(judged(*command(step + ["/usr/local/bin/with-counters"] + argv, 60, env=env)))
    return answer


def counters_as_user():
    """What `ncu --query-metrics` says to an ordinary user; root proves nothing, so it steps down first."""
    argv, user = query_metrics(), pwd.getpwuid(os.geteuid()).pw_name
    if argv is None:
        return {"outcome": "no-ncu", "user": None, "said": ""}
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            return {"outcome": "root-only", "user": "root", "said": "no setpriv to step down with"}
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"] + argv
        user = "nobody"
    with scratch() as env:
        return dict(judged(*command(argv, 60, env=env)), user=user)


def judged(code, out, err):
    """What ncu's answer means."""
    said = (out + err).strip()
    if "ERR_NVGPUCTRPERM" in said:
        outcome = "refused"
    elif code == 0 and re.search(r"^\w+__\w+", out, re.MULTILINE):
        outcome = "open"
    else:
        outcome = "failed"
    lines = [line for line in said.splitlines() if "==" in line or "rror" in line]
    return {"outcome": outcome, "said": " ".join(lines)[:300]}


def facts():
    """Name -> function of this subject."""
    return {"counters": counters, "initramfs": initramfs}

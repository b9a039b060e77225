"""Who may read the performance counters."""

import contextlib
import glob
import grp
import os
import pwd
import re
import shutil

from device import pci_devices
from run import asked, command, own_folder, read

HELPER = "/usr/local/libexec/gpuprov-with-counters"
# No program has such a name: a helper that ends its own options says so (127). setpriv knows them, from 2.41 on the first one too.
OPTIONS = ("--seccomp-filter=/dev/null", "--version")
VARIABLE = "MEMBERS_OWN"


# From the weakest on: a file hides those of its name in the folders before its own. Then all of them count by name (modprobe.d(5)).
MODPROBE = ("/lib/modprobe.d", "/usr/lib/modprobe.d", "/usr/local/lib/modprobe.d", "/run/modprobe.d", "/etc/modprobe.d")


COMMAND_LINE = "/proc/cmdline"


def option(name="NVreg_RestrictProfilingToAdminUsers"):
    """The file that decides on an option (by default the counters') at the driver's next load, and its choice: what is read last wins."""
    deciding = (None, None)
    files = {os.path.basename(path): path for folder in MODPROBE for path in glob.glob(folder + "/*.conf")}
    for _, path in sorted(files.items()):
        for line in (read(path) or "").replace("\\\n", " ").splitlines():
            # The kernel takes quotes off, and reads numbers as C does.
            choice = re.match(r'\s*options\s+nvidia\S*\s(?:.*[\s"])?"?%s="?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)(?!\w)' % name, line)
            deciding = (path, str(number(choice.group(1)))) if choice else deciding
    # The kernel's command line is read after all files: kmod_config_new() in libkmod.
    words = re.findall(r'(?:^|\s)"?nvidia[\w-]*\.%s="?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)(?!\w)' % name, read(COMMAND_LINE) or "")
    return (COMMAND_LINE, str(number(words[-1]))) if words else deciding


def number(text):
    """A whole number as the kernel reads it."""
    return int(text, 16 if "x" in text.lower() else 8 if text.startswith("0") else 10)


def counters():
    """Access to performance counters: on disk, live, and as an ordinary user and a member of the group get it."""
    path, setting = option()
    params = read("/proc/driver/nvidia/params") or ""
    # The knob and the readout have different names; older drivers show the knob's.
    live = re.search(r"(?:RmProfilingAdminOnly|RestrictProfilingToAdminUsers): (\d)", params)
    has_gpu = bool(pci_devices() or glob.glob("/dev/nvidia[0-9]*"))
    as_user = {"outcome": "no-gpu", "user": None, "said": ""}
    if has_gpu:
        quick = {"outcome": "not-tried", "user": None, "said": "tier quick runs no profiler"}
        as_user = quick if asked("tier") == "quick" else counters_as_user()
    return {
        "on_disk": setting,
        "by_command_line": path == COMMAND_LINE,
        "live": live.group(1) if live else None,
        "as_user": as_user,
        "as_group": counters_as_group(has_gpu and asked("tier") != "quick"),
    }


def query_metrics():
    """The command that lists the metrics of the first GPU, as far as its user may read them; None without ncu."""
    ncu = shutil.which("ncu") or next(
        iter(sorted(glob.glob("/usr/local/cuda/bin/ncu") + glob.glob("/opt/nvidia/nsight-compute/*/ncu"))), None
    )
    return [ncu, "--query-metrics", "--devices", "0"] if ncu else None


@contextlib.contextmanager
def scratch(user=None, root=()):
    """The environment for a profiler, which may run as another user: its caches go to a folder of that user's, removed afterwards."""
    with own_folder() as folder:
        try:
            if user:
                command(list(root) + ["chown", "%d:%d" % user, folder], 10)
            yield dict(os.environ, TMPDIR=folder, HOME=folder)
        finally:
            command(list(root) + ["rm", "-rf", folder], 10)


def counters_as_group(has_gpu):
    """What a member of gpuprov-counters gets through `with-counters`: her capabilities, and ncu's word; None without that command."""
    if not os.path.exists("/usr/local/bin/with-counters"):
        return None
    try:
        members = sorted(grp.getgrnam("gpuprov-counters").gr_mem)
    except KeyError:
        members = []
    me = pwd.getpwuid(os.geteuid()).pw_name
    answer = {"members": members, "capabilities": None, "taken": None, "outcome": "not-tried", "said": ""}
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if not members or (me not in members and root and not (shutil.which("sudo") and command([*root, "true"], 10)[0] == 0)):
        return answer
    step, user = [], None
    if me not in members:
        member = pwd.getpwnam(members[0])
        user = (member.pw_uid, member.pw_gid)
        step = root + ["setpriv", "--reuid=%d" % member.pw_uid, "--regid=%d" % member.pw_gid, "--init-groups", "--inh-caps=-all"]
    code, out, err = command(step + ["/usr/local/bin/with-counters", "cat", "/proc/self/status"], 20)
    effective = re.search(r"^CapEff:\s*([0-9a-f]{16})$", out, re.MULTILINE)
    answer["capabilities"] = effective.group(1) if code == 0 and effective else None
    answer["said"] = "" if code == 0 else (out + err).strip()[:300]
    answer["taken"] = taken_from_caller(step) if code == 0 else None
    argv = query_metrics()
    if has_gpu and argv and code == 0:
        with scratch(user, root) as env:
            answer.update(ncu_answer(*command(step + ["/usr/local/bin/with-counters"] + argv, 60, env=env)))
    return answer


def taken_from_caller(step):
    """What the helper takes from a member, beside a program, while it is root: each may be a way to stay root. Nothing here does harm."""
    taken = [option for option in OPTIONS if command(step + ["sudo", "-n", HELPER, option, "true"], 20)[0] != 127]
    seen = command(step + ["env", VARIABLE + "=1", "sudo", "-n", HELPER, "env"], 20)
    return taken + ([VARIABLE] if seen[0] or VARIABLE in seen[1] else [])


def counters_as_user():
    """What `ncu --query-metrics` says to an ordinary user; root proves nothing, so it steps down first."""
    argv, user, owner = query_metrics(), pwd.getpwuid(os.geteuid()).pw_name, None
    if argv is None:
        return {"outcome": "no-ncu", "user": None, "said": ""}
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            return {"outcome": "root-only", "user": "root", "said": "no setpriv to step down with"}
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"] + argv
        user, owner = "nobody", (65534, 65534)
    with scratch(owner) as env:
        return dict(ncu_answer(*command(argv, 60, env=env)), user=user)


def ncu_answer(code, out, err):
    """What ncu's answer means."""
    text = (out + err).strip()
    if "ERR_NVGPUCTRPERM" in text:
        outcome = "refused"
    elif code == 0 and re.search(r"^\w+__\w+", out, re.MULTILINE):
        outcome = "open"
    else:
        outcome = "failed"
    lines = [line for line in text.splitlines() if "==" in line or "rror" in line]
    return {"outcome": outcome, "said": " ".join(lines)[:300]}


FACTS = {"counters": counters}

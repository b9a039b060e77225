"""The system: release, user, tools, people, clock."""

import os
import platform
import pwd
import re
import shutil
import sys

from run import Unknown, command, output, read

TOOLS = {
    "gcc": ["-dumpfullversion"],
    "make": ["--version"],
    "cmake": ["--version"],
    "git": ["--version"],
    "tmux": ["-V"],
    "ffmpeg": ["-version"],
}


def release():
    """What os-release says, and whether this is a rehearsal host."""
    text = read("/etc/os-release")
    if text is None:
        raise Unknown("there is no /etc/os-release")
    fields = {k: v.strip("\"'") for k, _, v in (line.partition("=") for line in text.splitlines()) if k}
    return {
        "id": fields.get("ID", ""),
        "version_id": fields.get("VERSION_ID", ""),
        "pretty": fields.get("PRETTY_NAME", ""),
        "stand_in": os.path.exists("/etc/gpuprov-rehearsal"),
    }


def identity():
    """As whom the facts were gathered, and in which boot."""
    return {
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "uid": os.geteuid(),
        "boot_id": (read("/proc/sys/kernel/random/boot_id") or "").strip(),
        "over_ssh": "SSH_CONNECTION" in os.environ,
    }


def tool(name):
    """Where a tool is and its version; None where there is none."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/bin")
    if path is None:
        return None
    _, out, err = command([path] + TOOLS[name], 20)
    version = re.search(r"[0-9]+(\.[0-9]+)*", out or err)
    return {"path": path, "version": version.group(0) if version else ""}


def users():
    """Names of the people who can log in."""
    return sorted(entry.pw_name for entry in pwd.getpwall() if 1000 <= entry.pw_uid < 60000)


def clock():
    """How long the host is up, and whether its clock follows a time server."""
    answer = output(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    up = float((read("/proc/uptime") or "").split()[0])
    return {"up_s": up, "synchronised": {"yes": True, "no": False}.get((answer or "").strip())}


FACTS = {
    "os": release,
    "kernel": lambda: {"release": platform.release(), "machine": platform.machine()},
    "identity": identity,
    "python3": lambda: {"version": platform.python_version(), "path": sys.executable},
    "users": users,
    "clock": clock,
    **{"tool_" + name: (lambda name=name: {"found": tool(name)}) for name in TOOLS},
}

"""What each role changed on this host, and what was there before: /var/lib/gpuprov/changes/ROLE.json, written before the change is made.

Runs on the host: standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import base64
import grp
import json
import os
import pwd
import stat
import subprocess
import tempfile

FOLDER = "/var/lib/gpuprov/changes"


class Ledger:
    """The record of one role. The first state of a path or unit that is noted is the one that undo restores."""

    def __init__(self, role, folder=FOLDER):
        self.path = os.path.join(folder, role + ".json")
        try:
            with open(self.path, encoding="utf-8") as file:
                self.data = json.load(file)
        except FileNotFoundError:
            self.data = {}
        for part, empty in (("files", {}), ("units", {}), ("folders", {}), ("stamps", {}), ("undo", [])):
            self.data.setdefault(part, empty)

    def save(self):
        """On disk, whole, before anything is changed."""
        os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
        write(self.path, json.dumps(self.data, indent=1, sort_keys=True).encode(), 0o600)

    def note(self, part, key, state):
        """Remember a first state."""
        if key not in self.data[part]:
            self.data[part][key] = state
            self.save()


def missing_folders(path):
    """The folders above a path that are not there yet."""
    found = []
    folder = os.path.dirname(path)
    while folder != "/" and not os.path.exists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def state_of(path):
    """What is at a path, enough to put it back."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return {"kind": "absent"}
    if stat.S_ISLNK(found.st_mode):
        return {"kind": "link", "target": os.readlink(path)}
    if stat.S_ISDIR(found.st_mode):
        return {"kind": "folder"}
    with open(path, "rb") as file:
        content = base64.b64encode(file.read()).decode()
    return {"kind": "file", "content": content, "mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid}


def write(path, content, mode, uid=0, gid=0):
    """Put a file in place in one step: a reader, or a host that dies now, has the old one or the new one."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=".gpuprov-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        if os.geteuid() == 0:
            os.chown(partial, uid, gid)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def put_back(path, state):
    """Make a path what it was; True when that changed anything."""
    if state_of(path) == state or state["kind"] == "folder":
        return False
    if state["kind"] == "absent":
        os.unlink(path)
    elif state["kind"] == "link":
        link(path, state["target"])
    else:
        write(path, base64.b64decode(state["content"]), state["mode"], state["uid"], state["gid"])
    return True


def link(path, target):
    """A symbolic link, in one step."""
    partial = "%s.gpuprov-%d" % (path, os.getpid())
    os.symlink(target, partial)
    try:
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def ids(owner, group):
    """Numbers of a user's and a group's name."""
    return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid


def unit_state(name):
    """What systemd says of a unit."""
    properties = "LoadState,UnitFileState,ActiveState,NeedDaemonReload"
    said = run(["systemctl", "show", "--property=" + properties, name])[1]
    found = dict(line.partition("=")[::2] for line in said.splitlines())
    return {
        "exists": found.get("LoadState") == "loaded",
        "enabled": found.get("UnitFileState") in ("enabled", "enabled-runtime"),
        "active": found.get("ActiveState") in ("active", "activating", "reloading"),
        "stale": found.get("NeedDaemonReload") == "yes",
    }


def run(argv):
    """Exit code and both outputs as one text; a command that is missing is 127."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return 127, "%s: not found" % argv[0]
    return done.returncode, done.stdout.decode("utf-8", "replace")


def installed():
    """The names of all installed packages."""
    code, said = run(["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev} ${Package}\n"])
    if code == 0:
        return {line.split()[-1] for line in said.splitlines() if line.startswith(("ii", "hi"))}
    code, said = run(["rpm", "--query", "--all", "--queryformat", "%{NAME}\n"])
    return set(said.split()) if code == 0 else set()


def bare(asked, present):
    """The installed package that is meant by what apt (name=version*) or dnf (name-version*) was asked for; None when there is none.

    Of dnf's form only the installed names say where the version begins: cuda-toolkit-13-2 is a name.
    """
    name = asked.partition("=")[0]
    fitting = [known for known in present if name == known or (name.startswith(known + "-") and name[len(known) + 1].isdigit())]
    return max(fitting, key=len) if fitting else None

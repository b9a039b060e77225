"""The record of what each role changed on this host and of the state before: /var/lib/gpuprov/changes/ROLE.json, written before the change.

Runs on the host: standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import base64
import fnmatch
import grp
import json
import os
import pwd
import stat
import subprocess
import tempfile

FOLDER = "/var/lib/gpuprov/changes"
COMMAND_CHARS = 120


class Ledger:
    """The record of one role. For each path or unit it keeps the first state, which undo restores."""

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
        """Write the whole record to disk."""
        os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
        write(self.path, json.dumps(self.data, indent=1, sort_keys=True).encode(), 0o600)

    def note(self, part, key, state):
        """Record a first state."""
        if key not in self.data[part]:
            self.data[part][key] = state
            self.save()


def missing_folders(path):
    """The folders above a path that do not exist yet."""
    folders = []
    folder = os.path.dirname(path)
    while folder != "/" and not os.path.exists(folder):
        folders.append(folder)
        folder = os.path.dirname(folder)
    return folders


def state_of(path):
    """The state of a path, complete enough to restore it."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return {"kind": "absent"}
    if stat.S_ISLNK(status.st_mode):
        return {"kind": "link", "target": os.readlink(path)}
    if stat.S_ISDIR(status.st_mode):
        return {"kind": "folder"}
    with open(path, "rb") as file:
        content = base64.b64encode(file.read()).decode()
    return {"kind": "file", "content": content, "mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}


def write(path, content, mode, uid=0, gid=0):
    """Write a file in one step: a reader, or a host that crashes meanwhile, has either the old or the new file."""
    folder = os.path.dirname(path)
    # The mode of makedirs is that of the last folder only, and the umask decides on those above it.
    mask = os.umask(0o022)
    try:
        os.makedirs(folder, exist_ok=True)
    finally:
        os.umask(mask)
    descriptor, partial = tempfile.mkstemp(prefix=".gpuprov-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if os.geteuid() == 0:
                os.fchown(descriptor, uid, gid)
            os.fchmod(descriptor, mode)  # last: a change of owner takes the bits setuid and setgid away
            os.fsync(descriptor)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def put_back(path, state):
    """Restore a path; True when that changed anything."""
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
    """Make a symbolic link in one step."""
    partial = "%s.gpuprov-%d" % (path, os.getpid())
    os.symlink(target, partial)
    try:
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def ids(owner, group):
    """The ids of a user and a group."""
    return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid


def unit_state(name):
    """The state of a systemd unit."""
    properties = "LoadState,UnitFileState,ActiveState,NeedDaemonReload"
    output = run(["systemctl", "show", "--property=" + properties, name])[1]
    unit = dict(line.partition("=")[::2] for line in output.splitlines())
    return {
        "exists": unit.get("LoadState") == "loaded",
        "enabled": unit.get("UnitFileState") in ("enabled", "enabled-runtime"),
        "active": unit.get("ActiveState") in ("active", "activating", "reloading"),
        "stale": unit.get("NeedDaemonReload") == "yes",
    }


def run(argv):
    """Run a command; its exit code (127 when there is no such program) and its output."""
    try:
        process = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return 127, "%s: not found" % argv[0]
    return process.returncode, process.stdout.decode("utf-8", "replace")


def must_run(module, argv):
    """Run a command that must succeed: a module fails with the last line that the command printed, which says what stopped it."""
    code, output = run(argv)
    if code:
        lines = output.strip().splitlines()
        command = " ".join(argv)
        command = command if len(command) <= COMMAND_CHARS else command[: COMMAND_CHARS - 1] + "…"
        module.fail_json(
            msg="`%s` failed with %d: %s" % (command, code, lines[-1] if lines else "it printed nothing"), stderr=output[-4000:]
        )


def installed_packages():
    """The names of all installed packages, with their versions."""
    code, output = run(["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev} ${Package} ${Version}\n"])
    if code == 0:
        return dict(line.split()[1:3] for line in output.splitlines() if line.startswith(("ii", "hi")))
    code, output = run(["rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}\n"])
    return dict(line.split(None, 1) for line in output.splitlines()) if code == 0 else {}


def is_installed(word, packages):
    """Whether the package that a word means is installed, for apt at a version that fits the word."""
    name, version = bare(word, packages), word.partition("=")[2]
    return name is not None and (not version or fnmatch.fnmatchcase(packages[name], version))


def bare(word, packages):
    """The installed package that a word for apt (name=version*) or dnf (name-version*) means; None when there is none.

    In dnf's form only the installed names tell where the version begins: cuda-toolkit-13-2 is a name.
    """
    word = word.partition("=")[0]
    matches = [name for name in packages if word == name or (word.startswith(name + "-") and word[len(name) + 1].isdigit())]
    return max(matches, key=len) if matches else None

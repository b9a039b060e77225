"""The environment of each kind of session, and the loader's folders."""

import glob
import os
import pwd
import re
import shlex
import shutil

from run import command, output, read


def login_environment():
    """NAME=value lines of a login shell; None where it prints none."""
    person, mark = pwd.getpwuid(os.geteuid()), "gpuprov-environment\n"
    clean = {"HOME": os.path.expanduser("~"), "USER": person.pw_name, "LOGNAME": person.pw_name, "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    _, out, _ = command(["bash", "-lc", "echo %s /usr/bin/env" % mark.replace("\n", ";")], 10, env=clean)
    _, seen, lines = out.rpartition(mark)
    return lines.splitlines() if seen else None


def service_environment():
    """NAME=value lines of the environment that services begin with; None where neither systemd nor its files tell it."""
    out = output(["systemctl", "show-environment"])
    return systemd_environment() if out is None else out.splitlines()


def systemd_environment(root=""):
    """The same from systemd's own files (systemd-system.conf(5)); None where there are none."""
    folders = [root + folder for folder in ("/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd")]
    main = [folder + "/system.conf" for folder in folders if os.path.exists(folder + "/system.conf")][-1:]
    # A later folder replaces a file of the same name; the names decide the order.
    more = {os.path.basename(path): path for folder in folders for path in glob.glob(folder + "/system.conf.d/*.conf")}
    paths = main + [more[name] for name in sorted(more)]
    lines = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"]
    for path in paths:
        for words in re.findall(r"^\s*(?:Default|Manager)Environment\s*=(.*)$", read(path) or "", re.MULTILINE):
            lines = lines + shlex.split(words) if words.strip() else lines[:1]
    return lines if paths else None


def sudo():
    """The PATH that sudo gives its commands; None where it would ask for a password, which nobody is asked for here."""
    if not shutil.which("sudo"):
        return {"exists": False, "path": None}
    lines = output(["sudo", "-k", "-n", "/usr/bin/env"])  # -k: no credentials are cached, so that no file is left
    return {"exists": True, "path": search_path(lines.splitlines()) if lines else None}


def search_path(lines):
    """The last PATH that some lines set."""
    return ([line[5:] for line in lines or [] if line.startswith("PATH=")] or [None])[-1]


def tools(path, linked="/usr/local/cuda"):
    """The names of CUDA's tools of which a PATH has several programs -> path and version of each, in the order of that PATH."""
    found, linked = {}, os.path.realpath(linked) + "/"
    for name in ("nvcc", "ncu", "nsys"):
        places = [shutil.which(name, path=folder) for folder in (path or "").split(":") if folder.startswith("/")]
        distinct = {os.path.realpath(place): place for place in reversed(places) if place}  # the first of two names for one file stays
        for real, place in reversed(list(distinct.items()) if len(distinct) > 1 else []):
            said = re.search(r"release (\d+\.\d+)|(\d{4}\.\d+[.\d]*)", output([place, "--version"]) or "")
            version = said and said.group(said.lastindex)
            found.setdefault(name, []).append({"path": place, "own": real.startswith(linked), "version": version})
    return found


def sessions():
    """The PATH that each kind of session has, what several of one name it finds, and the folders of the loader's configuration."""
    paths = {
        "login": search_path(login_environment()),
        "ssh": os.environ.get("PATH") if "SSH_CONNECTION" in os.environ else None,
        "service": search_path(service_environment()),
    }
    several = {session: tools(path) for session, path in paths.items()}
    return dict(paths, sudo=sudo(), loader=loader_folders(), tools={session: found for session, found in several.items() if found})


def loader_folders():
    """The folders that /etc/ld.so.conf.d adds to the loader's search."""
    lines = [line.strip() for path in sorted(glob.glob("/etc/ld.so.conf.d/*.conf")) for line in (read(path) or "").splitlines()]
    return [line for line in lines if line.startswith("/")]


FACTS = {"sessions": sessions}

"""Entries of the host's own package sources for a repository that the role sources adds.

apt reads no source at all where two entries of one repository have different keys, and dnf takes packages by the key of either.
Runs on the host: standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import glob
import os
import re
import stat

_OURS = ("gpuprov.sources", "gpuprov.repo")
_LINE = re.compile(r"\s*deb(?:-src)?\s+(?:\[(?P<options>[^]]*)\]\s*)?(?P<url>\S+)\s+(?P<suite>\S+)")
_OFF = ("0", "no", "false", "off", "without", "disable")


def place(url, suite):
    """A repository as apt tells two apart: without scheme, login, and slashes at the end."""
    url = re.sub(r"^[a-z+]+:/+([^/@]*@)?", "", url.strip()).replace("$basearch", "x86_64")
    return url.rstrip("/"), os.path.normpath("x/" + (suite or ""))


def field(text, name):
    """The words of a field in a stanza or section, and where it stands; no words and None where it has none."""
    found = re.search(r"(?im)^%s[ \t]*[:=](.*(?:\n[ \t].*)*)" % re.escape(name), text)
    return (found.group(1).replace(",", " ").split() if found else []), found


def of_line(text, is_meant):
    """The keyring of a line of a .list, and the line switched off; None where it is not meant."""
    found = _LINE.match(text)
    if not found or not is_meant(found.group("url"), found.group("suite")):
        return None
    key = re.search(r'signed-by="?([^\s"]+)', found.group("options") or "", re.IGNORECASE)
    return key.group(1) if key else "", "# gpuprov: " + text


def of_stanza(text, is_meant):
    """The same for a stanza of a .sources; another address in it stays."""
    (urls, where), (suites, _), (enabled, _) = (field(text, name) for name in ("URIs", "Suites", "Enabled"))
    meant = [url for url in urls if any(is_meant(url, suite) for suite in suites)]
    if not meant or (enabled and enabled[0].lower() in _OFF):
        return None
    others = [url for url in urls if url not in meant]
    start, end = where.span(1)
    off = text[:start] + " " + " ".join(others) + text[end:] if others else switched_off(text, where.start(), "Enabled: no")
    return " ".join(field(text, "Signed-By")[0]), off


def of_section(text, is_meant):
    """The same for a section of a .repo."""
    urls, where = field(text, "baseurl")
    if not any(is_meant(url, "") for url in urls) or field(text, "enabled")[0][:1] in ([off] for off in _OFF):
        return None
    return "", switched_off(text, where.start(), "enabled=0")


def switched_off(text, start, line):
    """A stanza or section with this line before one of its fields, and no other line that says the same."""
    head, tail = (re.sub(r"(?im)^enabled[ \t]*[:=].*\n?", "", part) for part in (text[:start], text[start:]))
    return head + line + "\n" + tail


_FORMS = {".list": (r"(?m)^", of_line), ".sources": (r"(?m)^(?=[ \t]*\n)", of_stanza), ".repo": (r"(?m)^(?=\[)", of_section)}


class Elsewhere:
    """What the host has of these repositories in its own files.

    Attributes:
        files: those that must change, as the module settle takes files.
        keyrings: for a repository of the system itself, the keyring that the host's own entry names.
        taken: one line for each entry that is switched off.
        problems: why apt could not read the sources.
    """

    def __init__(self, repositories, root=""):
        self.files, self.keyrings, self.taken, self.problems = [], {}, [], []
        apt = [root + "/etc/apt/sources.list", *sorted(glob.glob(root + "/etc/apt/sources.list.d/*"), key=os.path.basename)]
        for kind, paths in (("apt", apt), ("dnf", sorted(glob.glob(root + "/etc/yum.repos.d/*")))):
            ours = [repository for repository in repositories if repository["kind"] == kind]
            for path in paths if ours else []:
                if os.path.splitext(path)[1] in _FORMS and os.path.basename(path) not in _OURS and os.path.isfile(path):
                    self.file(path, ours, root)

    def file(self, path, ours, root):
        """One file of the host."""
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            before = file.read()
        pattern, read = _FORMS[os.path.splitext(path)[1]]
        parts = re.split(pattern, before)
        for number, repository in ((n, repository) for n in range(len(parts)) for repository in ours):
            here = place(repository["url"], repository.get("suite"))
            found = read(parts[number], lambda url, suite, here=here: place(url, suite) == here)
            if found and repository.get("key"):
                parts[number] = found[1]
                self.taken.append(
                    "%s has %s too: that entry is switched off, and an undo puts it back" % (path[len(root) :], repository["url"])
                )
            elif found:
                self.system(path[len(root) :], found[0], repository)
        if "".join(parts) != before:
            mode = "0%o" % stat.S_IMODE(os.stat(path).st_mode)
            self.files.append({"path": path[len(root) :], "content": "".join(parts), "mode": mode})

    def system(self, path, key, repository):
        """An entry of a repository of the system itself, which has more than ours: it stays, and ours names its keyring."""
        if re.match(r"/[^ ,]+$", key):
            self.keyrings[repository["name"]] = key
        elif key or (
            path != "/etc/apt/sources.list" and os.path.basename(path) > _OURS[0]
        ):  # apt minds a key that is missing in a later entry
            self.problems.append(
                "%s has %s with another key, and apt would read no source: let it be signed by %s there"
                % (path, repository["url"], repository["keyring"])
            )

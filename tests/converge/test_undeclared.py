"""What the roles change on a real host is what they declare: the difference of its whole file system, and nothing undeclared."""

import re

import pytest

from provision.converge.declared import Change, changes
from provision.converge.roles import with_groundwork
from provision.profile.locked import Lock
from provision.profile.model import Profile

from .conftest import GPU, Host

pytestmark = pytest.mark.rehearsal
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
# What programs keep for themselves: package managers, the loader, DKMS, logs, and Ansible while it works.
STATE = re.compile(
    r"/(var/lib/(dpkg|apt|systemd|dkms|ucf|pam|python|initramfs-tools|logrotate|PackageKit|private|sudo|dbus)|var/(cache|log|tmp|backups|spool)|tmp|"
    r"root/\.ansible|home/ubuntu/\.ansible|lib/modules|usr/lib/modules|boot)/"
    r"|/etc/(ld\.so\.cache|alternatives/.*|mailcap|\.pwd\.lock|ld\.so\.conf\.d/\.keep|ssl/certs/.*)$|\.pyc$|^/(etc|var)/.*-$"
)
ACCOUNTS = {"/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid"}


def files(host: Host) -> dict[str, str]:
    """Every file and link of the host's file system with its size, time and target."""
    pruned = " -o ".join(f"-path {path}" for path in ("/proc", "/sys", "/dev", "/run"))
    listed = host.lab.shell(f"sudo find / \\( {pruned} \\) -prune -o \\( -type f -o -type l \\) -printf '%p\\t%s %T@ %l %m %u\\n'")
    return dict(line.split("\t", 1) for line in listed.splitlines() if "\t" in line)


def packaged(host: Host) -> set[str]:
    """What packages brought or own, under both names of folders that are one."""
    owned = set(host.lab.shell("cat /var/lib/dpkg/info/*.list /var/lib/dpkg/info/*.conffiles").splitlines())
    return owned | {f"/usr{path}" for path in owned if path.startswith(("/lib", "/bin", "/sbin"))}


def asked_for(path: str, said: list[Change]) -> bool:
    """Whether a path is declared: itself, a link that enables a declared unit, or within a declared folder or environment."""
    targets = {change.target for change in said}
    units = {name for change in said if change.kind == "unit" for name in [change.target.removesuffix("/gpuprov.conf").removesuffix(".d")]}
    if path in targets or path.rpartition("/")[2] in {unit.rpartition("/")[2] for unit in units}:
        return True
    if path.startswith("/var/lib/gpuprov/changes/"):
        return True
    logins = {change.target for change in said if change.kind == "login"}
    return any(path.startswith(f"/home/{login}/") for login in logins) or (bool(logins) and path in ACCOUNTS)


def test_a_host_differs_in_what_is_declared_and_in_nothing_else(host: Host, asked: Profile, locked: Lock) -> None:
    plain = asked.dump()
    plain["disks"]["data"] = {"source": "instance-store", "mount": "/srv/my-data", "filesystem": "ext4"}
    plain["users"] = [{"name": "ada", "ssh_keys": [KEY]}]
    plain["gpu"]["counters"] = "group"
    host.asked = Profile.model_validate(plain)
    host.locked = locked.model_copy(update={"counters": "group"})
    before, packages_before = files(host), packaged(host)
    roles = with_groundwork((*GPU, "base", "storage"), host.locked)
    done = host.converge("all", roles)
    assert done.changed > 0
    after, known = files(host), packages_before | packaged(host)
    said = list(changes(host.asked, host.locked, roles))
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    # A package's script chooses alternatives: links of the distribution to links in /etc/alternatives.
    chosen = {path for path, was in after.items() if " /etc/alternatives/" in was}
    ours = sorted(path for path in differing - chosen if path not in known and not STATE.search(path))
    print("\n".join(ours))  # noqa: T201 - the list that was asked for, with `pytest -rP`
    assert [path for path in ours if not asked_for(path, said)] == []
    # And the other way round: every file that is declared is there, or was there and has changed.
    files_said = {
        c.target for c in said if c.kind in {"file", "module-option", "sysctl", "unit", "link", "key"} and c.target.startswith("/")
    }
    assert sorted(path for path in files_said if path not in differing) == []

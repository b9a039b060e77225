"""The root file system of all hosts: built once from this machine's own distribution, cached, and shared read-only by overlays."""

import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from filelock import FileLock

from provision.catalog import read
from provision.errors import RehearsalFailedError

LOGIN: Final = "ubuntu"
"""The image's login user, as on the Ubuntu image that the hosts stand in for."""

_PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "sudo", "cloud-init", "python3", "python3-apt"),
    *("iproute2", "e2fsprogs", "xfsprogs", "kmod", "procps", "rsync", "util-linux", "ca-certificates", "netbase", "less"),
)

# No repository of EL's own packages stands beside such a host, so it has what the role `base` would install from there.
_EL_PACKAGES: Final = ("dnf", "dnf-plugins-core", "rpm", "gnupg", "gcc", "g++", "make", "cmake", "git", "tmux")
_EL_SYSTEM: Final = "rocky 9"
# What the systems of the catalogue call themselves in /etc/os-release, where that is another word.
_EL_IDS: Final = {"alma": "almalinux", "amazon-linux": "amzn", "centos-stream": "centos"}

# What a cloud image has and a minimal tree does not: a cloud-init that only listens to the seed which the "hypervisor" leaves.
_CLOUD_CFG: Final = {
    "datasource_list": ["NoCloud"],
    "disable_root": True,
    "ssh_pwauth": False,
    "preserve_hostname": False,
    "manage_etc_hosts": True,
    "users": ["default"],
    "system_info": {
        "distro": "debian",
        "default_user": {
            "name": LOGIN,
            "lock_passwd": True,
            "groups": ["sudo"],
            "sudo": ["ALL=(ALL) NOPASSWD:ALL"],
            "shell": "/bin/bash",
        },
    },
    "ssh_genkeytypes": ["ed25519", "ecdsa"],
    "network": {"config": "disabled"},
    "cloud_init_modules": ["bootcmd", "write-files", "set_hostname", "update_etc_hosts", "users-groups", "ssh"],
    "cloud_config_modules": ["runcmd"],
    "cloud_final_modules": ["scripts-user", "keys-to-console"],
}
_MASKED: Final = (
    *("getty.target", "console-getty.service", "systemd-networkd.service", "systemd-resolved.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer"),
)
_RECIPE: Final = 6  # raise when `_customize` changes, so that caches are built anew


def build(cache: Path, progress: Callable[[str], None], *, like: Literal["own", "el"] = "own") -> Path:
    """The root file system for this machine's distribution, from the cache or newly built (about 40 s and 270 MB).

    `el` is for a host that manages its packages with dnf and rpm, and calls itself Rocky Linux 9 where its `HostSpec` says nothing else.
    What is below is this machine's distribution all the same: it stands in for what a role does, not for what EL's own packages do.
    """
    suite, sources = distribution()
    packages = _PACKAGES + (_EL_PACKAGES if like == "el" else ())
    digest = hashlib.sha256(json.dumps([_RECIPE, suite, sources, packages, _CLOUD_CFG, _MASKED]).encode()).hexdigest()[:16]
    root = cache / f"rootfs-{suite}-{digest}"
    if root.is_dir():
        return root
    with FileLock(cache / f"rootfs-{suite}.lock"):
        if root.is_dir():
            return root
        for stale in cache.glob(f"rootfs-{suite}-*.building"):  # of a build that was killed
            shutil.rmtree(stale)
        progress(f"building the hosts' root file system ({suite}, once, about a minute)")
        draft = root.with_suffix(".building")
        _debootstrap(suite, sources, draft, packages)
        _customize(draft)
        if like == "el":
            _turn_into_el(draft)
        draft.rename(root)
    return root


def el_release(name: str) -> str:
    """/etc/os-release of a host that stands for an EL system, which is named in the words of the catalogue."""
    system, version = name.split(" ", 1)
    title = f"{system.replace('-', ' ').title().removesuffix(' Linux')} Linux"
    pretty = f"{title} {version} (stand-in)"
    return (
        f'NAME="{title}"\nVERSION="{version} (stand-in)"\nID="{_EL_IDS.get(system, system)}"\n'
        f'ID_LIKE="rhel centos fedora"\nVERSION_ID="{version}"\nPLATFORM_ID="platform:el{version}"\nPRETTY_NAME="{pretty}"\n'
    )


def is_el(name: str) -> bool:
    """Whether dnf manages the packages of a system, which is named in the words of the catalogue: its hosts are EL-like."""
    return any(record.key == name and record.packages != "apt" for record in read.systems().systems)


def system() -> str:
    """The system of the other hosts in the words of the catalogue, as `debian 12`: that of this machine."""
    fields = platform.freedesktop_os_release()
    return f"{fields.get('ID', '?')} {fields.get('VERSION_ID', '?')}"


@functools.cache
def distribution() -> tuple[str, str]:
    """This machine's suite and its package sources, for hosts of the same distribution; the sources are empty where apt has no lists."""
    fields = platform.freedesktop_os_release()
    suite = fields.get("VERSION_CODENAME", "")
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    origins = {"debian": {"Debian"}, "ubuntu": {"Ubuntu"}}.get(fields.get("ID", ""), set())
    lines = {
        f"deb {uri} {release} {component}"
        for uri, release, component, origin in (line.split(" ", 3) for line in targets.splitlines())
        if origin in origins and release.startswith(suite)
    }
    return suite, "".join(f"{line}\n" for line in sorted(lines))


def _debootstrap(suite: str, sources: str, folder: Path, packages: tuple[str, ...]) -> None:
    excludes = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info")]
    process = subprocess.run(
        ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}", *excludes, suite, str(folder), "-"],
        input=sources,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        msg = "the hosts' root file system could not be built"
        hint = "see that `apt-get update` works on this machine, and that the disk has 1 GB free"
        raise RehearsalFailedError(msg, hint=hint, detail="\n".join(process.stderr.splitlines()[-15:]))


def _customize(root: Path) -> None:
    """Turn a minimal tree into what a cloud image is before its first boot."""
    for path in (root / "etc/cloud/cloud.cfg.d").iterdir():
        path.unlink()
    (root / "etc/cloud/cloud.cfg").write_text(json.dumps(_CLOUD_CFG, indent=1))
    # The package logs at debug level to the console as well, which would drown the host keys.
    (root / "etc/cloud/cloud.cfg.d/05_logging.cfg").write_text(
        json.dumps({"output": {"all": "| tee -a /var/log/cloud-init-output.log"}, "log_cfgs": []})
    )
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/ssh/sshd_config.d/60-cloudimg.conf").write_text("PermitRootLogin no\nPasswordAuthentication no\nUseDNS no\n")
    (root / "etc/machine-id").write_text("")
    (root / "etc/hostname").write_text("localhost\n")
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "etc/resolv.conf").write_text("# no name servers: packages come through the machine that holds this host\n")
    (root / "etc/gpuprov-rehearsal").write_text("stand-in\n")
    (root / "etc/apt/sources.list.d").mkdir(exist_ok=True)
    # Nobody reads descriptions here, and apt would spend a third of each update on 33 MB of them.
    (root / "etc/apt/apt.conf.d/02-rehearsal-languages").write_text('Acquire::Languages "none";\n')
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    # Its own systemctl: this machine may have none.
    for words in (["mask", *_MASKED], ["enable", "ssh.service"]):
        subprocess.run(["chroot", str(root), "systemctl", "-q", *words], check=True, capture_output=True, env=environment)
    # Without its bytecode each first boot compiles cloud-init and what it imports: 0.6 of the boot's 2.6 CPU seconds. Some
    # package may have a file that this Python cannot compile; that is no reason to stop.
    compiled = ["python3", "-m", "compileall", "-q", "/usr/lib/python3/dist-packages"]
    subprocess.run(["chroot", str(root), *compiled], check=False, capture_output=True, env=environment)


def _turn_into_el(root: Path) -> None:
    """Leave dnf and rpm as the only package managers, with nothing installed by them."""
    (root / "etc/os-release").unlink()
    (root / "etc/os-release").write_text(el_release(_EL_SYSTEM))
    (root / "etc/redhat-release").write_text("an EL-like system (stand-in)\n")
    for path in [root / "etc/debian_version", *(root / "usr/bin").glob("apt*"), *(root / "usr/bin").glob("dpkg*")]:
        path.unlink()

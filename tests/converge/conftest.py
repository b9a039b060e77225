"""One real host for the tests of this folder: an embedded host with an instance store, reached as gpuprov reaches any other."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from provision.converge.progress import ConvergeResult
from provision.converge.roles import ROLES
from provision.converge.run import converge, undo
from provision.host.ssh import Target
from provision.paths import cache_dir
from provision.profile.load import load
from provision.profile.lock import build
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.profile.pins import PackagePin
from provision.rehearsal import rootfs
from provision.rehearsal.aws.launch import disk_link
from provision.rehearsal.hosts import HostPark, HostSpec
from provision.rehearsal.network import HostNetwork
from provision.rehearsal.packages import Packages
from provision.verify.finding import Finding
from provision.verify.fleet import verify
from provision.workflow import refresh

from .repository import Repository, packages

INSTANCE = "i-0c0ffee0000000001"
GPU = ("nvidia_driver", "fabric_manager", "persistence", "clocks", "cuda_toolkit", "cudnn", "cupti", "nsight", "extras")
# The machine that needs every role for the GPU: NVSwitches, and the subnet manager of NVLink 5.
SWITCHED: dict[str, Any] = {"gpu": {"model": "b200", "count": 8, "application_clocks": "max"}, "places": []}
SOURCES = "/etc/apt/sources.list.d/gpuprov.sources"
WATCHED = "/etc /usr/local /usr/share/keyrings /opt /lib/systemd/system"


@dataclass(frozen=True)
class Lab:
    target: Target
    reboot: Callable[[], None]
    stop_and_start: Callable[[], None]
    gateway: str

    def shell(self, command: str, *, check: bool = True) -> str:
        """A connection of its own each time, so that what a session gets is seen as a new one gets it."""
        done = subprocess.run(
            ["ssh", "-F", str(self.target.config), "-o", "ControlPath=none", self.target.destination, command],
            check=False,
            capture_output=True,
            text=True,
            timeout=480,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    def upgrade(self, only: str = "") -> None:
        """Every package to its newest version, or with a file of sources those of its repositories alone."""
        apart = f"-o Dir::Etc::sourcelist={only} -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0" if only else ""
        keep = "-o Dpkg::Options::=--force-confold"
        self.shell(f"sudo apt-get {apart} update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get {apart} {keep} dist-upgrade -y -qq")


@pytest.fixture(scope="session")
def profile() -> Profile:
    return load(Path(__file__).parents[2] / "profiles" / "t4-train.yml")


@pytest.fixture(scope="session")
def lock(profile: Profile) -> Lock:
    """Of the system that the hosts are."""
    return build(profile, dt.date(2026, 11, 21), system="debian 12")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with booted(tmp_path_factory.mktemp("park"), "own") as made:
        yield made


@pytest.fixture(scope="module")
def el_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with booted(tmp_path_factory.mktemp("park"), "el") as made:
        yield made


@contextlib.contextmanager
def booted(folder: Path, like: Literal["own", "el"], first_boot: Callable[[str], bytes] = lambda _gateway: b"") -> Iterator[Lab]:
    """A host, and what it is told at its first boot: made for the address of the bridge that it is on."""
    assert os.geteuid() == 0, "rehearsal hosts need root"
    key = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    root = rootfs.build(cache_dir(), lambda _text: None, like=like)
    network = HostNetwork(folder / "hosts")
    packages = Packages(cache_dir(), folder / "proxies")
    packages.start(network.gateway)
    park = HostPark(folder / "hosts", rootfs=root, network=network, packages=packages)
    try:
        public = key.with_suffix(".pub").read_text().strip()
        address = park.create(
            HostSpec(
                INSTANCE,
                "converge",
                authorized_keys=(public,),
                instance_store_gb=1,
                volume_gb=(1,),
                disk_link=disk_link,
                user_data=first_boot(network.gateway),
            )
        )
        config = folder / "ssh_config"
        _reach(folder, address)
        made = Lab(Target("lab", "lab", config), lambda: _reboot(park, made), lambda: _stop_and_start(park, made, folder), network.gateway)
        _trust(park, folder)
        _answers(made)
        yield made
        subprocess.run(["ssh", "-F", str(config), "-O", "exit", "lab"], check=False, capture_output=True)
    finally:
        park.close()


def _reach(folder: Path, address: str) -> None:
    (folder / "ssh_config").write_text(
        f"Host lab\n HostName {address}\n User {rootfs.LOGIN}\n HostKeyAlias lab\n IdentityFile {folder}/id\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
        f" ControlMaster auto\n ControlPath {folder}/%C\n ControlPersist 5\n"
    )


def _trust(park: HostPark, folder: Path) -> None:
    """The host's key from its console, as `gpuprov up` does it."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        for line in park.console(INSTANCE).splitlines():
            if line.strip().startswith("ssh-ed25519 "):
                (folder / "known_hosts").write_text(f"lab {' '.join(line.split()[:2])}\n")
                return
        time.sleep(0.1)
    pytest.fail("the host printed no key on its console")


def _answers(made: Lab) -> None:
    deadline = time.monotonic() + 240
    while made.shell("echo up", check=False) != "up":
        assert time.monotonic() < deadline, "the host does not answer"
        time.sleep(0.2)


def _reboot(park: HostPark, made: Lab) -> None:
    before = made.shell("cat /proc/sys/kernel/random/boot_id")
    park.reboot(INSTANCE)
    deadline = time.monotonic() + 240
    while made.shell("cat /proc/sys/kernel/random/boot_id", check=False) in {"", before}:
        assert time.monotonic() < deadline, "the host did not come back"
        time.sleep(0.2)


def _stop_and_start(park: HostPark, made: Lab, folder: Path) -> None:
    """As on EC2: another address, and another, blank instance store."""
    park.stop(INSTANCE)
    _reach(folder, park.start(INSTANCE))
    _answers(made)


@pytest.fixture(scope="module")
def repository(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    made = Repository(tmp_path_factory.mktemp("repository"), lab.gateway)
    # Not through the caching proxy, which would remember what a test broke.
    lab.shell(f"""echo 'Acquire::http::Proxy::{lab.gateway} "DIRECT";' | sudo tee /etc/apt/apt.conf.d/02-direct""")
    yield made
    made.close()


@pytest.fixture(scope="module")
def asked(profile: Profile, repository: Repository) -> Profile:
    """The T4 profile for a machine with NVSwitches, with the repository in NVIDIA's place and nothing heavy."""
    plain = profile.dump()
    return lightened(Profile.model_validate({**plain, "places": SWITCHED["places"], "gpu": plain["gpu"] | SWITCHED["gpu"]}), repository)


def lightened(profile: Profile, repository: Repository) -> Profile:
    """A profile with the repository in NVIDIA's place and nothing heavy."""
    plain = profile.dump()
    plain["sources"]["apt"] = {"url": repository.url, "key": f"{repository.url}key.asc", "fingerprint": repository.fingerprint}
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": ["make"], "extras": ["dcgm", "opencl"]}
    plain["disks"]["data"] = None
    return Profile.model_validate(plain)


@pytest.fixture(scope="module")
def locked(asked: Profile, repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """With the exact versions of what is in the repository."""
    made = build(asked, dt.date(2026, 11, 21), system=rootfs.system())
    names = [name for role in GPU for name in made.packages.get(role, ()) if name != "dkms"]
    repository.add(packages(names, made.driver.branch, made.cuda.version))
    return pinned(asked, tmp_path_factory.mktemp("overlay"), system=rootfs.system())


def pinned(asked: Profile, folder: Path, *, system: str | None = None) -> Lock:
    """The lock of a profile after a refresh has read the repositories that it names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUPROV_OVERLAY", str(folder / "overlay.json"))
        outcome = refresh.refresh(["packages"], [], [], access={}, say=lambda _: None, repositories=[refresh.repositories_of(asked)])
        assert outcome.failed == []
        lock = build(asked, dt.date(2026, 11, 21), system=system)
    exact = [name for role in ("cuda_toolkit", "cudnn", "nsight", "fabric_manager") for name in lock.packages.get(role, ())[:1]]
    assert all(version and "*" not in version for version in (PackagePin.parse(name).version for name in exact)), exact
    return lock


class Host:
    """The host, the profile and its lock: what every test does with them."""

    def __init__(self, lab: Lab, asked: Profile, locked: Lock, folder: Path) -> None:
        self.lab, self.asked, self.locked, self.folder = lab, asked, locked, folder

    def converge(self, name: str, roles: tuple[str, ...] = GPU, **more: Any) -> ConvergeResult:
        told = more.pop("on_progress", lambda _: None)
        fixed: dict[str, Any] = {"lock": self.locked, "run_dir": self.folder / name, "login": "ubuntu", "on_progress": told}
        return converge(self.lab.target, self.asked, roles, **fixed, **more)

    def undo(self, name: str, roles: tuple[str, ...] = ROLES) -> list[str]:
        lines: list[str] = []
        undo(self.lab.target, roles, run_dir=self.folder / name, on_progress=lambda p: lines.extend(p.diff.splitlines()))
        return lines

    def findings(self) -> dict[str, Finding]:
        report = asyncio.run(verify(self.lab.target, pin(self.asked, self.locked), timeout_s=240))
        return {finding.check: finding for finding in report.findings}

    def before(self) -> str:
        """The state that no role has changed yet, with what Debian has published since the host's tree was built.

        A role's package may need such a newer one, and an undo does not take it back.
        """
        self.lab.upgrade()
        return self.state()

    def state(self) -> str:
        """Every file, link and mode below the folders that roles write to, and the packages; without what differs on each run."""
        listed = self.lab.shell(f"sudo find {WATCHED} -path /etc/ssh -prune -o -printf '%y %m %u %p %l\\n' | sort")
        sums = self.lab.shell(f"sudo find {WATCHED} -type f ! -name 'ld.so.cache' -exec sha256sum {{}} + | sort -k2")
        installed = self.lab.shell("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'")
        units = self.lab.shell("systemctl list-unit-files --no-legend | grep -v '^session-' | sort")
        return f"{listed}\n{sums}\n{installed}\n{units}"


@pytest.fixture
def host(lab: Lab, asked: Profile, locked: Lock, tmp_path: Path) -> Host:
    return Host(lab, asked, locked, tmp_path)

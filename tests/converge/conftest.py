"""One real host for the tests of this folder: an embedded host with an instance store, reached as gpuprov reaches any other."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.host.ssh import Target
from provision.paths import cache_dir
from provision.profile.load import load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.rehearsal import rootfs
from provision.rehearsal.hosts import HostPark, HostSpec
from provision.rehearsal.network import Network
from provision.rehearsal.packages import Packages

INSTANCE = "i-0c0ffee0000000001"


@dataclass(frozen=True)
class Lab:
    target: Target
    reboot: Callable[[], None]
    gateway: str

    def shell(self, command: str, *, check: bool = True) -> str:
        """A connection of its own each time, so that what a session gets is seen as a new one gets it."""
        done = subprocess.run(
            ["ssh", "-F", str(self.target.config), "-o", "ControlPath=none", self.target.destination, command],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def profile() -> Profile:
    return load(Path(__file__).parents[2] / "profiles" / "t4-train.yml")


@pytest.fixture(scope="session")
def lock(profile: Profile) -> Lock:
    """Of the system that the hosts are."""
    return build(profile, dt.date(2026, 11, 21), system="debian 12")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:

    assert os.geteuid() == 0, "rehearsal hosts need root"
    folder = tmp_path_factory.mktemp("park")
    key = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    root = rootfs.build(cache_dir(), lambda _text: None)
    network = Network(folder / "hosts")
    packages = Packages(cache_dir(), folder / "proxies")
    packages.start(network.gateway)
    park = HostPark(folder / "hosts", rootfs=root, network=network, packages=packages)
    try:
        public = key.with_suffix(".pub").read_text().strip()
        address = park.create(HostSpec(INSTANCE, "converge", authorized_keys=(public,), instance_store_gb=1, volume_gb=(1,)))
        config = folder / "ssh_config"
        config.write_text(
            f"Host lab\n HostName {address}\n User {rootfs.LOGIN}\n HostKeyAlias lab\n IdentityFile {key}\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
            f" ControlMaster auto\n ControlPath {folder}/%C\n ControlPersist 5\n"
        )
        made = Lab(Target("lab", "lab", config), lambda: _reboot(park, made), network.gateway)
        _trust(park, folder)
        _answers(made)
        yield made
        subprocess.run(["ssh", "-F", str(config), "-O", "exit", "lab"], check=False, capture_output=True)
    finally:
        park.close()


def _trust(park: HostPark, folder: Path) -> None:
    """The host's key from its console, as `gpuprov up` does it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in park.console(INSTANCE).splitlines():
            if line.strip().startswith("ssh-ed25519 "):
                (folder / "known_hosts").write_text(f"lab {' '.join(line.split()[:2])}\n")
                return
        time.sleep(0.1)
    pytest.fail("the host printed no key on its console")


def _answers(made: Lab) -> None:
    deadline = time.monotonic() + 60
    while made.shell("echo up", check=False) != "up":
        assert time.monotonic() < deadline, "the host does not answer"
        time.sleep(0.2)


def _reboot(park: HostPark, made: Lab) -> None:
    before = made.shell("cat /proc/sys/kernel/random/boot_id")
    park.reboot(INSTANCE)
    deadline = time.monotonic() + 60
    while made.shell("cat /proc/sys/kernel/random/boot_id", check=False) in {"", before}:
        assert time.monotonic() < deadline, "the host did not come back"
        time.sleep(0.2)

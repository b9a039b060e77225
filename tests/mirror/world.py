"""Origins on one address: NVIDIA's repository, a distribution's archive with suites, and a package index, all of small stand-ins."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import gzip
import hashlib
from collections.abc import Iterator
from email.utils import format_datetime
from pathlib import Path

import pytest

from provision.catalog import overlay
from provision.catalog.package_versions import Repository as Known
from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.mirror.fill import Filled, fill
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from tests.converge.repository import Package, Repository, packages
from tests.wheel_index import Index

TODAY = dt.date(2026, 11, 21)
COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware")
DEPENDENCY = "libstand-in1"


class Archive(Repository):
    """An archive with suites and components; everything is in main."""

    suite = "bookworm"

    def _index(self) -> None:
        """Indices below dists, and the packages where the index says that they are."""
        entries = []
        for deb in sorted(self.folder.glob("*.deb")):
            control = self._run("dpkg-deb", "--field", str(deb)).decode().rstrip()
            needs = f"Depends: {DEPENDENCY}\n" if deb.name.startswith("build-essential_") else ""
            digest = hashlib.sha256(deb.read_bytes()).hexdigest()
            entries.append(f"{control}\n{needs}Filename: {deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
        now = format_datetime(dt.datetime.now(dt.UTC), usegmt=True)
        release = f"Origin: Stand-in\nSuite: {self.suite}\nDate: {now}\nArchitectures: amd64\n"
        release += f"Components: {' '.join(COMPONENTS)}\n{self.more}SHA256:\n"
        dists = self.folder / "dists" / self.suite
        for component in COMPONENTS:
            listed = "\n".join(entries).encode() if component == "main" else b""
            path = f"{component}/binary-amd64/Packages"
            (dists / path).parent.mkdir(parents=True, exist_ok=True)
            packed = gzip.compress(listed, mtime=0)
            (dists / f"{path}.gz").write_bytes(packed)  # as Debian: the other one is listed, and not served
            for name, content in ((path, listed), (f"{path}.gz", packed)):
                release += f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        (dists / "Release").write_text(release)
        self._run("gpg", "--batch", "-q", "--yes", "--clearsign", "-o", str(dists / "InRelease"), str(dists / "Release"))


@dataclasses.dataclass(frozen=True)
class World:
    """The origins, and a profile with its lock that installs from them."""

    repository: Repository
    archive: Archive
    index: Index
    keyring: Path
    profile: Profile
    lock: Lock
    said: list[str]

    def fill(self, folder: Path) -> Filled:
        values = variables(self.profile, self.lock, ROLES)
        return fill(self.lock, folder, values, say=self.said.append)


@contextlib.contextmanager
def world(folder: Path, address: str, profile: Profile) -> Iterator[World]:
    """Serve the origins. While they are there, the catalogue says that the system's archive is ours."""
    repository, archive = Repository(folder / "nvidia", address), Archive(folder / "debian", address)
    index = Index(folder, {"torch": {"2.10.0": ("numpy",)}, "numpy": {"2.3.1": ()}}, address)
    keyring = folder / "archive-keyring.asc"
    keyring.write_bytes((archive.folder / "key.asc").read_bytes())
    own = Known("apt", archive.suite, archive.url, archive.suite, COMPONENTS, str(keyring))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUPROV_OVERLAY", str(folder / "overlay.json"))
        patch.setattr("provision.mirror.origins.of_distribution", lambda _own: (own,))
        part = overlay.Part("wheels", dt.datetime(2026, 11, 21, tzinfo=dt.UTC), "a test")
        wheels = f"{index.pins['torch 2.10.0']}\n{index.pins['numpy 2.3.1']}\n"
        overlay.write(overlay.Overlay(parts=[part], wheels={"torch-2.10.0-cp311": wheels}))
        plain = profile.dump()
        plain |= {"os": {"name": "debian", "version": "12"}, "places": []}
        plain["sources"] |= {
            "apt": {"url": repository.url, "key": f"{repository.url}key.asc", "fingerprint": repository.fingerprint},
            "wheels": {"url": index.url},
        }
        plain["stack"] |= {"frameworks": {"pytorch": "2.10.0"}, "opencv": "none", "ffmpeg": False, "tools": ["make"], "extras": []}
        plain["disks"]["data"] = None
        asked = Profile.model_validate(plain)
        lock = build(asked, TODAY)
        of_system = ["python3-apt", "dkms", DEPENDENCY, *lock.driver.headers]
        of_system += [name for role in ("base", "pytorch") for name in lock.packages[role]]
        theirs = [name for names in lock.packages.values() for name in names if name not in of_system]
        # Older than what a real host has of them, which so stays; but its python3 breaks an old python3-dev.
        archive.add([Package(name, "99~stand-in" if name == "python3-dev" else "0~stand-in") for name in dict.fromkeys(of_system)])
        repository.add(packages(theirs, lock.driver.branch, lock.cuda.version))
        yield World(repository, archive, index, keyring, asked, lock, [])
    for server in (repository, archive, index):
        server.close()

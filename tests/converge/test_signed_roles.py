"""The roles for signed modules and for slices on a real host without a GPU, between two repositories that both have the driver.

The packages are small ones that carry the real names: what is proven is where apt takes them from, and what the roles leave and take back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile

from .conftest import Host, Lab
from .repository import KERNEL, Package, Repository

pytestmark = pytest.mark.rehearsal
ROLES = ("nvidia_driver", "mig")
OURS, THEIRS = "580.173.02-0ubuntu0.24.04.1", "999.1-1"


@pytest.fixture(scope="module")
def archive(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """Ubuntu's archive, under a host name of its own; the fixture `repository` stands for NVIDIA's."""
    made = Repository(tmp_path_factory.mktemp("archive"), lab.gateway)
    url = made.url.replace(lab.gateway, "archive.test")
    source = f"Types: deb\\nURIs: {url}\\nSuites: ./\\nSigned-By: /usr/share/keyrings/archive.asc\\n"
    lab.shell(
        f"echo '{lab.gateway} archive.test' | sudo tee -a /etc/hosts && "
        """echo 'Acquire::http::Proxy::archive.test "DIRECT";' | sudo tee /etc/apt/apt.conf.d/03-archive && """
        f"echo '{(made.folder / 'key.asc').read_text()}' | sudo tee /usr/share/keyrings/archive.asc && "
        f"printf '{source}' | sudo tee /etc/apt/sources.list.d/archive.sources"
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def asked(profile: Profile, repository: Repository) -> Profile:
    plain = profile.dump() | {"places": []}
    plain["gpu"] |= {"model": "h100", "application_clocks": "default", "mig": [{"slice": "1g.10gb", "count": 7}]}
    plain["sources"]["apt"] = {"url": repository.url, "key": f"{repository.url}key.asc", "fingerprint": repository.fingerprint}
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": ["make"], "extras": [], "driver_build": "signed"}
    plain["disks"]["data"] = None
    return Profile.model_validate(plain)


@pytest.fixture(scope="module")
def locked(asked: Profile, archive: Repository, repository: Repository) -> Lock:
    made = build(asked, dt.date(2026, 11, 21))
    files = {f"lib/modules/{KERNEL}/kernel/nvidia-580srv-open/nvidia.ko": "module", f"boot/vmlinuz-{KERNEL}": "kernel"}
    names = made.driver.packages
    archive.add([Package(name, "6.8.0-99.1", files) if name.startswith("linux-") else Package(name, OURS) for name in names])
    repository.add([Package(name, THEIRS) for name in names if not name.startswith("linux-")])
    return made


def test_the_driver_comes_signed_from_the_archive_and_all_of_it_goes_again(host: Host) -> None:
    before = host.before()
    assert host.converge("first", ROLES).changed > 0
    installed = dict(line.split() for line in host.lab.shell("dpkg-query -W -f '${Package} ${Version}\\n'").splitlines() if " " in line)
    assert {name: installed[name] for name in host.locked.driver.packages} == {
        name: "6.8.0-99.1" if name.startswith("linux-") else OURS for name in host.locked.driver.packages
    }
    assert not [name for name in installed if name == "dkms" or name.startswith("linux-headers")]
    assert set(host.locked.driver.packages) <= set(host.lab.shell("apt-mark showhold").split())
    assert "linux-image-.*" in host.lab.shell("cat /etc/apt/apt.conf.d/60gpuprov-hold")
    assert host.lab.shell("systemctl is-enabled gpuprov-mig") == "enabled"
    found = host.findings()
    passed = ("driver-on-disk", "every-kernel", "mig-at-boot")
    assert {check: found[check].outcome for check in passed} == dict.fromkeys(passed, "pass"), [found[check] for check in passed]
    assert (found["signed-modules"].outcome, found["mig"].outcome) == ("unknown", "unknown")
    assert host.converge("second", ROLES).changed_tasks == ()
    host.undo("all")
    was, now = set(before.splitlines()), set(host.state().splitlines())
    assert (sorted(now - was), sorted(was - now)) == ([], [])

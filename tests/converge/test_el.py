"""The roles on a host that manages its packages with dnf and rpm, against a signed repository with module streams.

The host calls itself Rocky Linux 9 and is this machine's distribution below: what is proven is what our roles do with dnf, rpm, streams,
keys and version locks, and nothing about EL's own packages or kernels.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import testinfra

from provision.errors import PlaybookFailedError
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.pins import PackagePin

from .conftest import GPU, SWITCHED, Host, Lab, pinned
from .repository import KERNEL, Package, RpmRepository, packages

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=4, turn=1)]
ROLES = ("base", *GPU)
FABRIC = "nvidia-fabricmanager"
# Not fabric-on-disk: Debian's rpm keeps a database for each user, so the probe's user sees none of root's packages here.
ON_DISK = ("driver-on-disk", "counters-on-disk", "persistence-at-boot", "clocks-at-boot", "nvcc", "profilers", "cuda-environment")


@pytest.fixture(scope="module")
def repository(el_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpmRepository]:
    made = RpmRepository(tmp_path_factory.mktemp("rpms"), el_lab.gateway)
    # Such as Rocky's own, which has what the base role wants and EPEL's release package.
    el_lab.shell(
        f"printf '[base]\\nname=base\\nbaseurl={made.url}\\nenabled=1\\ngpgcheck=1\\ngpgkey={made.url}key.asc\\n' | "
        "sudo install -D /dev/stdin /etc/yum.repos.d/base.repo && sudo rpm --initdb"
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def asked(profile: Profile, repository: RpmRepository) -> Profile:
    plain = profile.dump() | {"places": SWITCHED["places"]}
    plain["gpu"] |= SWITCHED["gpu"]
    plain["os"] = {"name": "rocky", "version": "9"}
    plain["sources"]["dnf"] = {"url": repository.url, "key": f"{repository.url}key.asc", "fingerprint": repository.fingerprint}
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": ["make"]}
    plain["disks"]["data"] = None
    return Profile.model_validate(plain)


@pytest.fixture(scope="module")
def locked(asked: Profile, repository: RpmRepository, tmp_path_factory: pytest.TempPathFactory) -> Lock:
    made = build(asked, dt.date(2026, 11, 21))
    names = [name for role in ROLES for name in made.packages.get(role, ())]
    small = packages(names, made.driver.branch, made.cuda.version)
    assert made.driver.stream is not None
    repository.add(
        [*small, Package("epel-release", "9")], {made.driver.stream: [*made.driver.packages, FABRIC], "nvidia-driver:latest": []}
    )
    return pinned(asked, tmp_path_factory.mktemp("overlay"))


@pytest.fixture
def host(el_lab: Lab, asked: Profile, locked: Lock, tmp_path: Path) -> Host:
    return Host(el_lab, asked, locked, tmp_path)


def test_a_key_with_another_fingerprint_is_refused_before_anything_is_installed(host: Host) -> None:
    mirror = host.asked.sources.dnf
    assert mirror is not None
    wrong = host.asked.sources.model_copy(update={"dnf": mirror.model_copy(update={"fingerprint": "0" * 40})})
    host.asked = host.asked.model_copy(update={"sources": wrong})
    host.locked = build(host.asked, dt.date(2026, 11, 21))
    # The first test: later dnf itself has taken the key for the repository that stands for Rocky's own.
    with pytest.raises(PlaybookFailedError, match="Trust the keys") as caught:
        host.converge("wrong", ("cudnn",))
    assert "fingerprint" in caught.value.message
    assert "cudnn" not in host.lab.shell("sudo rpm -qa")


def test_another_stream_that_is_enabled_already_is_reset(host: Host) -> None:
    host.lab.shell("sudo dnf -y -q module enable nvidia-driver:latest")
    first = host.converge("first", ROLES)
    assert first.changed > 0
    enabled = host.lab.shell("sudo dnf -q module list --enabled")
    assert f"{host.locked.driver.branch}-open [e]" in enabled
    assert "latest" not in enabled


def test_the_second_run_changes_nothing(host: Host) -> None:
    assert host.converge("second", ROLES).changed_tasks == ()


def test_our_checks_pass_for_what_is_on_disk(host: Host) -> None:
    found = host.findings()
    assert {check: found[check].outcome for check in ON_DISK} == dict.fromkeys(ON_DISK, "pass"), [found[c] for c in ON_DISK]
    assert found["os"].outcome in {"pass", "warn"}


def test_testinfra_agrees(host: Host) -> None:
    seen = testinfra.get_host(f"ssh://{host.lab.target.destination}", ssh_config=str(host.lab.target.config), sudo=True)
    for name in (*host.locked.driver.packages, FABRIC):
        assert seen.check_output(f"rpm -q {name}").startswith(f"{name}-{host.locked.driver.branch}")
    locks = seen.check_output("dnf -q versionlock list")
    assert "nvidia-open" in locks
    assert FABRIC in locks
    assert "gpgcheck=1" in seen.file("/etc/yum.repos.d/gpuprov.repo").content_string
    assert seen.file(f"/lib/modules/{KERNEL}/extra/nvidia.ko").exists
    assert "--persistence-mode" in seen.check_output("systemctl show -p ExecStart nvidia-persistenced")


def test_everything_survives_a_reboot(host: Host) -> None:
    host.lab.reboot()
    found = host.findings()
    assert {check: found[check].outcome for check in ON_DISK} == dict.fromkeys(ON_DISK, "pass")


def test_a_package_that_somebody_else_signed_is_refused_and_a_rerun_completes(host: Host, repository: RpmRepository) -> None:
    name = PackagePin.parse(host.locked.packages["cudnn"][0]).name
    host.undo("undo", ("cudnn",))
    assert name not in host.lab.shell("sudo rpm -qa")
    repository.resign(name, "somebody else")
    host.lab.shell("sudo dnf -q clean all")
    with pytest.raises(PlaybookFailedError, match="Install the packages") as caught:
        host.converge("foreign", ("cudnn",))
    assert "not signed" in caught.value.message.lower() or "gpg" in caught.value.message.lower(), caught.value.message
    assert name not in host.lab.shell("sudo rpm -qa")
    repository.resign(name, None)
    host.lab.shell("sudo dnf -q clean all")
    host.converge("whole", ("cudnn",))
    assert name in host.lab.shell("sudo rpm -qa")


def test_undo_removes_what_was_added(host: Host) -> None:
    host.undo("all")
    left = host.lab.shell("sudo rpm -qa; sudo dnf -q versionlock list")
    assert [name for name in ("nvidia", "cuda", "cudnn", "nsight") if name in left] == []
    assert host.lab.shell("sudo ls /var/lib/gpuprov/changes") == ""
    assert host.lab.shell("ls /etc/yum.repos.d") == "base.repo"


def test_a_host_with_nvidias_own_repository_has_a_dnf_that_works_throughout(host: Host, repository: RpmRepository) -> None:
    """The file that NVIDIA tells to add, with the repository of this test in the place of theirs."""
    path, name = "/etc/yum.repos.d/cuda-rhel9.repo", PackagePin.parse(host.locked.packages["cudnn"][0]).name
    told = {"name": "cuda-rhel9-x86_64", "baseurl": repository.url, "enabled": 1, "gpgcheck": 1, "gpgkey": f"{repository.url}key.asc"}
    own = "[cuda-rhel9-x86_64]\\n" + "".join(f"{key}={value}\\n" for key, value in told.items())
    host.lab.shell(f"printf '{own}' | sudo tee {path}")
    watched = "sudo sh -c 'cd /etc/yum.repos.d && stat -c \"%n %a %U %G\" * && sha256sum *'"

    def dnf() -> bool:
        """Whether it reads its sources, and NVIDIA's packages can be had."""
        return name in host.lab.shell(f"sudo dnf -q clean expire-cache && sudo dnf -q repoquery {name}")

    before = host.lab.shell(watched)
    assert dnf()
    first = host.converge("own", ("cuda_toolkit", "cudnn"))
    assert [warning for warning in first.warnings if warning.startswith(f"{path} has {repository.url} too")]
    assert dnf()
    enabled = host.lab.shell("sudo dnf -q repolist --enabled").split()
    assert ("gpuprov-mirror" in enabled, "cuda-rhel9-x86_64" in enabled) == (True, False)
    assert host.findings()["nvcc"].outcome == "pass"
    assert host.converge("own-again", ("cuda_toolkit", "cudnn")).changed_tasks == ()
    host.undo("own-undo")
    assert dnf()
    assert host.lab.shell(watched) == before
    host.lab.shell(f"sudo rm {path}")


def test_signed_modules_come_from_the_repository_that_the_system_s_own_package_adds(
    host: Host, repository: RpmRepository, tmp_path: Path
) -> None:
    plain = host.asked.dump() | {"os": {"name": "alma", "version": "9"}}
    plain["stack"]["driver_build"] = "signed"
    asked = Profile.model_validate(plain)
    lock = build(asked, dt.date(2026, 11, 21))
    # At an address of its own, as AlmaLinux's is.
    added = f"[almalinux-nvidia]\nname=x\nbaseurl={repository.url}./\nenabled=1\ngpgcheck=1\ngpgkey={repository.url}key.asc\n"
    module = {f"lib/modules/{KERNEL}/extra/nvidia.ko": "module"}
    made = [Package(name, f"{lock.driver.branch}.1", module if "kmod" in name else {}) for name in lock.driver.packages]
    release = Package("almalinux-release-nvidia-driver", "9", {"etc/yum.repos.d/almalinux-nvidia.repo": added})
    repository.add([*made, release], {"nvidia-driver:latest": []})
    host.lab.shell("sudo dnf -q clean all")
    alma = Host(host.lab, asked, lock, tmp_path)
    alma.converge("signed", ("nvidia_driver",))
    names = host.lab.shell("sudo rpm -qa --queryformat '%{NAME}\\n'").split()
    assert {*lock.driver.packages, release.name} <= set(names)
    assert not {"dkms", "kernel-devel-matched", "kernel-headers"} & set(names)
    assert "nvidia-open-kmod" in host.lab.shell("sudo dnf -q versionlock list")
    assert alma.converge("again", ("nvidia_driver",)).changed_tasks == ()
    alma.undo("all")
    assert not [name for name in host.lab.shell("sudo rpm -qa").splitlines() if "nvidia" in name]
    assert host.lab.shell("ls /etc/yum.repos.d") == "base.repo"

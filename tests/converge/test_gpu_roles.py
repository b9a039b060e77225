"""The roles for the GPU on a real host without one, against a signed repository of small packages that carry the real names.

What each role leaves on disk is looked at by our probe and by testinfra, which nobody here wrote.
"""

from __future__ import annotations

import base64
import datetime as dt

import pytest
import testinfra

from provision.converge.progress import Progress
from provision.errors import PlaybookFailedError
from provision.profile.lock import build
from provision.rehearsal import rootfs
from provision.structs import replace

from .conftest import SOURCES, Host
from .repository import KERNEL, Repository, packages

pytestmark = pytest.mark.rehearsal
ON_DISK = (
    *("driver-on-disk", "fabric-on-disk", "counters-on-disk", "persistence-at-boot", "clocks-at-boot"),
    *("nvcc", "profilers", "cuda-environment", "extras"),
)


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """What the host was before any role ran."""
    return {}


def test_check_mode_predicts_the_first_run_and_changes_nothing(host: Host, before: dict[str, str]) -> None:
    before["state"] = host.before()
    predicted = host.converge("check", check=True)
    assert host.state() == before["state"]
    story: list[Progress] = []
    first = host.converge("first", on_progress=story.append)
    assert first.changed > 0
    # A dry run tells of packages where it notes them; the real one where it installs them.
    swapped = {"packages: Record which packages are installed": "packages: Install the packages with apt"}
    told = {swapped.get(task, task) for task in predicted.changed_tasks}
    # The driver is built and held by its own package's first installation, which a dry run does not see.
    assert told >= set(first.changed_tasks) - {"sources: Fetch the keys of the repositories"}


def test_the_second_run_changes_nothing(host: Host) -> None:
    story: list[Progress] = []
    assert host.converge("second", on_progress=story.append).changed_tasks == ()
    # The package lists are not fetched either, where no package is missing.
    assert {told.state for told in story if told.task == "Install the packages with apt"} == {"started", "skipped"}


def test_our_checks_pass_for_what_is_on_disk(host: Host) -> None:
    found = host.findings()
    assert {check: found[check].outcome for check in ON_DISK} == dict.fromkeys(ON_DISK, "pass"), [found[c] for c in ON_DISK]
    assert found["gpu"].outcome == "unknown"


def test_testinfra_agrees(host: Host) -> None:
    seen = testinfra.get_host(f"ssh://{host.lab.target.destination}", ssh_config=str(host.lab.target.config), sudo=True)
    option = seen.file("/etc/modprobe.d/gpuprov-counters.conf")
    assert option.contains("^options nvidia NVreg_RestrictProfilingToAdminUsers=0$")
    assert (option.user, option.mode) == ("root", 0o644)
    assert seen.file("/etc/modprobe.d/gpuprov-nouveau.conf").contains("^blacklist nouveau$")
    assert seen.service("nvidia-persistenced").is_enabled
    assert seen.service("nvidia-persistenced").is_running
    assert "--persistence-mode" in seen.check_output("systemctl show -p ExecStart nvidia-persistenced")
    assert "--no-persistence-mode" not in seen.check_output("systemctl show -p ExecStart nvidia-persistenced")
    assert seen.service("gpuprov-clocks").is_enabled
    assert seen.service("nvidia-dcgm").is_enabled
    assert seen.package("datacenter-gpu-manager-4-core").version == "1:4.5.2-1"
    named = seen.file("/etc/OpenCL/vendors/nvidia.icd")
    assert (named.content_string, named.user, named.mode) == ("libnvidia-opencl.so.1\n", "root", 0o644)
    assert seen.package("ocl-icd-libopencl1").is_installed
    assert seen.package("nvidia-opencl-icd").version == seen.package("nvidia-driver-cuda").version
    assert seen.file("/usr/local/cuda").linked_to == f"/usr/local/cuda-{host.locked.cuda.version}"
    assert seen.package("nvidia-driver-cuda").is_installed
    assert seen.service("nvidia-fabricmanager").is_enabled
    assert seen.service("nvidia-fabricmanager").is_running
    assert "modprobe ib_umad" in seen.check_output("systemctl show -p ExecStartPre nvidia-fabricmanager")
    assert seen.package("nvlsm").is_installed
    held = seen.check_output("apt-mark showhold").split()
    assert {*host.locked.driver.packages, "nvidia-fabricmanager"} <= set(held)
    assert seen.file(f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko").exists
    assert seen.file("/etc/sysctl.d/60-gpuprov-perf.conf").contains("kernel.perf_event_paranoid = 2")
    assert host.asked.sources.apt is not None
    assert seen.file(SOURCES).contains(host.asked.sources.apt.fingerprint)
    assert "trusted" not in seen.file(SOURCES).content_string
    # What apt itself makes of the pin: no newer branch comes in behind our back.
    assert " 1001" in seen.check_output("apt-cache policy nvidia-driver-cuda")


def test_everything_survives_a_reboot(host: Host) -> None:
    host.lab.reboot()
    found = host.findings()
    assert {check: found[check].outcome for check in ON_DISK} == dict.fromkeys(ON_DISK, "pass")
    assert host.lab.shell("systemctl is-active nvidia-persistenced") == "active"


def test_a_newer_branch_does_not_come_in_behind_our_back(host: Host, repository: Repository) -> None:
    newer = packages(["nvidia-driver-cuda"], "999", host.locked.cuda.version)
    repository.add(newer)
    host.lab.upgrade(SOURCES)
    assert host.lab.shell("dpkg-query -W -f '${Version}' nvidia-driver-cuda") == f"{host.locked.driver.branch}.1"


def test_what_someone_changed_by_hand_is_put_right(host: Host, repository: Repository) -> None:
    ours = host.locked.driver.branch + ".1"
    repository.add(
        [replace(package, version=f"{ours}1-1") for package in packages(["nvidia-fabricmanager"], host.locked.driver.branch, "")]
    )
    host.lab.shell("sudo apt-get update -qq && sudo apt-get install -y -qq --allow-change-held-packages nvidia-fabricmanager")
    assert host.findings()["fabric-on-disk"].observed.startswith(f"fabric manager {ours}1, driver {ours}")
    host.lab.shell("echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=1' | sudo tee /etc/modprobe.d/gpuprov-counters.conf")
    host.lab.shell("sudo apt-mark unhold nvidia-driver-cuda; sudo systemctl disable -q --now nvidia-persistenced")
    assert host.findings()["counters-on-disk"].outcome == "fail"
    fixed = host.converge("fixed", ("counters", "fabric_manager", "persistence"))
    assert {"counters: Write the option of the kernel module, and the command for the group"} <= set(fixed.changed_tasks)
    found = host.findings()
    assert {check: found[check].outcome for check in ON_DISK} == dict.fromkeys(ON_DISK, "pass"), found["fabric-on-disk"]
    assert "nvidia-driver-cuda" in host.lab.shell("apt-mark showhold").split()


def test_what_a_package_brought_for_opencl_stays_as_it_is_and_what_was_lost_is_written_again(host: Host) -> None:
    icd = "/etc/OpenCL/vendors/nvidia.icd"
    host.lab.shell(f"echo /usr/lib/libnvidia-opencl.so.1 | sudo tee {icd}; sudo chmod 755 {icd}")
    assert host.converge("brought", ("extras",)).changed_tasks == ()
    assert host.lab.shell(f"stat -c %a {icd}; cat {icd}").split() == ["755", "/usr/lib/libnvidia-opencl.so.1"]
    host.lab.shell(f"echo | sudo tee {icd}")
    assert "extras: Write the files that no package has brought" in host.converge("lost", ("extras",)).changed_tasks
    assert host.lab.shell(f"cat {icd}") == "libnvidia-opencl.so.1"


def test_one_role_is_undone_alone(host: Host) -> None:
    assert "/etc/systemd/system/gpuprov-clocks.service: removed" in host.undo("undo", ("clocks",))
    assert host.findings()["clocks-at-boot"].outcome == "fail"
    assert host.findings()["persistence-at-boot"].outcome == "pass"
    assert host.undo("again", ("clocks",)) == []


def test_undo_leaves_the_host_as_it_was_before(host: Host, before: dict[str, str]) -> None:
    host.undo("all")
    was, now = set(before["state"].splitlines()), set(host.state().splitlines())
    assert (sorted(now - was), sorted(was - now)) == ([], [])
    assert host.lab.shell("sudo ls /var/lib/gpuprov/changes") == ""


@pytest.mark.matrix(of=6)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"key.asc": (404, b"gone")}, "Fetch the keys"),
        ({"key.asc": (200, b"<html>a captive portal</html>")}, "Install the packages"),
        ({"InRelease": (404, b"gone"), "Release": (404, b"gone")}, "Install the packages"),
        ({"InRelease": (200, b"<html>a captive portal</html>")}, "Install the packages"),
        ({".deb": (404, b"gone")}, "Install the packages"),
        ({".deb": (200, b"garbage")}, "Install the packages"),
    ],
    ids=["no-key", "garbage-key", "no-index", "garbage-index", "no-package", "garbage-package"],
)
def test_a_repository_that_fails_is_said(host: Host, repository: Repository, broken: dict[str, tuple[int, bytes]], said: str) -> None:
    host.lab.shell("sudo rm -rf /var/lib/apt/lists/*nvidia* /var/lib/apt/lists/10.* /var/cache/apt/archives/*.deb")
    repository.breaks(broken)
    with pytest.raises(PlaybookFailedError, match=said) as caught:
        host.converge("broken", ("cudnn",))
    assert caught.value.hint


def test_a_rerun_after_all_of_these_completes(host: Host, repository: Repository) -> None:
    """What each failure left on the host lies there still: keys, lists, archives and half an installation."""
    repository.breaks({})
    host.converge("whole", ("cudnn",))
    assert host.lab.shell("dpkg-query -W -f '${Status}' libcudnn9-cuda-13") == "install ok installed"
    host.undo("undo")


# What NVIDIA's package cuda-keyring brings, with the repository of this test in the place of theirs.
KEYRING, LIST = "/usr/share/keyrings/cuda-archive-keyring.gpg", "/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list"
PIN = "/etc/apt/preferences.d/cuda-repository-pin-600"
PINNED = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"


def test_a_host_with_nvidias_own_repository_has_an_apt_that_works_throughout(host: Host, repository: Repository) -> None:
    key = base64.b64encode(repository.dearmored()).decode()
    host.lab.shell(
        f"echo {key} | base64 -d | sudo tee {KEYRING} > /dev/null; printf '{PINNED}' | sudo tee {PIN} > /dev/null; "
        f"echo 'deb [signed-by={KEYRING}] {repository.url} /' | sudo tee {LIST} > /dev/null"
    )

    def apt() -> tuple[str, str]:
        """What is wrong with the sources, and whether NVIDIA's packages can be had."""
        said = host.lab.shell("sudo apt-get update 2>&1")
        found = host.lab.shell("apt-cache policy libcudnn9-cuda-13 2>&1")
        wrong = [line for line in f"{said}\n{found}".splitlines() if line.startswith(("E:", "W:", "Err:"))]
        return "\n".join(wrong), "yes" if repository.url.rstrip("/") in found else found

    watched = f"sudo sh -c 'stat -c \"%n %a %U %G\" {KEYRING} {LIST} {PIN}; sha256sum {KEYRING} {LIST} {PIN}; ls /etc/apt/*.d'"
    before = host.lab.shell(watched)
    assert apt() == ("", "yes")
    first = host.converge("own", ("cuda_toolkit", "cudnn"))
    assert [warning for warning in first.warnings if warning.startswith(f"{LIST} has {repository.url} too")]
    assert apt() == ("", "yes")
    assert host.lab.shell(f"cat {LIST}") == f"# gpuprov: deb [signed-by={KEYRING}] {repository.url} /"
    assert host.findings()["nvcc"].outcome == "pass"
    assert apt() == ("", "yes")
    assert host.converge("own-again", ("cuda_toolkit", "cudnn")).changed_tasks == ()
    host.undo("own-undo")
    assert apt() == ("", "yes")
    assert host.lab.shell(watched) == before
    host.lab.shell(f"sudo rm {KEYRING} {LIST} {PIN}")


def test_a_repository_signed_by_another_key_is_refused_although_its_key_is_served(host: Host, repository: Repository) -> None:
    mirror = host.asked.sources.apt
    assert mirror is not None
    wrong = host.asked.sources.model_copy(update={"apt": mirror.model_copy(update={"fingerprint": "0" * 40})})
    host.asked = host.asked.model_copy(update={"sources": wrong})
    host.locked = build(host.asked, dt.date(2026, 11, 21), system=rootfs.system())
    del repository
    with pytest.raises(PlaybookFailedError, match="Install the packages") as caught:
        host.converge("wrong", ("cudnn",))
    assert caught.value.hint
    assert host.lab.shell("dpkg-query -W -f '${Status}' libcudnn9-cuda-13 2>/dev/null || true") in {"", "unknown ok not-installed"}
    host.undo("undo")

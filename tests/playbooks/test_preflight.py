"""The preflight module: through Ansible's own door on this machine, and in this process what it makes of other hosts."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.paths import playbooks_dir
from provision.rehearsal import rootfs

from .conftest import Host, Modules


def preflight(folder: Path, **changes: Any) -> tuple[bool, str]:
    """Whether it refused, and what it said."""
    own = rootfs.system()
    asked = {"systems": [own], "system": own, "free_gb": 0, "wait_s": 3, "modules": False, **changes}
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(playbooks_dir() / "collections"),
        "ANSIBLE_HOME": str(folder),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    program = str(Path(sys.executable).parent / "ansible")
    done = subprocess.run(
        [program, "localhost", "-c", "local", "-m", "gpuprov.host.preflight", "-a", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode != 0, done.stdout + done.stderr


def test_a_host_that_can_be_set_up_passes(tmp_path: Path) -> None:
    refused, said = preflight(tmp_path)
    assert not refused, said
    assert '"pkg_mgr": "apt"' in said  # the one fact that roles need


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"systems": ["ubuntu 24.04"], "system": "ubuntu 24.04"}, ["is not supported; ubuntu 24.04 are"]),
        ({"systems": [rootfs.system(), "rocky 9"], "system": "rocky 9"}, ["and the profile is for rocky 9"]),
        ({"headers": ["no-such-headers-of-anybody"]}, ["no repository has no-such-headers-of-anybody"]),
        ({"free_gb": 10**6}, ["GB free, and the stack needs 1000000"]),
        ({"free_gb": 10**6, "systems": ["rocky 9"], "system": "rocky 9"}, ["is not supported", "GB free"]),
    ],
)
def test_a_host_that_cannot_be_is_refused_with_every_reason(tmp_path: Path, changes: dict[str, Any], reasons: list[str]) -> None:
    refused, said = preflight(tmp_path, **changes)
    assert refused
    assert [reason for reason in reasons if reason not in said] == []


# --- other hosts

MIB = 1 << 20


@pytest.fixture
def here(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module on a host of which everything is as it should be; a test changes that."""
    module = modules.load("modules.preflight")
    for name in ("secure_boot", "signed_only", "cloud_init", "package_managers"):
        monkeypatch.setattr(module, name, lambda *_: "")
    monkeypatch.setattr(module, "warnings", list)
    monkeypatch.setattr(module, "system", lambda: "ubuntu 24.04")
    monkeypatch.setattr(module, "without_candidate", lambda _: [])
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=5 * 1024, f_frsize=MIB, f_flag=0))
    monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: path != "/etc/gpuprov-rehearsal" and real(path))

    def call(**changes: Any) -> Any:
        asked = {"systems": ["ubuntu 24.04", "rocky 9"], "system": "ubuntu 24.04", "free_gb": 5, "wait_s": 3}
        return modules.call("preflight", **{**asked, **changes})

    return SimpleNamespace(module=module, call=call)


def test_the_bound_of_free_space_passes_and_a_byte_less_is_refused(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"/": 5 * 1024 * MIB}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free.get(path, 0), f_frsize=1, f_flag=0))
    assert not here.call().get("failed")
    free["/"] -= 1
    assert here.call()["msg"] == "/ has 4 GB free, and the stack needs 5"


def test_a_full_file_system_beside_the_root_is_refused(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"/": 100 * 1024, "/boot": 255, "/var": 256, "/opt": 0}
    monkeypatch.setattr(os.path, "ismount", lambda path: path in {"/boot", "/var"})
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free.get(path, 0), f_frsize=MIB, f_flag=0))
    assert here.call()["msg"] == "/boot has 255 MB free, and less than 256 is full"


@pytest.mark.parametrize(("branch", "refused"), [("595", True), ("", False)])
def test_no_driver_is_installed_under_windows(here: Any, monkeypatch: pytest.MonkeyPatch, branch: str, *, refused: bool) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="6.6.87.2-microsoft-standard-WSL2"))
    assert ("under Windows (WSL)" in here.call(branch=branch).get("msg", "")) is refused


@pytest.mark.parametrize("check", [False, True])
def test_a_dry_run_refuses_and_tells_the_same(here: Any, monkeypatch: pytest.MonkeyPatch, *, check: bool) -> None:
    monkeypatch.setattr(here.module, "package_manager", lambda: "dnf5")
    answer = here.call(check=check)
    facts = {"pkg_mgr": "dnf5", "kernel_packages": [], "sources_elsewhere": [], "sources_keyrings": {}}
    assert (answer["changed"], answer["system"], answer["ansible_facts"]) == (False, "ubuntu 24.04", facts)
    assert "the profile is for rocky 9" in here.call(check=check, system="rocky 9")["msg"]


def test_another_system_or_processor_is_refused_and_a_stand_in_is_not(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here.call(system="rocky 9")["msg"] == "this host is ubuntu 24.04, and the profile is for rocky 9"
    assert here.call(systems=["rocky 9"], system="rocky 9")["msg"] == "ubuntu 24.04 is not supported; rocky 9 are"
    monkeypatch.setattr(os.path, "exists", lambda _: True)
    assert not here.call(system="rocky 9").get("failed")
    monkeypatch.setattr(here.module.platform, "machine", lambda: "aarch64")
    assert here.call()["msg"] == "the processor is aarch64, and packages and wheels are for x86_64"


def test_every_reason_of_waiting_and_every_missing_package_is_told(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here.module, "cloud_init", lambda wait_s: f"cloud-init {wait_s}")
    monkeypatch.setattr(here.module, "package_managers", lambda wait_s: f"apt {wait_s}")
    monkeypatch.setattr(here.module, "without_candidate", lambda names: names)
    monkeypatch.setattr(here.module, "for_the_kernel", lambda headers, _: ([], False, "no headers" if headers else ""))
    assert here.call(headers=["a"], modules=True)["msg"].startswith("no repository has a, which"), "one reason of two"
    said = here.call(headers=["a", "b"], given=["c"], by_hand="subscribe")["msg"]
    assert said.startswith("no repository has a and b, which the build of the driver needs")
    assert "; no repository has c: subscribe; " in said
    assert said.endswith("; cloud-init 3; apt 3")


@pytest.fixture
def look(modules: Modules) -> Any:
    return modules.load("modules.preflight")


def opened(module: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, **texts: bytes) -> None:
    """Files of the host, by the end of their path, as `open` finds them."""

    def instead(path: str, *words: Any, **how: Any) -> Any:
        name = next((name for name in texts if path.rpartition("/")[2].replace("-", "_").startswith(name)), None)
        if name is None:
            raise FileNotFoundError(path)
        (folder / name).write_bytes(texts[name])
        return (folder / name).open(*words, **how)

    monkeypatch.setattr(module, "open", instead, raising=False)


@pytest.mark.parametrize(
    ("release", "system"),
    [
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "ubuntu 24.04"),
        ('ID="almalinux"\nVERSION_ID="9.4"\n', "alma 9"),
        ('ID="centos"\nVERSION_ID="9"\n', "centos-stream 9"),
        ('ID="amzn"\nVERSION_ID="2023"\nID_LIKE="fedora"\n', "amazon-linux 2023"),
        ('ID="rhel"\nVERSION_ID="10.1"\nID_LIKE="centos fedora"\n', "rhel 10"),
        ('ID="rocky"\nVERSION_ID="10.1"\nID_LIKE="rhel centos fedora"\n', "rocky 10"),
        ("ID=debian\nVERSION_ID=12\n", "debian 12"),
        ("", "? ?"),
    ],
)
def test_a_system_is_named_as_the_catalogue_does(look: Any, monkeypatch: Any, tmp_path: Path, release: str, system: str) -> None:
    opened(look, monkeypatch, tmp_path, os_release=release.encode())
    assert look.system() == system


@pytest.mark.parametrize(
    ("variable", "on"),
    [
        (b"\x06\0\0\0\x01", True),
        (b"\x06\0\0\0\x01\0", True),
        (b"\x06\0\0\0\0", False),
        (b"\x06\0\0\0\0\x01", False),
        (b"\x01\x01\x01\x01", False),
        (None, False),
    ],
)
def test_secure_boot_is_the_fifth_byte(look: Any, monkeypatch: Any, tmp_path: Path, variable: bytes | None, *, on: bool) -> None:
    opened(look, monkeypatch, tmp_path, **({} if variable is None else {"SecureBoot": variable}))
    assert look.secure_boot() is on


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"sig_enforce": b"N\n", "lockdown": b"[none] integrity confidentiality\n"}, ""),
        ({"sig_enforce": b"Y\n", "lockdown": b"[none] integrity confidentiality\n"}, "signed modules only (module.sig_enforce=1), and"),
        ({"sig_enforce": b"N\n", "lockdown": b"none [integrity] confidentiality\n"}, "signed modules only (lockdown=integrity), and"),
        ({"sig_enforce": b"Y\n", "lockdown": b"none integrity [confidentiality]\n"}, "=1 and lockdown=confidentiality)"),
        ({}, ""),
    ],
)
def test_a_kernel_that_takes_signed_modules_only_says_by_which_of_its_options(
    look: Any, monkeypatch: Any, tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    opened(look, monkeypatch, tmp_path, **files)
    assert said in look.signed_only()
    assert bool(look.signed_only()) is bool(said)


# --- drivers that others have put on the host


@pytest.fixture
def drivers(look: Any, host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is said of a host with these packages and the log of NVIDIA's installer."""

    def said(packages: dict[str, str], log: bytes = b"") -> Any:
        monkeypatch.setattr(look, "open", host.open, raising=False)
        host.write("/var/lib/nvidia/log", log)
        monkeypatch.setattr(look, "installed_packages", lambda: packages)
        return look.of_others("580")

    return said


def test_a_driver_of_the_run_installer_is_refused_with_how_it_is_removed(drivers: Any) -> None:
    problems, replaced = drivers(
        {"bash": "5.2"}, b"1.0-5701330 (570.133.20)\nNVIDIA Accelerated Graphics Driver for Linux-x86_64\n1: /usr/a\n"
    )
    assert (len(problems), replaced) == (1, [])
    assert "has put the driver 570.133.20 here" in problems[0]
    assert "`sudo nvidia-uninstall`, or `sudo sh NVIDIA-Linux-x86_64-570.133.20.run --uninstall`" in problems[0]
    assert drivers({"bash": "5.2"}) == ([], [])


@pytest.mark.parametrize(
    ("packages", "named"),
    [
        ({"akmod-nvidia": "570.1", "xorg-x11-drv-nvidia": "570.1", "kmod-nvidia-5.14": "570.1"}, "akmod-nvidia xorg-x11-drv-nvidia"),
        (
            {"kmod-nvidia": "580.95.05", "nvidia-x11-drv": "580.95.05", "nvidia-x11-drv-libs": "580.95.05"},
            "nvidia-x11-drv nvidia-x11-drv-libs",
        ),
    ],
)
def test_a_driver_of_another_vendor_is_refused_with_the_packages_to_remove(drivers: Any, packages: dict[str, str], named: str) -> None:
    """NVIDIA's own conflict with them: https://github.com/NVIDIA/yum-packaging-nvidia-driver/blob/main/nvidia-driver.spec."""
    problems, replaced = drivers(packages)
    assert (f"`sudo dnf remove {named} 'kmod-nvidia*'`" in problems[0], len(problems), replaced) == (True, 1, [])


def test_another_branch_in_packages_is_said_to_be_replaced(drivers: Any) -> None:
    ubuntu = {"nvidia-driver-535": "535.183.01-0ubuntu1", "libnvidia-compute-535": "535.183.01-0ubuntu1", "nvidia-driver-assistant": "0.20"}
    problems, replaced = drivers(ubuntu)
    said = "(libnvidia-compute-535 535.183.01-0ubuntu1, nvidia-driver-535 535.183.01-0ubuntu1): that of 580 takes its place"
    assert (problems, [said in words for words in replaced]) == ([], [True])
    ours = {
        "kmod-nvidia-open-dkms": "580.95.05",
        "nvidia-driver": "3:580.95.05-1",
        "nvidia-container-toolkit": "1.18.0",
        "libnvidia-nscq": "570.1",
    }
    assert drivers(ours) == ([], [])


def test_a_driver_of_others_matters_where_ours_is_installed(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(here.module.AnsibleModule, "warn", lambda _, words: told.append(words))
    monkeypatch.setattr(here.module, "of_others", lambda branch: ([f"no {branch}"], []))
    assert not here.call().get("failed")
    assert here.call(branch="580")["msg"] == "no 580"
    monkeypatch.setattr(here.module, "of_others", lambda _: ([], ["replaced"]))
    assert not here.call(branch="580").get("failed")
    assert told == ["replaced"]


def test_that_matters_where_modules_are_built(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here.module, "signed_only", lambda: "the kernel loads signed modules only")
    assert not here.call().get("failed")
    assert here.call(modules=True)["msg"] == "the kernel loads signed modules only"


@pytest.mark.parametrize(("folders", "said"), [(["/opt"], "/opt is"), (["/opt", "/usr/local"], "/opt and /usr/local are")])
def test_folders_of_programs_that_are_noexec_are_a_reason(
    here: Any, monkeypatch: pytest.MonkeyPatch, folders: list[str], said: str
) -> None:
    bare = SimpleNamespace(f_bavail=5 * 1024, f_frsize=MIB, f_flag=os.ST_NOEXEC)
    fine = SimpleNamespace(f_bavail=5 * 1024, f_frsize=MIB, f_flag=0)
    monkeypatch.setattr(os.path, "isdir", lambda path: path in {"/opt", "/usr/local", "/var/lib/dpkg"})
    monkeypatch.setattr(os, "statvfs", lambda path: bare if path in {*folders, "/var/lib/dkms"} else fine)
    assert here.call()["msg"].startswith(f"{said} mounted noexec, and programs run from there: `mount -o remount,exec`")
    monkeypatch.setattr(os, "statvfs", lambda _: fine)
    assert not here.call().get("failed")


def test_a_temporary_folder_that_is_noexec_is_a_warning(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    monkeypatch.setattr(look.tempfile, "gettempdir", lambda: "/")
    assert look.warnings()[0].startswith("/ is mounted noexec: builds of pip and installers fail there; set TMPDIR")


def test_a_hardened_image_is_warned_of_with_what_to_do(look: Any, programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"/proc/sys/crypto/fips_enabled": "1", "/sys/class/dmi/id/product_name": "Google Compute Engine"}
    monkeypatch.setattr(look, "text_of", lambda path: texts.get(path, ""))
    monkeypatch.setattr(look, "noexec", lambda _: "")
    runs = ["/run/fapolicyd.pid"]
    known = ("fapolicyd", "gpuprov/first-boot")
    monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: path in runs if any(k in path for k in known) else real(path))
    said = look.warnings()
    assert [words.partition(":")[0] for words in said] == [
        "FIPS mode is on",
        "there is no cloud-init",
        "there is no Google guest agent",
        "fapolicyd runs",
    ]
    runs.append("/var/lib/gpuprov/first-boot")  # a script did what cloud-init does elsewhere
    assert not any("cloud-init" in words for words in look.warnings())
    for name in ("cloud-init", "google_guest_agent"):
        programs(name, "exit 0")
    texts.pop("/proc/sys/crypto/fips_enabled")
    runs.clear()
    assert look.warnings() == []


@pytest.mark.parametrize(
    ("hooks", "path", "warned"),
    [
        ([{"path": "/usr/bin/nvidia-container-runtime-hook", "args": ["x", "prestart"]}], "system.slice:docker:3f2a", True),
        ([{"path": "/usr/bin/nvidia-container-runtime-hook"}], "/docker/3f2a", False),  # not systemd's
        ([{"path": "/usr/bin/nvidia-cdi-hook"}], "system.slice:docker:3f2a", False),
        ([], "system.slice:docker:3f2a", False),
    ],
)
def test_running_containers_that_a_reload_of_units_takes_the_gpus_from_are_told_of_before(
    look: Any, host: Host, monkeypatch: pytest.MonkeyPatch, hooks: list[dict[str, Any]], path: str, *, warned: bool
) -> None:
    """What containerd keeps of them: NVIDIA's stable.go adds the hook, and docker's oci_linux.go the place in systemd's cgroups."""
    monkeypatch.setattr(look, "open", host.open, raising=False)
    spec = json.dumps({"hooks": {"prestart": hooks}, "linux": {"cgroupsPath": path}}, separators=(",", ":"))
    host.write("/run/containerd/io.containerd.runtime.v2.task/moby/3f2a/config.json", spec.encode())
    host.write("/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby/4b/config.json", b"{}")
    said = [words for words in look.warnings() if words.startswith("containers have GPUs of NVIDIA's legacy mode (1 running)")]
    assert bool(said) is warned


def test_a_warning_reaches_ansible_and_stops_nothing(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(here.module, "warnings", lambda: ["FIPS mode is on: x"])
    monkeypatch.setattr(here.module.AnsibleModule, "warn", lambda _, words: told.append(words))
    assert not here.call().get("failed")
    assert told == ["FIPS mode is on: x"]


def test_an_agent_that_holds_the_lock_of_the_packages_is_named_with_how_to_keep_it_off(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "holder_of", lambda _: "amazon-ssm-agen (process 7)")
    assert "by amazon-ssm-agen (process 7) for more than -1 s: it is AWS Systems Manager, patching" in look.package_managers(-1)
    monkeypatch.setattr(look, "holder_of", lambda _: "vi (process 8)")
    assert look.package_managers(-1).endswith("wait for it, or end it")


@pytest.mark.parametrize(("code", "said"), [(0, ""), (1, "cloud-init failed: see"), (2, ""), (None, "")])
def test_cloud_init_that_failed_is_a_reason_and_errors_that_it_recovered_from_are_none(
    look: Any, programs: Any, monkeypatch: pytest.MonkeyPatch, code: int | None, said: str
) -> None:
    monkeypatch.setattr(look, "text_of", lambda _: '{"v1": {"errors": ["x"]}}')
    if code is not None:
        programs("cloud-init", f'[ "$*" = "status --wait" ] && exit {code}; exit 1')
    assert look.cloud_init(5).startswith(said)
    assert bool(look.cloud_init(5)) is bool(said)


def test_cloud_init_that_has_ended_well_is_not_asked(look: Any, programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs("cloud-init", "exit 1")
    monkeypatch.setattr(look, "text_of", {"/run/cloud-init/result.json": '{\n "v1": {\n  "errors": []\n }\n}'}.__getitem__)
    assert look.cloud_init(5) == ""


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("echo '  Candidate: 6.8.0'", []),
        ("echo '  Candidate: (none)'", ["x"]),
        ("true", ["x"]),
        ("echo broken; exit 100", []),  # it cannot be asked
    ],
)
def test_a_package_without_a_candidate_is_missing(look: Any, programs: Any, monkeypatch: Any, answer: str, missing: list[str]) -> None:
    programs("apt-cache", f'[ "$*" = "policy x" ] || exit 9\n{answer}')
    monkeypatch.setattr(look.glob, "glob", lambda pattern: ["a_Packages"] if pattern == "/var/lib/apt/lists/*_Packages*" else [])
    assert look.without_candidate(["x"]) == missing
    monkeypatch.setattr(look.glob, "glob", lambda _: [])
    assert look.without_candidate(["x"]) == [], "no lists yet"


# --- a running kernel without headers, with the repositories of this system

RUNNING = "6.1.0-1-cloud-amd64"  # of no repository any more


@pytest.fixture
def kernel(look: Any, programs: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module on a host with these packages in its repositories: apt's answers in apt's words."""

    def on(packages: dict[str, str]) -> Any:
        lines = [
            f"'policy {name}') echo '  Candidate: 1';;\n'depends {name}') echo '  Depends: {needs}';;" for name, needs in packages.items()
        ]
        programs("apt-cache", 'case "$*" in\n' + "\n".join(lines) + "\nesac")
        monkeypatch.setattr(look.glob, "glob", lambda _: ["a_Packages"])
        return look

    return on


DEBIAN = {"linux-headers-cloud-amd64": "linux-headers-6.1.0-56-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64": "linux-base"}


@pytest.mark.parametrize(
    ("packages", "headers", "answer"),
    [
        ({**DEBIAN, f"linux-headers-{RUNNING}": "x"}, ["linux-headers-cloud-amd64"], ([f"linux-headers-{RUNNING}"], False)),
        (DEBIAN, ["linux-headers-cloud-amd64"], (["linux-image-6.1.0-56-cloud-amd64"], True)),
        (
            {**DEBIAN, "linux-headers-generic": "linux-headers-6.8.0-1"},
            ["linux-headers-generic", "linux-headers-cloud-amd64"],
            (["linux-image-6.1.0-56-cloud-amd64"], True),
        ),
        (DEBIAN, [], ([], False)),
    ],
)
def test_a_running_kernel_without_headers_gets_them_or_the_newest_image(
    kernel: Any, packages: dict[str, str], headers: list[str], answer: tuple[list[str], bool]
) -> None:
    assert kernel(packages).for_the_kernel(headers, RUNNING) == (*answer, "")


def test_a_running_kernel_that_can_have_neither_is_refused_before_anything_is_downloaded(kernel: Any, here: Any) -> None:
    module = kernel({"linux-headers-cloud-amd64": "linux-headers-6.1.0-56-cloud-amd64"})
    said = module.for_the_kernel(["linux-headers-cloud-amd64"], RUNNING)[2]
    assert said == (
        f"the running kernel {RUNNING} has no headers here, and no repository has linux-headers-{RUNNING}: "
        "boot a kernel of the system's own repositories"
    )
    assert "has no headers here" in here.call(modules=True, headers=["linux-headers-cloud-amd64"])["msg"]
    assert not here.call(headers=["linux-headers-cloud-amd64"]).get("failed")


def test_a_kernel_with_headers_a_stand_in_and_a_host_without_lists_need_nothing(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = kernel(DEBIAN)
    for there in (f"/lib/modules/{RUNNING}/build/Makefile", "/etc/gpuprov-rehearsal"):
        monkeypatch.setattr(os.path, "exists", there.__eq__)
        assert module.for_the_kernel(["linux-headers-cloud-amd64"], RUNNING) == ([], False, "")
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    monkeypatch.setattr(module.glob, "glob", lambda _: [])
    assert module.for_the_kernel(["linux-headers-cloud-amd64"], RUNNING) == ([], False, "")


def test_the_image_is_announced_and_reaches_the_role(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(here.module, "for_the_kernel", lambda *_: (["linux-image-9"], True, ""))
    monkeypatch.setattr(here.module.AnsibleModule, "warn", lambda _, words: told.append(words))
    assert here.call()["ansible_facts"]["kernel_packages"] == ["linux-image-9"]
    assert told[0].endswith(": linux-image-9 is installed, and the host is rebooted once if it has a GPU")


@pytest.mark.parametrize(
    ("headers", "has", "answer"),
    [
        ("kernel-devel-matched", "kernel-devel-5.14.0-1.x86_64", (["kernel-devel-5.14.0-1.x86_64"], False, "")),
        ("kernel-devel-matched", "none", (["kernel-0:6.12-9.x86_64"], True, "")),
        ("kernel6.12-devel", "none", (["kernel6.12-0:6.12-9.x86_64"], True, "")),
    ],
)
def test_dnf_is_asked_for_the_headers_of_the_kernel_too(look: Any, programs: Any, headers: str, has: str, answer: Any) -> None:
    devel = headers.removesuffix("-matched")
    newest = f"*'--latest-limit=1 {devel}') echo {devel}-0:6.12-9.x86_64;;"
    programs("dnf", f"case \"$*\" in\n*'--available {has}') echo {has};;\n{newest}\nesac")
    assert look.for_the_kernel([headers], "5.14.0-1.x86_64") == answer


def test_apt_itself_names_the_image_that_goes_with_the_headers(look: Any) -> None:
    """The package lists of this machine: the newest kernel of a real Debian or Ubuntu."""
    flavour = {"debian": "cloud-amd64", "ubuntu": "generic"}[rootfs.system().split()[0]]
    if look.candidate(f"linux-headers-{flavour}") is not True:
        pytest.skip("this machine has no package lists")
    packages, image, problem = look.for_the_kernel([f"linux-headers-{flavour}"], "1.0-of-nobody")
    assert (image, problem, len(packages)) == (True, "", 1)
    assert re.fullmatch(rf"linux-image-\d\S+-{flavour}", packages[0])


@pytest.mark.parametrize(("answer", "missing"), [("echo x-1", []), ("printf '\\377'", []), ("true", ["x"]), ("exit 1", [])])
def test_dnf_is_asked_where_there_is_no_apt(look: Any, programs: Any, answer: str, missing: list[str]) -> None:
    assert look.without_candidate(["x"]) == [], "neither of them"
    programs("dnf", f'[ "$*" = "--quiet repoquery --whatprovides x" ] || exit 9\n{answer}')
    assert look.without_candidate(["x"]) == missing


def test_a_lock_is_held_by_a_process_or_by_nobody(look: Any, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert look.holder_of(str(path)) is None
    path.touch()
    assert look.holder_of(str(path)) is None
    program = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        held = look.holder_of(str(path))
        assert held == "another process" or held.endswith(f"(process {other.pid})")
        other.communicate()


def test_a_lock_that_is_held_is_waited_for_and_then_named(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, slept=0.0)
    monkeypatch.setattr(look.time, "monotonic", lambda: clock.now)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        clock.slept += seconds

    monkeypatch.setattr(look.time, "sleep", sleep)
    monkeypatch.setattr(look, "holder_of", lambda path: "apt (process 7)" if "frontend" in path and clock.now < 10 else None)
    assert (look.package_managers(20), clock.slept) == ("", 10)
    clock.now = 0.0
    assert (
        look.package_managers(4) == "/var/lib/dpkg/lock-frontend has been held by apt (process 7) for more than 4 s: wait for it, or end it"
    )
    assert clock.now == 6, "a lock that is free at the bound passes"


@pytest.mark.parametrize(("program", "name"), [("dnf5", "dnf5"), ("dnf-3", "dnf"), (None, "dnf")])
def test_a_link_to_dnf5_is_dnf5(look: Any, tmp_path: Path, monkeypatch: Any, program: str | None, name: str) -> None:
    monkeypatch.setattr(look.shutil, "which", lambda tool: str(tmp_path / "dnf") if (tool, bool(program)) == ("dnf", True) else None)
    if program:
        (tmp_path / "dnf").symlink_to(program)
    assert look.package_manager() == name


def test_each_package_is_asked_for_by_itself(look: Any, programs: Any) -> None:
    programs("dnf", 'if [ "$4" = here ]; then echo here-1; fi')
    assert look.without_candidate(["gone", "here", "lost", "here"]) == ["gone", "lost"]


def test_the_holder_of_a_lock_is_named_as_the_kernel_lists_it(look: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.touch()
    inode = path.stat().st_ino
    locks = f"1: POSIX  ADVISORY  WRITE 6 08:01:{inode + 1} 0 EOF\n2: POSIX  ADVISORY  WRITE 7 08:01:{inode} 0 EOF\n"
    files = {"/proc/locks": locks, "/proc/7/comm": "apt\n"}

    def refuse(*_: Any) -> None:
        raise BlockingIOError

    monkeypatch.setattr(look.fcntl, "lockf", refuse)
    monkeypatch.setattr(look, "open", lambda name, *_, **__: io.StringIO(files.get(name, "")), raising=False)
    assert look.holder_of(str(path)) == "apt (process 7)"

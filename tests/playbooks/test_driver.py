"""The module driver: held, built for every kernel with headers, loaded where there is a GPU; each failure says why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from provision.converge.failure import failed_task

from .conftest import Host, Modules

KERNELS = ("6.8.0-1", "6.8.0-2")


class Rig:
    """The module with a folder of kernels and a bus of its own."""

    def __init__(self, modules: Modules, tmp_path: Path) -> None:
        self.modules, self.host, self.root = modules, modules.host, tmp_path / "root"
        self.module = modules.load("modules.driver")
        self.tools = {"/usr/bin/apt-mark"}
        self.version: str | None = None
        self.owners = {"nvidia"}
        self.next_boot = KERNELS[1]
        patch = modules.monkeypatch.setattr
        patch(self.module, "loaded_version", lambda: self.version)
        patch(self.module, "on_the_bus", lambda: self.owners)
        patch(self.module, "next_boot", lambda: self.next_boot)
        patch(self.module, "kernels", lambda: list(KERNELS))
        patch(self.module, "has_module", lambda kernel: (self.root / kernel).exists())
        patch(self.module, "log", lambda: "the end of the log")
        patch(self.module.os, "uname", lambda: os.uname_result(("Linux", "h", KERNELS[0], "v", "x86_64")))
        patch(os.path, "exists", lambda path, real=os.path.exists: path in self.tools if str(path).startswith("/usr/bin/") else real(path))
        self.root.mkdir()
        self.host.answers["modinfo"] = (0, "580.95.05\n")

    def built(self, *kernels: str) -> None:
        for kernel in kernels:
            (self.root / kernel).touch()

    def call(self, *packages: str, check: bool = False, signed: bool = False) -> dict[str, Any]:
        return self.modules.call("driver", check=check, module="nvidia", packages=list(packages), signed=signed)


@pytest.fixture
def rig(modules: Modules, tmp_path: Path) -> Rig:
    made = Rig(modules, tmp_path)
    made.built(*KERNELS)
    return made


def test_packages_are_held_by_apt_once_and_an_undo_lets_them_go(rig: Rig) -> None:
    rig.owners = set()
    rig.host.answers["apt-mark showhold"] = (0, "held\n")
    assert rig.call("held", "new", "new-arch:amd64")["changes"] == ["apt-mark hold new new-arch:amd64"]
    assert rig.modules.record("nvidia_driver")["undo"] == [["apt-mark", "unhold", "new", "new-arch:amd64"]]
    rig.call("new", "new-arch:amd64", "held")
    assert len(rig.modules.record("nvidia_driver")["undo"]) == 1
    rig.host.answers["apt-mark showhold"] = (0, "held\nnew\nnew-arch\n")
    assert (rig.call("held", "new", "new-arch:amd64")["changed"], rig.call()["changes"]) == (False, [])


def test_packages_are_held_by_dnf_where_there_is_no_apt(rig: Rig) -> None:
    rig.owners, rig.tools = set(), {"/usr/bin/dnf"}
    rig.host.answers["dnf --quiet versionlock list"] = (0, "held-3:580.1-1.*\n")
    assert rig.call("held", "new")["changes"] == ["dnf --assumeyes --quiet versionlock add new"]
    assert rig.modules.record("nvidia_driver")["undo"] == [["dnf", "--assumeyes", "--quiet", "versionlock", "delete", "new"]]
    assert rig.call("held")["changes"] == []
    # A name that is the beginning of a locked one is not locked with it.
    rig.host.answers["dnf --quiet versionlock list"] = (0, "nvidia-driver-cuda-3:580.1-1.*\nnvidia-kmod-580.1-1.*\nplain\n")
    assert rig.call("nvidia-driver", "kmod", "nvidia-kmod", "plain")["changes"] == [
        "dnf --assumeyes --quiet versionlock add nvidia-driver kmod"
    ]
    rig.tools = set()
    assert rig.call("new")["changes"] == []


def test_a_kernel_without_the_module_gets_it_or_the_run_stops_with_the_log(rig: Rig) -> None:
    rig.owners = set()
    (rig.root / KERNELS[1]).unlink()
    answer = rig.call()
    assert answer["msg"] == f"DKMS built no module for kernel {KERNELS[1]}: the end of the log"
    assert rig.host.ran[-1] == f"dkms autoinstall -k {KERNELS[1]}"
    real = rig.host.run

    def build(argv: list[str]) -> tuple[int, str]:
        rig.built(argv[-1])
        return real(argv)

    rig.host.run = build  # type: ignore[method-assign]
    (rig.root / KERNELS[1]).unlink(missing_ok=True)
    answer = rig.call()
    assert (answer["changes"], answer["kernels"], answer["reboot"]) == ([f"dkms autoinstall -k {KERNELS[1]}"], list(KERNELS), False)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("Error! Bad return status for module build on kernel: 6.8.0-2 (x86_64)\nConsult make.log\n", "the end of the log"),
        (
            "Sign command: x\nError! Your kernel headers for kernel 6.8.0-2 cannot be found.\nError! More\n",
            "Error! Your kernel headers for",
        ),
    ],
)
def test_a_build_that_never_began_is_told_by_what_dkms_prints(rig: Rig, printed: str, said: str) -> None:
    (rig.root / KERNELS[1]).unlink()
    rig.host.answers["dkms autoinstall"] = (11, printed)
    answer = rig.call()
    assert answer["msg"].startswith(f"DKMS built no module for kernel 6.8.0-2: {said}")
    assert answer["dkms"] == printed


def test_a_module_of_somebody_else_that_does_not_build_stops_nothing(rig: Rig) -> None:
    (rig.root / KERNELS[1]).unlink()

    def build(argv: list[str], real: Any = rig.host.run) -> tuple[int, str]:
        rig.built(*[word for word in argv if word == KERNELS[1]])
        return (11, "zfs failed\n") if argv[0] == "dkms" else real(argv)

    rig.host.run = build  # type: ignore[method-assign]
    assert rig.call()["kernels"] == list(KERNELS)


def test_a_dry_run_says_what_it_would_do(rig: Rig) -> None:
    (rig.root / KERNELS[1]).unlink()
    answer = rig.call("new", check=True)
    assert answer["changes"] == ["apt-mark hold new", f"dkms autoinstall -k {KERNELS[1]}"]
    assert (answer["kernels"], rig.host.ran) == (list(KERNELS), ["apt-mark showhold"])
    assert not (rig.modules.folder / "changes").exists()


def test_a_command_that_fails_stops_the_run(rig: Rig) -> None:
    rig.host.answers["apt-mark hold"] = (100, "no lock\n")
    assert rig.call("new")["msg"] == "`apt-mark hold new` failed with 100: no lock"


def loads(rig: Rig) -> list[str]:
    return [line for line in rig.host.ran if line.startswith(("modprobe", "systemctl"))]


def test_the_module_is_loaded_where_there_is_a_gpu_and_it_is_not(rig: Rig) -> None:
    assert rig.call()["changes"] == ["modprobe nvidia"]
    rig.host.ran.clear()
    rig.version = "580.95.05"
    assert (rig.call()["changed"], loads(rig)) == (False, [])
    rig.version, rig.owners = None, set()
    assert (rig.call()["changed"], loads(rig)) == (False, [])
    rig.owners = {""}
    assert (rig.call(check=True)["changed"], loads(rig)) == (False, [])


def test_another_version_is_unloaded_first_or_takes_a_reboot(rig: Rig) -> None:
    rig.version = "570.1"
    answer = rig.call()
    unload = ["systemctl stop nvidia-persistenced.service", "modprobe --remove nvidia_uvm nvidia_drm nvidia_modeset nvidia"]
    assert (answer["changes"], answer["reboot"], loads(rig)) == (["modprobe nvidia"], False, [*unload, "modprobe nvidia"])
    rig.host.ran.clear()
    rig.host.answers["modprobe --remove"] = (1, "in use")
    answer = rig.call()
    assert (answer["changes"], answer["reboot"], loads(rig)) == ([], True, unload)


def test_a_running_kernel_without_headers_is_left_by_a_reboot_where_the_next_one_has_the_module(rig: Rig) -> None:
    rig.modules.monkeypatch.setattr(rig.module, "kernels", lambda: [KERNELS[1]])
    answer = rig.call()
    assert (answer["changes"], answer["reboot"], loads(rig)) == ([], True, [])


@pytest.mark.parametrize(("newest", "said"), [(KERNELS[0], KERNELS[0]), ("6.8.0-3", "6.8.0-3"), (None, "unknown")])
def test_and_is_refused_with_what_to_install_where_the_next_boot_has_no_module_either(rig: Rig, newest: str, said: str) -> None:
    rig.modules.monkeypatch.setattr(rig.module, "kernels", lambda: [KERNELS[1]])
    rig.next_boot = newest
    assert rig.call()["msg"] == (
        f"the running kernel 6.8.0-1 has no headers here, and the newest kernel that can be booted is {said}; "
        "the module is built for 6.8.0-2: install the headers of one of the two, then run this again"
    )


@pytest.mark.parametrize("busy", [False, True])
def test_nouveau_is_unloaded_or_takes_a_reboot(rig: Rig, *, busy: bool) -> None:
    rig.owners = {"nouveau", ""}
    rig.host.answers["modprobe --remove nouveau"] = (int(busy), "modprobe: FATAL: Module nouveau is in use.")
    rig.host.answers["modprobe nvidia"] = (int(busy), "modprobe: ERROR: could not insert 'nvidia': No such device")
    answer = rig.call()
    assert (answer["reboot"], loads(rig)[-1]) == (busy, "modprobe --remove nouveau" if busy else "modprobe nvidia")
    rig.host.ran.clear()
    assert (rig.call(check=True)["reboot"], loads(rig)) == (False, [])


def test_what_a_reboot_did_not_change_takes_no_other_reboot(rig: Rig, tmp_path: Path) -> None:
    """The file of the role is older than the boot, or younger."""
    rig.owners = {"nouveau"}
    rig.host.answers["modprobe --remove nouveau"] = (1, "modprobe: FATAL: Module nouveau is in use.")
    (tmp_path / "nouveau.conf").touch()
    rig.modules.monkeypatch.setattr(rig.module, "NOUVEAU", str(tmp_path / "nouveau.conf"))
    rig.modules.monkeypatch.setattr(rig.module, "UPTIME", str(tmp_path / "uptime"))
    (tmp_path / "uptime").write_text("3600.00 7000.00\n")
    assert rig.call()["reboot"] is True
    (tmp_path / "uptime").write_text("-1.00 0.00\n")
    assert rig.call()["msg"].startswith(f"nouveau has the card although {tmp_path}/nouveau.conf was there when the host booted")


def test_cards_that_are_all_kept_for_virtual_machines_are_named_with_their_owner(rig: Rig) -> None:
    rig.owners = {"vfio-pci"}
    assert rig.call()["msg"].startswith("vfio-pci has every card, for virtual machines: take the cards out of its ids")
    rig.owners = {"vfio-pci", "nvidia"}
    assert rig.call()["changes"] == ["modprobe nvidia"]


@pytest.fixture
def signed(rig: Rig, tmp_path: Path) -> Rig:
    """A host without headers, whose newest kernel alone has the module."""
    (rig.root / KERNELS[0]).unlink()
    patch = rig.modules.monkeypatch.setattr
    patch(rig.module, "kernels", list)
    patch(rig.module, "installed", lambda: list(KERNELS))
    patch(rig.module, "DKMS", str(tmp_path / "dkms"))
    return rig


def test_a_signed_module_is_not_built_and_the_kernel_that_it_came_with_is_booted(signed: Rig) -> None:
    answer = signed.call(signed=True)
    assert (answer["changes"], answer["kernels"], answer["reboot"]) == ([], [KERNELS[1]], True)
    assert not [line for line in signed.host.ran if line.startswith("dkms")]
    signed.built(KERNELS[0])
    answer = signed.call(signed=True)
    assert (answer["changes"], answer["kernels"], answer["reboot"]) == (["modprobe nvidia"], list(KERNELS), False)


def test_a_signed_module_takes_no_second_reboot_that_would_bring_the_same_kernel(signed: Rig, tmp_path: Path) -> None:
    image = tmp_path / f"vmlinuz-{KERNELS[1]}"
    image.touch()
    patch, exists = signed.modules.monkeypatch.setattr, signed.module.was_there_at_boot
    patch(signed.module, "was_there_at_boot", lambda path: exists(path.replace("/boot", str(tmp_path))))
    patch(signed.module, "UPTIME", str(tmp_path / "uptime"))
    (tmp_path / "uptime").write_text("3600.00 7000.00\n")
    assert signed.call(signed=True)["reboot"] is True
    (tmp_path / "uptime").write_text("-1.00 0.00\n")
    assert signed.call(signed=True)["msg"].startswith(
        f"the host booted {KERNELS[0]}, which has no signed module, although {KERNELS[1]} was"
    )
    signed.next_boot = "6.8.0-3"  # newer, and of a flavour that has none
    assert signed.call(signed=True)["msg"].endswith(
        f"the module is built for {KERNELS[1]}: install the signed module of one of the two, then run this again"
    )


def test_a_module_is_built_unless_it_is_said_to_come_signed(signed: Rig) -> None:
    assert "the module is built for none: " in signed.modules.call("driver", module="nvidia")["msg"]


def test_a_host_without_the_signed_module_or_with_one_of_dkms_is_refused(signed: Rig, tmp_path: Path) -> None:
    (tmp_path / "dkms/nvidia").mkdir(parents=True)
    assert signed.call(signed=True)["msg"].startswith("DKMS has nvidia, which comes before the signed module: `gpuprov undo`")
    (tmp_path / "dkms/nvidia").rmdir()
    (signed.root / KERNELS[1]).unlink()
    assert signed.call(signed=True)["msg"] == f"no kernel has the signed module; the kernels are {', '.join(KERNELS)}"
    assert signed.call(signed=True, check=True)["kernels"] == []


# --- what it sees of the host


@pytest.fixture
def driver(host: Host) -> Any:
    return host.load("driver")


def test_kernels_with_headers_are_those_with_a_makefile(driver: Any, host: Host) -> None:
    for kernel, name in (("b", "Makefile"), ("a", "Makefile"), ("c", "other")):
        host.write(f"/lib/modules/{kernel}/build/{name}", b"")
    assert driver.kernels() == ["a", "b"]


def test_every_kernel_is_installed_with_headers_or_without(driver: Any, host: Host) -> None:
    for path in ("6.8.0-2/build/Makefile", "6.8.0-1/kernel/x.ko", "not-a-folder"):
        host.write(f"/lib/modules/{path}", b"")
    assert driver.installed() == ["6.8.0-1", "6.8.0-2"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nvidia.ko", True),
        ("nvidia.ko.xz", True),
        ("nvidia.ko.zst", True),
        ("nvidia.ko.gz", True),
        ("nvidia-current.ko", True),
        ("nvidia-current-open.ko.xz", True),
        ("nvidia-uvm.ko", False),
        ("nvidia.ko.bz2", False),
        ("nvidia_shm.ko", False),
        ("other-nvidia.ko", False),
    ],
)
def test_the_module_is_told_by_its_name_wherever_it_lies(driver: Any, monkeypatch: pytest.MonkeyPatch, name: str, *, found: bool) -> None:
    monkeypatch.setattr(os, "walk", lambda path: [(path, ["x"], ["y.ko"]), (f"{path}/x", [], [name])] if path == "/lib/modules/6.8" else [])
    assert driver.has_module("6.8") is found
    assert driver.has_module("6.9") is False


def test_the_log_says_its_first_error_and_where_it_lies(driver: Any, host: Host) -> None:
    assert driver.log().startswith("there is no log")
    for age, name in ((2, "one"), (1, "new"), (3, "old")):
        path = host.write(f"/var/lib/dkms/nvidia/{name}/build/make.log", f"CC nv.o -Werror=x: y\nend of {name}\n\n".encode())
        os.utime(path, (9 - age, 9 - age))
    new = host.below("/var/lib/dkms/nvidia/new/build/make.log")
    os.utime(host.write("/var/lib/dkms/zfs/2/build/make.log", b"of another module"), (20, 20))
    assert driver.log() == f"end of new ({new})"
    host.write("/var/lib/dkms/nvidia/new/build/make.log", b"")
    assert driver.log() == f"it is empty ({new})"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        # The kernel of Ubuntu 22.04 for AWS with the compiler of the system (compiler-explorer/infra 1722).
        (
            "  gcc-12 -Werror=date-time -c nv.c\ncc: error: unrecognized command-line option '-ftrivial-auto-var-init'\nmake: *** Error 1",
            "cc: error: unrecognized command-line option '-ftrivial-auto-var-init'",
        ),
        ("/bin/sh: 1: gcc-12: not found\nmake: *** [Makefile:1] Error 127", "/bin/sh: 1: gcc-12: not found"),
        (f"/{'x' * 200}/nvidia-drm.c:9:1: fatal error: drm/drmP.h: gone\n", "/nvidia-drm.c:9:1: fatal error: drm/drmP.h: gone"),
        ('ERROR: modpost: "foo" [nvidia.ko] undefined!\n', 'ERROR: modpost: "foo" [nvidia.ko] undefined!'),
    ],
)
def test_the_reason_of_a_failed_build_is_whole_in_what_apply_says(driver: Any, host: Host, lines: str, said: str) -> None:
    host.write("/var/lib/dkms/nvidia/580.95.05/build/make.log", f"DKMS make.log\n{lines}\n".encode())
    result = {"msg": f"DKMS built no module for kernel 6.8.0-1020-aws: {driver.log().replace(str(host.root), '')}"}
    error = failed_task("nvidia_driver", "Hold the driver", result, run_dir="/run")
    assert f"{said} (/var/lib/dkms/nvidia/580.95.05/build/make.log)" in error.message
    assert error.kind == "module-build"


def test_the_next_boot_takes_the_newest_kernel_that_has_an_image(driver: Any, host: Host) -> None:
    assert driver.next_boot() is None
    for path in (
        "boot/vmlinuz-6.8.0-9-generic",
        "boot/vmlinuz-6.8.0-10-generic",
        "boot/vmlinuz-0-rescue-99",
        "lib/modules/6.8.0-11/build/Makefile",
    ):
        host.write(f"/{path}", b"")
    assert driver.next_boot() == "6.8.0-10-generic"
    host.write("/lib/modules/6.12.0-1.el10/vmlinuz", b"")
    assert driver.next_boot() == "6.12.0-1.el10"


@pytest.mark.parametrize(
    ("vendor", "kind", "there"),
    [("0x10de", "0x030200", True), ("0x10de", "0x030000", True), ("0x10de", "0x040300", False), ("0x1234", "0x030000", False)],
)
def test_a_device_counts_by_vendor_and_class_and_has_a_driver_or_none(
    driver: Any, host: Host, vendor: str, kind: str, *, there: bool
) -> None:
    for slot, words in (("0000:00:01.0", ("0x8086", "0x030000")), ("0000:00:02.0", (vendor, kind))):
        for name, word in zip(("vendor", "class"), words, strict=True):
            host.write(f"/sys/bus/pci/devices/{slot}/{name}", f"{word}\n".encode())
    assert driver.on_the_bus() == ({""} if there else set())
    Path(host.below("/sys/bus/pci/devices/0000:00:02.0/driver")).symlink_to("/sys/bus/pci/drivers/nouveau")
    assert driver.on_the_bus() == ({"nouveau"} if there else set())


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n", "580.95.05"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.12  Tue\n", "615.12"),
        ("something else\n", None),
        (None, None),
    ],
)
def test_the_loaded_version_is_the_drivers_word(driver: Any, host: Host, text: str | None, version: str | None) -> None:
    if text is not None:
        host.write("/proc/driver/nvidia/version", text.encode())
    assert driver.loaded_version() == version


def test_an_unloading_that_works_and_speaks_takes_no_reboot_and_one_that_fails_in_silence_does(rig: Rig) -> None:
    rig.version = "570.1"
    rig.host.answers["modprobe --remove"] = (0, "a warning")
    answer = rig.call()
    assert (answer["changed"], answer["reboot"], loads(rig)[-1]) == (True, False, "modprobe nvidia")
    rig.host.answers["modprobe --remove"] = (1, "")
    assert rig.call()["reboot"] is True
    rig.version = "580.95.05"
    assert rig.call()["reboot"] is False
    rig.owners = set()
    assert rig.call()["reboot"] is False

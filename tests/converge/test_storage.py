"""The data disk on a real host over its life: made, kept over a reboot, made anew by the boot after a stop, and left alone by an undo."""

from __future__ import annotations

import datetime as dt
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.converge.progress import ConvergeResult, Progress
from provision.converge.run import converge, undo
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import rootfs

if TYPE_CHECKING:
    from .conftest import Lab

MOUNT = "/mnt/my-data"  # whose unit has an escaped name
UNIT = r"'mnt-my\x2ddata.mount'"
STORE = "$(readlink -f /dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS*-ns-1)"
SEEN = f"findmnt -no SOURCE,FSTYPE {MOUNT}; stat -c %U {MOUNT}; sudo ls {MOUNT}"
OURS = "/dev/nvme2n1 ext4\nubuntu\nlost+found"
SILENT_ONCE = """\
#!/bin/sh
text=$(cat)
case $text in *'find the data disk'*) rm "$0"; exec >/dev/null ;; esac
printf '%s\n' "$text" | /bin/sh "$@"
"""


def asked(profile: Profile, **data: Any) -> Profile:
    plain = profile.dump()
    plain["disks"]["data"] = {"source": "instance-store", "mount": MOUNT, **data}
    return Profile.model_validate(plain)


def run(lab: Lab, profile: Profile, folder: Path, **more: Any) -> ConvergeResult:
    lock = build(profile, dt.date(2026, 11, 21), system=rootfs.system())
    fixed: dict[str, Any] = {"lock": lock, "run_dir": folder, "login": "ubuntu", "on_progress": lambda _: None}
    return converge(lab.target, profile, ["storage"], **fixed | more)


@pytest.mark.rehearsal
class TestLife:
    """In the order in which a host lives."""

    def test_a_dry_run_says_what_will_be_done_and_does_nothing(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        told: list[Progress] = []
        predicted = run(lab, asked(profile), tmp_path, check=True, diff=True, on_progress=told.append)
        assert [name.partition(": ")[2] or name for name in predicted.changed_tasks] == [
            "Find the disk, and stripe and format blank disks",
            "Mount the disk now and at each boot",
            "Say at login whether the data survives a stop",
        ]
        assert f"+Where={MOUNT}" in "".join(progress.diff for progress in told)
        assert lab.shell(f"sudo blkid -p {STORE}; test -e /usr/local/lib/gpuprov/data || echo nothing") == "nothing"

    def test_it_does_what_it_said_once(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        assert run(lab, asked(profile), tmp_path / "first").changed == 3
        assert lab.shell(SEEN) == OURS
        assert lab.shell("cat /etc/motd.d/gpuprov-storage") == f"{MOUNT} is inside the machine, and empty after each stop."
        assert run(lab, asked(profile), tmp_path / "again").changed_tasks == ()
        assert run(lab, asked(profile), tmp_path / "dry", check=True).changed_tasks == ()

    def test_what_ansible_lost_of_the_script_s_words_is_asked_for_again(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        """As Ansible does on a very busy host (its issue 51393): exit code 0, and not a word. A shell that stands in once does it here."""
        lab.shell(f"printf %s {shlex.quote(SILENT_ONCE)} | sudo tee /usr/local/bin/sh >/dev/null; sudo chmod 755 /usr/local/bin/sh")
        assert run(lab, asked(profile), tmp_path).changed_tasks == ()
        assert lab.shell("ls /usr/local/bin/sh", check=False) == ""

    def test_a_reboot_keeps_the_data(self, lab: Lab) -> None:
        lab.shell(f"echo precious > {MOUNT}/keep")
        before = lab.shell(f"sudo blkid -p -o value -s UUID {STORE}")
        lab.reboot()
        assert lab.shell(f"systemctl is-active --wait {UNIT}; cat {MOUNT}/keep") == "active\nprecious"
        assert lab.shell(f"sudo blkid -p -o value -s UUID {STORE}") == before

    def test_a_stop_wipes_it_and_the_boot_makes_it_anew(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        before = lab.shell("ls /dev/disk/by-id")
        lab.stop_and_start()
        assert lab.shell("ls /dev/disk/by-id") != before
        lab.shell("systemctl is-system-running --wait", check=False)
        assert lab.shell(SEEN) == OURS
        assert lab.shell(f"sudo blkid -p -o value -s LABEL {STORE}") == "gpuprov-data"
        assert run(lab, asked(profile), tmp_path).changed_tasks == ()

    @pytest.mark.parametrize(
        ("make", "says"),
        [(f"mkfs.xfs -q -f {STORE}", "holds xfs"), (f"mkswap {STORE}", "holds swap"), (f"mkfs.ext4 -q {STORE}", "")],
        ids=["xfs", "swap", "unlabelled-ours"],
    )
    def test_a_boot_formats_no_disk_that_holds_anything(self, lab: Lab, make: str, says: str) -> None:
        lab.shell(f'sudo sh -c "systemctl stop {UNIT}; wipefs -qa {STORE}; {make} >/dev/null"')
        before = lab.shell(f"sudo blkid -p -o export {STORE}")  # with the UUID that formatting would replace
        lab.reboot()
        lab.shell("systemctl is-system-running --wait", check=False)
        assert lab.shell(f"sudo blkid -p -o export {STORE}") == before
        said = lab.shell("sudo journalctl -b -u gpuprov-data.service -o cat")
        mounted = lab.shell(f"findmnt -no FSTYPE {MOUNT}", check=False)
        assert (says in said and "Nothing was formatted" in said) if says else mounted == "ext4"
        assert bool(mounted) != bool(says)

    def test_undo_leaves_the_disk_as_it_is(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        lab.shell(f"echo precious | sudo tee {MOUNT}/keep")
        undo(lab.target, ["storage"], run_dir=tmp_path / "undo", on_progress=lambda _: None)
        left = lab.shell(
            f"ls /etc/systemd/system/*data* /usr/local/lib/gpuprov; findmnt {MOUNT}; systemctl is-active gpuprov-data", check=False
        )
        assert left == "inactive"
        assert lab.shell(f"sudo mount {STORE} /mnt && sudo cat /mnt/keep && sudo umount /mnt") == "precious"
        lab.reboot()
        assert lab.shell(f"findmnt {MOUNT}", check=False) == ""
        run(lab, asked(profile), tmp_path / "back")
        assert lab.shell(f"cat {MOUNT}/keep; stat -c %U {MOUNT}") == "precious\nubuntu"

    def test_xfs_is_made_anew_as_well(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        lab.shell(f'sudo sh -c "systemctl stop {UNIT}; wipefs -qa {STORE}"')
        xfs = asked(profile, filesystem="xfs")
        assert run(lab, xfs, tmp_path / "first").changed == 2
        lab.stop_and_start()
        lab.shell("systemctl is-system-running --wait", check=False)
        assert lab.shell(SEEN) == "/dev/nvme2n1 xfs\nubuntu"
        assert run(lab, xfs, tmp_path / "again").changed_tasks == ()

    def test_a_volume_is_mounted_by_its_id_and_never_made_by_a_boot(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        volume = asked(profile, source="volume", size_gb=1)
        lab.shell(f"sudo systemctl stop {UNIT}")
        run(lab, volume, tmp_path / "first")
        assert lab.shell(SEEN) == "/dev/nvme1n1 ext4\nubuntu\nlost+found"
        assert lab.shell(f"systemctl show -P What {UNIT}; ls /usr/local/lib/gpuprov/data", check=False) == "/dev/nvme1n1"
        lab.stop_and_start()
        lab.shell("systemctl is-system-running --wait", check=False)
        assert lab.shell(SEEN) == "/dev/nvme1n1 ext4\nubuntu\nlost+found"
        assert run(lab, volume, tmp_path / "again").changed_tasks == ()

    def test_without_a_data_disk_it_looks_at_the_root_alone(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        plain = profile.dump()
        plain["disks"]["data"] = None
        assert run(lab, Profile.model_validate(plain), tmp_path).changed_tasks == ()

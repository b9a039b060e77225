"""What the storage role's scripts decide, by tables: which disks, which commands. Those that look are stand-ins; none that acts is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from provision.paths import playbooks_dir

TEMPLATES = playbooks_dir() / "roles" / "storage" / "templates"
EXT4, XFS, OURS = "TYPE=ext4", "TYPE=xfs", "LABEL=gpuprov-data\nTYPE=ext4"
MEMBER, OTHERS = "LABEL=ip-10-0-0-7:gpuprov-data\nTYPE=linux_raid_member", "LABEL=nas:0\nTYPE=linux_raid_member"
TABLE, BLANK = "PTTYPE=gpt", ""
STRIPE = "run mdadm --create /dev/md/gpuprov-data --level=0 --raid-devices=%d %s"
FORMAT = "run mkfs.ext4 -q -L gpuprov-data %s"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Ansible writes them."""
    folder = tmp_path_factory.mktemp("scripts")

    def written(source: str, name: str, template: str) -> dict[str, object]:
        content = "{{ lookup('ansible.builtin.template', '" + str(TEMPLATES / template) + "') }}"
        told = {"storage_source": source, "storage_mount": "/data/", "storage_filesystem": "ext4", "storage_owner": "ubuntu; reboot"}
        return {"ansible.builtin.copy": {"content": content, "dest": str(folder / name), "mode": "0755"}, "vars": told}

    tasks = [written(s, s, "data.sh.j2") for s in ("instance-store", "volume")] + [written("volume", "root", "root.sh.j2")]
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    tool = Path(sys.executable).parent / "ansible-playbook"
    environment = {**os.environ, "HOME": str(folder), "ANSIBLE_HOME": str(folder), "LC_ALL": "C.UTF-8"}
    argv = [str(tool), "-i", "localhost,", "-c", "local", str(folder / "play.yml")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment, cwd=playbooks_dir())
    assert done.returncode == 0, done.stdout
    return folder


def plan(script: Path, folder: Path, tools: dict[str, str], *moved: str) -> tuple[int, str, str]:
    """Run `script plan` with these commands in place of the host's, and the folders of the host that it looks into moved below `folder`."""
    text = script.read_text()
    for path in moved:
        text = text.replace(path, f"{folder}{path}")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in ("mdadm", "mkfs.ext4", "growpart", "resize2fs", "xfs_growfs", "mount", "chown"):
        tools.setdefault(name, f"echo {name} >> {folder}/acted")
    for name, body in tools.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin_folder / name).chmod(0o755)
    environment = {"PATH": f"{bin_folder}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-s", "plan"], input=text, check=False, capture_output=True, text=True, env=environment)
    assert not (folder / "acted").exists(), "a plan acts"
    return done.returncode, done.stdout, done.stderr.strip()


def disks(folder: Path, held: dict[str, str], kind: str = "EC2_NVMe_Instance_Storage_AWS") -> dict[str, str]:
    """Disks with their links, as EC2 names them; the words are what blkid says of them."""
    by_id = folder / "dev/disk/by-id"
    by_id.mkdir(parents=True)
    (folder / "holders").mkdir()
    cases = ""
    for number, (name, said) in enumerate(held.items()):
        (folder / "dev" / name).touch()
        for suffix in ("", "-ns-1", "_1"):
            (by_id / f"nvme-Amazon_{kind}{9 - number}{suffix}").symlink_to(f"../../{name}")
        (by_id / f"nvme-Amazon_{kind}{9 - number}-part1").symlink_to(f"../../{name}p1")
        code = 8 if said == "AMBIVALENT" else 0 if said else 2
        cases += f"*/{name}) printf '%s' '{said if code == 0 else ''}'; exit {code} ;;\n"
    return {"blkid": f'for last in "$@"; do :; done\ncase $last in\n{cases}esac', "findmnt": "echo overlay /", "blockdev": "echo 1024"}


@pytest.mark.parametrize(
    ("held", "does"),
    [
        ({"a": BLANK}, [FORMAT % "@a"]),
        ({"a": OURS}, []),
        ({"a": EXT4}, []),
        ({"b": BLANK, "a": BLANK}, [STRIPE % (2, "@a @b"), FORMAT % "/dev/md/gpuprov-data"]),
        (
            {"h": "", "g": "", "f": "", "e": "", "d": "", "c": "", "b": "", "a": ""},
            [STRIPE % (8, "@a @b @c @d @e @f @g @h"), FORMAT % "/dev/md/gpuprov-data"],
        ),
        ({"b": BLANK, "a": OURS}, []),  # what holds data is not striped away
        ({"b": OURS, "a": EXT4}, []),
        ({"b": BLANK, "a": XFS}, [FORMAT % "@b"]),
        ({"c": BLANK, "b": BLANK, "a": TABLE}, [STRIPE % (2, "@b @c"), FORMAT % "/dev/md/gpuprov-data"]),
        ({"b": MEMBER, "a": MEMBER}, ["run mdadm --assemble /dev/md/gpuprov-data @a @b"]),
        ({"c": BLANK, "b": MEMBER, "a": MEMBER}, ["run mdadm --assemble /dev/md/gpuprov-data @a @b"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_blank_disks_are_striped_or_formatted_and_no_others(scripts: Path, tmp_path: Path, held: dict[str, str], does: list[str]) -> None:
    code, out, err = plan(scripts / "instance-store", tmp_path, disks(tmp_path, held), "/dev/disk/by-id", "/sys/class/block")
    assert (code, err) == (0, "")
    *run, last = out.splitlines()
    assert run == [line.replace("@", f"{tmp_path}/dev/") for line in does]
    assert last == f"use /run/gpuprov/data {len(held)}"


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({}, "this host has no instance-store disk"),
        ({"a": XFS}, "/dev/a holds xfs. Nothing was formatted"),
        ({"a": "TYPE=swap"}, "holds swap"),
        ({"a": OTHERS}, "holds linux_raid_member"),
        ({"a": TABLE}, "holds a partition table"),
        ({"a": "AMBIVALENT"}, "contradict"),
        ({"b": XFS, "a": TABLE}, "holds a partition table; "),
    ],
    ids=lambda value: "-".join(value.values()) or None if isinstance(value, dict) else None,
)
def test_what_is_neither_blank_nor_ours_is_refused(scripts: Path, tmp_path: Path, held: dict[str, str], says: str) -> None:
    code, out, err = plan(scripts / "instance-store", tmp_path, disks(tmp_path, held), "/dev/disk/by-id")
    assert (code, out) == (3, "")
    assert says in err
    assert "\n" not in err


def test_a_disk_that_cannot_be_read_is_not_blank(scripts: Path, tmp_path: Path) -> None:
    tools = disks(tmp_path, {"a": BLANK}) | {"blkid": "echo 'error: Permission denied' >&2; exit 2"}
    code, out, err = plan(scripts / "instance-store", tmp_path, tools, "/dev/disk/by-id")
    assert (code, out) == (3, "")
    assert "cannot be read (error: Permission denied)" in err


@pytest.mark.parametrize(
    ("where", "says"),
    [("/data", None), ("/data2", "mounted on /data2"), ("/mnt", "mounted on /mnt")],
)
def test_a_disk_that_is_mounted_elsewhere_is_refused(scripts: Path, tmp_path: Path, where: str, says: str | None) -> None:
    tools = disks(tmp_path, {"nvme1n1": OURS}) | {"findmnt": f"echo {tmp_path}/dev/nvme1n10 /other; echo {tmp_path}/dev/nvme1n1 {where}"}
    code, _, err = plan(scripts / "instance-store", tmp_path, tools, "/dev/disk/by-id")
    assert code == (3 if says else 0)
    assert (says or "") in err


def test_a_disk_whose_partition_is_mounted_is_refused(scripts: Path, tmp_path: Path) -> None:
    tools = disks(tmp_path, {"nvme1n1": BLANK}) | {"findmnt": f"echo {tmp_path}/dev/nvme1n1p1 /boot"}
    code, _, err = plan(scripts / "instance-store", tmp_path, tools, "/dev/disk/by-id")
    assert code == 3
    assert "a partition of it is mounted" in err


@pytest.mark.parametrize(
    ("holds", "sectors", "says"),
    [
        (OURS, 1024, "use /run/gpuprov/data 2"),
        (BLANK, 1024, FORMAT % "/dev/md127"),  # a run that ended between the stripe and its file system
        (XFS, 1024, "holds xfs. Nothing was formatted"),
        (BLANK, 0, "lacks a disk"),
    ],
    ids=["ours", "blank", "foreign", "not-whole"],
)
def test_an_assembled_stripe_is_looked_at_like_a_disk(scripts: Path, tmp_path: Path, holds: str, sectors: int, says: str) -> None:
    tools = disks(tmp_path, {"b": MEMBER, "a": MEMBER, "md127": holds})
    for link in (tmp_path / "dev/disk/by-id").glob("*AWS7*"):  # the stripe itself has none
        link.unlink()
    for name in "ab":
        (tmp_path / f"sys/class/block/{name}/holders/md127").mkdir(parents=True)
    tools["blockdev"] = f"echo {sectors}"
    code, out, err = plan(scripts / "instance-store", tmp_path, tools, "/dev/disk/by-id", "/sys/class/block")
    assert code == (0 if says.startswith(("use", "run")) else 3)
    assert says in (err if code else out.splitlines())
    assert ("run " in out) == says.startswith("run")


def test_volumes_are_never_striped_and_named_by_their_id(scripts: Path, tmp_path: Path) -> None:
    tools = disks(tmp_path, {"b": BLANK, "a": BLANK}, "Elastic_Block_Store_vol")
    code, out, _ = plan(scripts / "volume", tmp_path, tools, "/dev/disk/by-id")
    by_id = f"{tmp_path}/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol8"
    assert (code, out) == (0, f"{FORMAT % f'{tmp_path}/dev/a'}\nuse {by_id} 2\n")


GIB = 2**21  # sectors


@pytest.mark.parametrize(
    ("root", "sizes", "does"),
    [
        # root: its kind and the size of its file system; sizes: the disk, then start and size of the root partition, then of others
        (("ext4", 197 * GIB), (200 * GIB, 2048, 200 * GIB - 4096), []),
        (("ext4", 7.8 * GIB), (200 * GIB, 2048, 8 * GIB), ["growpart /dev/nvme0n1 1", "resize2fs /dev/nvme0n1p1"]),
        (("xfs", 7.8 * GIB), (200 * GIB, 2048, 8 * GIB), ["growpart /dev/nvme0n1 1", "xfs_growfs /"]),
        (("ext4", 8 * GIB), (200 * GIB, 2048, 200 * GIB - 4096), ["resize2fs /dev/nvme0n1p1"]),
        (("ext4", 7.8 * GIB), (200 * GIB, 4096, 8 * GIB, 4096 + 8 * GIB, GIB), []),  # another partition is in the way
        (("ext4", 196 * GIB), (200 * GIB, GIB, 199 * GIB - 4096, 2048, GIB - 4096), []),  # /boot before it is not
        (("ext4", 7.8 * GIB), (200 * GIB, None, None), []),  # no partition
        (("overlay", 7.8 * GIB), (200 * GIB, 2048, 8 * GIB), []),
        (("btrfs", 7.8 * GIB), (200 * GIB, 2048, 8 * GIB), []),
    ],
)
def test_a_root_grows_as_far_as_it_can(
    scripts: Path, tmp_path: Path, root: tuple[str, float], sizes: tuple[int | None, ...], does: list[str]
) -> None:
    kind, file_system = root
    disk = tmp_path / "sys/devices/nvme0n1"
    (disk / "nvme0n1p1").mkdir(parents=True)
    (disk / "size").write_text(f"{sizes[0]}\n")
    if sizes[1] is not None:
        (disk / "nvme0n1p1/partition").write_text("1\n")
    for number, index in enumerate(range(1, len(sizes), 2), start=1):
        folder = disk / f"nvme0n1p{number}"
        folder.mkdir(exist_ok=True)
        (folder / "start").write_text(f"{sizes[index]}\n")
        (folder / "size").write_text(f"{sizes[index + 1]}\n")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/259:1").symlink_to("../../devices/nvme0n1/nvme0n1p1")
    tools = {"findmnt": f"case $* in *FSTYPE*) echo {kind} ;; *) echo 259:1 ;; esac", "stat": f"echo '{int(file_system) // 8} * 4096'"}
    code, out, err = plan(scripts / "root", tmp_path, tools, "/sys/dev/block")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"run {line}" for line in does]

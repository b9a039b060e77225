"""The disks of a host: sparse files behind loop devices, with the names that a cloud gives them."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from provision.rehearsal.programs import run
from provision.structs import Struct, replace

IMAGES: Final = "images"
"""The folder of the images that were made of hosts, within that of the hosts."""
# The link of a disk in /dev/disk/by-id, from its number (volumes count first, from 0), a serial number, and whether it is ephemeral.
LinkName = Callable[[int, str, bool], str]


class HostDisk(Struct):
    """One disk: its file, the loop device on this machine, and its node and stable name in the host."""

    file: Path
    loop: str
    node: str
    link: str
    ephemeral: bool


def attach(folder: Path, *, instance_store_gb: int, volume_gb: tuple[int, ...], link: LinkName, stores: int = 1) -> list[HostDisk]:
    """Make the disks that a `HostSpec` describes in its host's folder; nvme0n1 would be its root, so they begin with nvme1n1."""
    inside = [(instance_store_gb // stores, True)] * stores if instance_store_gb else []
    disks = []
    for number, (size_gb, ephemeral) in enumerate([*((size, False) for size in volume_gb), *inside], start=1):
        name = link(number - 1, _serial(f"{folder.name}-{number}"), ephemeral)
        file = folder / f"disk{number}.img"
        _blank(file, size_gb * 10**9)  # instance stores are counted in powers of ten
        loop = run("losetup", "--find", "--show", str(file)).stdout.strip()
        disks.append(HostDisk(file, loop, f"nvme{number}n1", name, ephemeral))
    return disks


def _blank(file: Path, size: int) -> None:
    file.write_bytes(b"")
    os.truncate(file, size)


def wipe_instance_store(disks: list[HostDisk], link: LinkName) -> list[HostDisk]:
    """The disks after a stop: the ephemeral ones are blank and have other serial numbers, because the next start is on another machine."""
    for disk in disks:
        if disk.ephemeral:
            _blank(disk.file, disk.file.stat().st_size)
            # The loop device remembers the size at its attachment, and pages of the old content.
            run("losetup", "--set-capacity", disk.loop, check=False)
            run("blockdev", "--flushbufs", disk.loop, check=False)
    return [
        replace(disk, link=link(number, _serial(disk.link), True)) if disk.ephemeral else disk  # noqa: FBT003
        for number, disk in enumerate(disks)
    ]


def _serial(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()[:17].upper()


def detach(disks: list[HostDisk]) -> None:
    """Let go of the loop devices; the files go with the host's folder."""
    for disk in disks:
        run("losetup", "--detach", disk.loop, check=False)


def present(folder: Path) -> list[str]:
    """The names of the loop devices over files below a folder."""
    output = run("losetup", "--list", "--json").stdout
    devices = json.loads(output or '{"loopdevices": []}')["loopdevices"]
    return [str(device["name"]) for device in devices if str(device["back-file"]).startswith(f"{folder}/")]


def sweep(folder: Path) -> None:
    """Detach the loop devices over files below a folder."""
    for name in present(folder):
        run("losetup", "--detach", name, check=False)

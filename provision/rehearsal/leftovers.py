"""What a rehearsal has on this machine, and the removal of what one leaves when it is killed."""

import shutil
import time
from pathlib import Path

from provision.rehearsal import cgroups, disks, network
from provision.rehearsal.disks import IMAGES


def present(folder: Path) -> list[str]:
    """What the rehearsal with its hosts in this folder has on this machine, in words; nothing of any other one."""
    return [
        *(f"processes of {name}" for name in cgroups.present(folder)),
        *(f"link {name}" for name in network.present(folder)),
        *(f"loop device {name}" for name in disks.present(folder)),
        *(f"files of {path.name}" for path in (*_hosts(folder), *_images(folder))),
    ]


def _hosts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if (path / "upper").is_dir()) if folder.is_dir() else []


def _images(folder: Path) -> list[Path]:
    return sorted((folder / IMAGES).iterdir()) if (folder / IMAGES).is_dir() else []


def sweep(folder: Path) -> list[str]:
    """Remove what an earlier rehearsal with its hosts in this folder left behind; returns what, in words."""
    removed = present(folder)
    cgroups.sweep(folder)
    network.sweep(folder)
    time.sleep(0.05 if removed else 0)  # the kernel lets go of a killed host's mounts a moment later
    disks.sweep(folder)
    for path in _hosts(folder):
        shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder / IMAGES, ignore_errors=True)
    return removed

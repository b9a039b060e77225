"""What a rehearsal leaves on this machine when it is killed, and its removal."""

import shutil
import time
from pathlib import Path

from provision.rehearsal import cgroups, disks, network


def sweep(folder: Path) -> list[str]:
    """Remove what an earlier rehearsal with its hosts in this folder left behind; returns what, in words."""
    removed = [*cgroups.sweep(folder), *network.sweep(folder)]
    time.sleep(0.05 if removed else 0)  # the kernel lets go of a killed host's mounts a moment later
    removed += disks.sweep(folder)
    for path in folder.iterdir() if folder.is_dir() else ():
        if (path / "upper").is_dir():
            shutil.rmtree(path, ignore_errors=True)
            removed.append(f"files of {path.name}")
    return removed

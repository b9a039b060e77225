"""A control group for each host, so that its systemd sees its own tree and one write ends everything in it."""

import contextlib
import errno
import hashlib
import os
import time
from pathlib import Path
from typing import Final

_ROOTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


def _root() -> Path | None:
    """Where the cgroup2 hierarchy is mounted: /sys/fs/cgroup, or .../unified on a hybrid machine."""
    return next((path for path in _ROOTS if (path / "cgroup.controllers").exists()), None)


def _prefix(owner: Path) -> str:
    return f"gpuprov-{hashlib.sha256(str(owner).encode()).hexdigest()[:12]}-"


def make(owner: Path, name: str) -> Path:
    """Make a group for one boot of a host of the rehearsal in the folder `owner`.

    Raises:
        OSError: there is no hierarchy, or it cannot be written.
    """
    root = _root()
    if root is None:
        raise FileNotFoundError(errno.ENOENT, f"no cgroup2 hierarchy is mounted on {_ROOTS[0]}")
    group = root / (_prefix(owner) + name)
    group.mkdir(exist_ok=True)
    return group


def remove(group: Path) -> None:
    """End the processes of a group and remove it with its children."""
    if not group.is_dir():
        return
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")
    for _ in range(100):
        # From the leaves up; os.walk passes over a folder that somebody else removes at the same time.
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if not group.is_dir():
            return
        time.sleep(0.02)


def present(owner: Path) -> list[str]:
    """The hosts of this folder's rehearsal that have a group."""
    root = _root()
    return sorted(group.name.removeprefix(_prefix(owner)) for group in root.glob(_prefix(owner) + "*")) if root else []


def sweep(owner: Path) -> None:
    """Remove the groups that an earlier rehearsal of this folder left behind, with their processes."""
    root = _root()
    for group in root.glob(_prefix(owner) + "*") if root else ():
        remove(group)

"""`lock`: write the lock of a profile, or check the one that is there."""

from __future__ import annotations

from pathlib import Path

from provision.errors import LockInvalidError, LockStaleError
from provision.profile import lockfile
from provision.profile.locked import Lock


def check_lock(path: Path, fresh: Lock, name: str) -> Lock:
    """Read the lock file of a profile, and see that it says what would be locked today.

    Args:
        path: the lock file.
        fresh: what would be locked today.
        name: the profile, as the user named it.

    Raises:
        LockInvalidError: it is missing, or was changed by hand.
        LockStaleError: it would come out otherwise; with all differences.
    """
    lock = lockfile.read(path)
    differences = lockfile.stale(lock, fresh)
    if differences:
        msg = "\n  ".join([f"{path} is stale ({len(differences)} differences)", *differences])
        raise LockStaleError(msg, hint=f"`gpuprov lock {name}` writes it again")
    return lock


def write_lock(path: Path, fresh: Lock) -> list[str]:
    """Write the lock file; returns what changed, a line each, and nothing where there was none that could be read.

    Raises:
        LockInvalidError: the file cannot be written.
    """
    try:
        changes = list(lockfile.changes(lockfile.read(path), fresh))
    except LockInvalidError:
        changes = []
    try:
        path.write_text(lockfile.dump(fresh))
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise LockInvalidError(msg, hint="name another file with --output") from error
    return changes

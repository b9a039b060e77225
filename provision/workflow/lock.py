"""`lock`: write the lock of a profile, or check the one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from provision.errors import LockInvalidError, LockStaleError
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.workflow.session import today


@dataclass(frozen=True, slots=True)
class FreshLock:
    """What a profile is locked to today.

    Attributes:
        name: the profile, as the user named it.
        path: where its lock file is, or would be.
    """

    name: str
    path: Path
    lock: Lock


def resolve_lock(name: str, output: Path | None) -> FreshLock:
    """Resolve a profile by name or file; without `output` its lock lies beside it.

    Raises:
        ProfileNotFoundError, ProfileInvalidError: there is none, or it does not hold.
        StackConflictError: it cannot be resolved.
    """
    path = load.find(name)
    return FreshLock(name, output or lockfile.path_for(path), build(load.load(path), today()))


def check_lock(fresh: FreshLock) -> Lock:
    """Read the lock file and see that it says what would be locked today.

    Raises:
        LockInvalidError: it is missing, or was changed by hand.
        LockStaleError: it would come out otherwise; with all differences.
    """
    lock = lockfile.read(fresh.path)
    differences = lockfile.stale(lock, fresh.lock)
    if differences:
        msg = "\n  ".join([f"{fresh.path} is stale ({len(differences)} differences)", *differences])
        raise LockStaleError(msg, hint=f"`gpuprov lock {fresh.name}` writes it again")
    return lock


def write_lock(fresh: FreshLock) -> list[str]:
    """Write the lock file; returns what changed, a line each, and nothing where there was none that could be read.

    Raises:
        LockInvalidError: the file cannot be written.
    """
    try:
        changes = list(lockfile.changes(lockfile.read(fresh.path), fresh.lock))
    except LockInvalidError:
        changes = []
    try:
        fresh.path.write_text(lockfile.dump(fresh.lock))
    except OSError as error:
        msg = f"cannot write {fresh.path}: {error.strerror}"
        raise LockInvalidError(msg, hint="name another file with --output") from error
    return changes

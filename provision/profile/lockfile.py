"""Lock files: canonical YAML beside the profile. The last line is the digest of the lock, so that a hand edit is noticed."""

import datetime as dt
import os
import shlex
from pathlib import Path
from typing import Final

import yaml
from pydantic import ValidationError

from provision.errors import LockInvalidError, LockStaleError
from provision.paths import read_bounded
from provision.profile import load, plain
from provision.profile.differences import compare
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.own import is_stale
from provision.profile.sentences import Case, sentence

_BOUNDS: Final = plain.Bounds(size=256 * 1024, depth=12, nodes=20_000)


def path_for(profile_path: Path) -> Path:
    """Where the lock of a profile lies: `t4-train.lock.yml` beside `t4-train.yml`."""
    return profile_path.with_name(f"{profile_path.stem}.lock.yml")


def dump(lock: Lock) -> str:
    """The lock as canonical YAML: keys in the order of the schema, one wheel a line, the digest last."""
    head = f"# Written by `gpuprov lock {lock.profile.name}`. To change it, change the profile and write it again.\n"
    body = yaml.safe_dump(lock.as_dict(), sort_keys=False, allow_unicode=True, width=10_000)
    return f"{head}{body}sha256: {lock.digest}\n"


def parse(text: str, origin: str) -> Lock:
    """Read a lock from its text.

    Raises:
        LockInvalidError: it is not a lock, or its digest is wrong.
    """
    hint = "write it again with `gpuprov lock`, or take it from version control"
    try:
        # libyaml builds nested nodes by recursion and expands aliases, so the events are looked at before.
        complaint = plain.foreign(text, _BOUNDS, "lock")
        if complaint:
            msg = f"{origin} is not a lock: line {complaint.line} {complaint.problem}"
            raise LockInvalidError(msg, hint=hint)
        data = yaml.load(text, Loader=plain.LOADER)  # noqa: S506 - both are safe loaders
        stated = data.pop("sha256")
        lock = Lock.model_validate(data)
        whole = lock.digest == stated
    except (yaml.YAMLError, ValueError, AttributeError, KeyError, TypeError) as error:
        msg = f"{origin} is not a lock: {_why_none(error)}"
        raise LockInvalidError(msg, hint=hint) from error
    if not whole:
        msg = f"{origin} was changed by hand: the digest in its last line is wrong"
        raise LockInvalidError(msg, hint=hint)
    return lock


def _why_none(error: Exception) -> str:
    """Why a text is not a lock, in our own words."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        key = plain.dotted(first["loc"])
        problem, _ = sentence(first["type"], Case(key=key.rpartition(".")[2], value=first["input"], what="lock"))
        return f"{key}: {problem}"
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return f"line {mark.line + 1} is not YAML" if mark else "it is not YAML"
    return "it holds a value that cannot be" if isinstance(error, ValueError | yaml.YAMLError) else "its last line has no digest"


def read(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        LockInvalidError: it is missing, too large, no lock, or edited.
    """
    try:
        text = read_bounded(path, _BOUNDS.size).decode()
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise LockInvalidError(msg, hint="`gpuprov lock PROFILE` writes one") from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 text"
        raise LockInvalidError(msg, hint="`gpuprov lock PROFILE` writes one") from error
    return parse(text, str(path))


def find(profile_path: Path, profile: Profile) -> Lock | None:
    """The lock beside a profile, or None when there is none.

    Raises:
        LockStaleError: the profile, or the file of its own packages, was changed after it was written.
        LockInvalidError: as for `read`.
    """
    path = path_for(profile_path)
    if not os.path.lexists(path):  # a link that leads nowhere is an error, not the absence of a lock
        return None
    lock = read(path)
    if lock.profile.sha256 != load.digest(profile):
        msg = f"{path} was written before {profile_path.name} was changed"
        raise LockStaleError(msg, hint=_again(profile_path))
    if lock.python is not None and is_stale(lock, profile_path):
        msg = f"{path} was written before {lock.python.file} was changed"
        raise LockStaleError(msg, hint=_again(profile_path))
    return lock


def _again(profile_path: Path) -> str:
    profile = shlex.quote(str(profile_path))
    return f"`gpuprov lock {profile} --check` shows what would change, and `gpuprov lock {profile}` writes it again"


def find_or_build(profile_path: Path, profile: Profile, today: dt.date) -> Lock:
    """The lock beside a profile, or a new one.

    Raises:
        LockStaleError, LockInvalidError: as for `find`.
        StackConflictError: there is none, and the profile cannot be resolved.
    """
    from provision.profile.lock import build  # noqa: PLC0415 - the resolver, which is not needed where there is a lock

    return find(profile_path, profile) or build(profile, today)


def stale(lock: Lock, fresh: Lock) -> list[str]:
    """The differences between a lock and a fresh one; the date of the catalog does not count."""
    return [str(difference) for difference in compare(lock.as_dict(), fresh.as_dict()) if difference.key != ("catalogue",)]


def changes(old: Lock, new: Lock) -> list[str]:
    """The differences between two locks, such as `driver.branch: 580 → 595`; for a list the entries added and removed."""
    return [str(difference) for difference in compare(old.as_dict(), new.as_dict())]

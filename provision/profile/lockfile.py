"""Lock files: canonical YAML beside the profile, read back whole or refused, and compared value by value.

The last line is the SHA-256 of everything above it, so that a hand edit is noticed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from provision.errors import LockInvalidError, LockStaleError
from provision.profile import load
from provision.profile.locked import Lock
from provision.profile.model import Profile

_MAX_BYTES: Final = 256 * 1024


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
        LockInvalidError: it is no lock, or its digest does not hold.
    """
    hint = "write it again with `gpuprov lock`, or take it from version control"
    try:
        plain = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
        stated = plain.pop("sha256")
        lock = Lock.model_validate(plain)
    except (yaml.YAMLError, ValidationError, AttributeError, KeyError, TypeError) as error:
        msg = f"{origin} is not a lock: {str(error).splitlines()[0]}"
        raise LockInvalidError(msg, hint=hint) from error
    if lock.digest != stated:
        msg = f"{origin} was changed by hand: its last line does not hold"
        raise LockInvalidError(msg, hint=hint)
    return lock


def read(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        LockInvalidError: it is missing, too large, no lock, or changed.
    """
    try:
        raw = path.read_bytes()[: _MAX_BYTES + 1]
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {path}: {error}"
        raise LockInvalidError(msg, hint="`gpuprov lock PROFILE` writes one") from error
    if len(raw) > _MAX_BYTES:
        msg = f"{path} is larger than {_MAX_BYTES // 1024} KiB"
        raise LockInvalidError(msg, hint="that is no lock of gpuprov")
    return parse(text, str(path))


def find(profile_path: Path, profile: Profile) -> Lock | None:
    """The lock beside a profile, or None when there is none.

    Raises:
        LockStaleError: it was written for another content of the profile.
        LockInvalidError: it does not hold.
    """
    path = path_for(profile_path)
    if not path.exists():
        return None
    lock = read(path)
    if lock.profile.sha256 != load.digest(profile):
        msg = f"{path} was written before {profile_path.name} was changed"
        raise LockStaleError(msg, hint=f"`gpuprov lock {profile.name}` writes it again; `gpuprov diff` shows what that changes")
    return lock


def find_or_build(profile_path: Path, profile: Profile, today: dt.date) -> Lock:
    """The lock beside a profile, or what would be locked now.

    Raises:
        LockStaleError, LockInvalidError: there is one, and it does not hold.
        StackConflictError: there is none, and none can be made.
    """
    from provision.profile.lock import build  # noqa: PLC0415 - the resolver, which who has a lock does not need

    return find(profile_path, profile) or build(profile, today)


def stale(lock: Lock, fresh: Lock) -> list[str]:
    """What differs between a lock and what would be locked now; the catalogue's date alone is no difference."""
    return [line for line in changes(lock, fresh) if not line.startswith("catalogue:")]


def changes(old: Lock, new: Lock) -> list[str]:
    """What differs between two locks, one line a value: `driver.branch: 580 → 595`; lists tell what came and went."""
    return differences(old.as_dict(), new.as_dict())


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two documents of plain data, in the words of `changes`."""
    return list(_compare("", dict(old), dict(new)))


def _compare(at: str, old: Any, new: Any) -> list[str]:
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(k for k in new if k not in old)]
        return [line for k in keys for line in _compare(f"{at}.{k}" if at else k, old.get(k), new.get(k))]
    if isinstance(old, list) and isinstance(new, list):
        gone, come = [x for x in old if x not in new], [x for x in new if x not in old]
        if all(isinstance(x, str) for x in [*gone, *come]):
            return _compare_texts(at, gone, come)
        if len(old) == len(new):
            return [line for n, pair in enumerate(zip(old, new, strict=True)) for line in _compare(f"{at}.{n}", *pair)]
        return [f"{at}: {len(old)} entries → {len(new)}"]
    return [f"{at}: {_word(old)} → {_word(new)}"]


def _compare_texts(at: str, gone: list[str], come: list[str]) -> list[str]:
    """Pins of the same package on one line, hashes left out unless they alone differ."""
    old = {t.partition("==")[0]: t for t in gone}
    new = {t.partition("==")[0]: t for t in come}
    lines = []
    for name in [*old, *(n for n in new if n not in old)]:
        before, after = old.get(name), new.get(name)
        if before and after and "==" in before:
            short = [t.partition(" --hash")[0].partition("==")[2] for t in (before, after)]
            lines.append(f"{at}: {name} {short[0]} → {short[1]}" + (" (other hashes)" if short[0] == short[1] else ""))
        else:
            lines += [f"{at}: {sign} {text.partition(' --hash')[0]}" for sign, text in (("-", before), ("+", after)) if text]
    return lines


def _word(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, dict):
        return str(value.get("version", f"{len(value)} values"))
    return str(value)

"""A review bundle: what is reviewed and signed, as a folder or as one file, and read back whole or refused.

Bundles may come from strangers. Only files that the statement names are accepted, each by its digest. A zip must be, byte for byte, what
`pack` makes of its files, so that no two programs can read it differently.
"""

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from provision.errors import BundleInvalidError
from provision.paths import read_bounded, write_whole
from provision.profile import load, lockfile
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.structs import Struct

STATEMENT: Final = "statement.json"
PRINCIPAL: Final = r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}"
_APPROVALS: Final = "approvals/"
_APPROVAL: Final = re.compile(rf"approvals/({PRINCIPAL})\.json(\.sig)?")
_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9._+@-]{0,119}"
_NAME: Final = re.compile(rf"(?:{_PART}/){{0,11}}{_PART}")
_MAX_FILES: Final = 2_000  # the folder of roles is the largest part
_MAX_FILE: Final = 8 * 1024 * 1024
_MAX_TOTAL: Final = 32 * 1024 * 1024
_MAX_APPROVAL: Final = 16 * 1024  # an RSA signature of 16384 bits takes 4 KiB
_MAX_APPROVALS: Final = 64  # each costs some runs of ssh-keygen
_MADE_BY_UNIX: Final = 3
_MODE: Final = stat.S_IFREG | 0o644
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name
_HINT: Final = "ask for the bundle again, or write it again with `gpuprov review`; a changed bundle must be signed again"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class StrictRecord(BaseModel):
    """A frozen record of a file, in which every key is known and has its type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class StatedDigest(StrictRecord):
    """A digest."""

    sha256: Sha256


class StatedProfile(StrictRecord):
    """Which profile: its name, and the digest of what it asks for (`profile.load.digest`)."""

    name: str
    sha256: Sha256


class Statement(StrictRecord):
    """What a signature is about; `files` has the SHA-256 of every file except the statement itself and the approvals."""

    schema_version: Annotated[Literal["gpuprov-statement/1"], Field(alias="schema")]
    profile: StatedProfile
    lock: StatedDigest
    policy: StatedDigest | None
    files: dict[str, Sha256]


class Bundle(Struct):
    """A bundle whose every part is what its statement says. `sign.py` decides whether its signatures count.

    Attributes:
        path: where it was read.
        files: every file that the statement names.
        statement_bytes: what is signed, through its digest.
        approvals: principal → the approval and its signature; None for a file that is missing.
    """

    path: Path
    files: Mapping[str, bytes]
    statement: Statement
    statement_bytes: bytes
    approvals: Mapping[str, tuple[bytes | None, bytes | None]]
    profile: Profile
    lock: Lock

    @property
    def digest(self) -> str:
        """SHA-256 of the statement, hexadecimal, as approvals name it."""
        return _sha256(self.statement_bytes)


def canonical(data: Any) -> bytes:
    """JSON as signatures are made over it: sorted keys, no spaces, a final newline, and UTF-8 where `provision.canonical` has ASCII."""
    return (json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n").encode()


def statement(profile: Profile, lock: Lock, policy: bytes | None, files: Mapping[str, bytes]) -> bytes:
    """The statement over a bundle's files, as bytes for `statement.json`. A statement and approvals among the files are ignored."""
    return canonical(
        {
            "schema": "gpuprov-statement/1",
            "profile": {"name": profile.name, "sha256": load.digest(profile)},
            "lock": {"sha256": lock.digest},
            "policy": None if policy is None else {"sha256": _sha256(policy)},
            "files": {name: _sha256(data) for name, data in files.items() if name != STATEMENT and not name.startswith(_APPROVALS)},
        }
    )


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files as one zip, stored, sorted by name, without dates: equal files make equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = _MADE_BY_UNIX
            entry.external_attr = _MODE << 16
            archive.writestr(entry, files[name])
    return out.getvalue()


def write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a bundle whole or not at all: one file when `path` ends in `.zip`, else a folder.

    An existing bundle is replaced; its approvals stay when the statement is the same.

    Raises:
        BundleInvalidError: `path` is something else, a name cannot be part of a bundle, or the disk refuses.
    """
    _check_names(path, files)
    if os.path.lexists(path):
        present = _read_files(path)
        if STATEMENT not in present:
            msg = f"{path} exists and is not a bundle"
            raise BundleInvalidError(msg, hint="name another folder or file")
        if present[STATEMENT] == files.get(STATEMENT):
            files = {**{name: data for name, data in present.items() if name.startswith(_APPROVALS)}, **files}
    try:
        _put(path, files)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise BundleInvalidError(msg, hint="name another folder or file") from error


def add(bundle: Bundle, files: Mapping[str, bytes]) -> None:
    """Add approvals to a bundle in its place; a file of the same name is replaced.

    Raises:
        BundleInvalidError: the disk refuses.
    """
    _check_names(bundle.path, files)
    try:
        if bundle.path.is_dir():
            for name, data in files.items():
                _put_file(bundle.path / name, data)
        else:
            _put_file(bundle.path, pack({**_read_zip(bundle.path), **files}))
    except OSError as error:
        msg = f"cannot write {bundle.path}: {error.strerror}"
        raise BundleInvalidError(msg, hint="copy the bundle to where you may write, and sign it there") from error


def read(path: Path) -> Bundle:
    """Read a bundle, a folder or a zip, and check every digest of its statement.

    Raises:
        BundleInvalidError: a part is missing, unknown or not what the statement says; the message names it.
        ProfileInvalidError: this version of gpuprov refuses its profile.
        LockInvalidError: this version of gpuprov refuses its lock.
    """
    files = _read_files(path)
    raw = files.pop(STATEMENT, None)
    if raw is None:
        raise _wrong(path, STATEMENT, "is missing, so that this is not a bundle")
    record = _statement(path, raw)
    approvals = {name: files.pop(name) for name in [*files] if name.startswith(_APPROVALS)}
    for name in sorted({*files, *record.files}):
        if name not in record.files:
            raise _wrong(path, name, f"is not named by {STATEMENT}")
        if name not in files:
            raise _wrong(path, name, f"is missing, and {STATEMENT} names it")
        if _sha256(files[name]) != record.files[name]:
            raise _wrong(path, name, f"is not what {STATEMENT} says")
    for name in ("profile.yml", "lock.yml"):
        if name not in files:
            raise _wrong(path, name, "is missing")
    profile = load.parse(files["profile.yml"], path / "profile.yml")
    lock = lockfile.parse(files["lock.yml"].decode(errors="replace"), f"{path}/lock.yml")
    _check_statement(path, record, profile, lock, files.get("policy.yml"))
    return Bundle(path, files, record, raw, _signatures(path, approvals), profile, lock)


def _check_statement(path: Path, record: Statement, profile: Profile, lock: Lock, policy: bytes | None) -> None:
    """Check that the digests of profile and lock agree with the files, and the files with each other."""
    if (record.profile.name, record.profile.sha256) != (profile.name, load.digest(profile)):
        raise _wrong(path, "profile.yml", f"asks for something else than {STATEMENT} says")
    if record.lock.sha256 != lock.digest:
        raise _wrong(path, "lock.yml", f"locks something else than {STATEMENT} says")
    if lock.profile.sha256 != record.profile.sha256:
        raise _wrong(path, "lock.yml", f"is the lock of another profile than {STATEMENT} names")
    places = {(p.cloud, r, p.instance_type, p.market) for p in profile.places for r in p.locations}
    locked_places = {(p.cloud, p.region, p.instance_type, p.market) for p in lock.places}
    target = (places, f"{profile.os.name} {profile.os.version}", profile.gpu.model, profile.gpu.counters)
    if target != (locked_places, lock.os, lock.gpu.model, lock.counters):
        raise _wrong(path, "lock.yml", "locks other places, another system, GPU or counters than the profile asks for")
    if (record.policy.sha256 if record.policy else None) != (None if policy is None else _sha256(policy)):
        raise _wrong(path, "policy.yml", f"is not the one that {STATEMENT} names")


def _statement(path: Path, raw: bytes) -> Statement:
    try:
        data = json.loads(raw)
        if canonical(data) != raw:
            raise _wrong(path, STATEMENT, "is not in its canonical form")
        return Statement.model_validate(data)
    except (ValueError, ValidationError, RecursionError) as error:
        raise _wrong(path, STATEMENT, "is not a statement") from error


def _signatures(path: Path, approvals: Mapping[str, bytes]) -> dict[str, tuple[bytes | None, bytes | None]]:
    principals: dict[str, None] = {}
    for name, data in approvals.items():
        match = _APPROVAL.fullmatch(name)
        if match is None:
            raise _wrong(path, name, "is not an approval")
        if len(data) > _MAX_APPROVAL:
            raise _wrong(path, name, f"is larger than {_MAX_APPROVAL // 1024} KiB")
        principals[match[1]] = None
        if len(principals) > _MAX_APPROVALS:
            raise _wrong(path, name, f"exceeds the limit of {_MAX_APPROVALS} approvals")
    return {p: (approvals.get(f"{_APPROVALS}{p}.json"), approvals.get(f"{_APPROVALS}{p}.json.sig")) for p in sorted(principals)}


def _read_files(path: Path) -> dict[str, bytes]:
    try:
        files = _read_folder(path) if path.is_dir() else _read_zip(path)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise BundleInvalidError(msg, hint="give the folder NAME.bundle or the file NAME.bundle.zip that `gpuprov review` wrote") from error
    _check_names(path, files)
    return files


def _read_folder(path: Path) -> dict[str, bytes]:
    """Only regular files, because a link could show the reviewer one thing and gpuprov another."""
    files: dict[str, bytes] = {}
    remaining = _MAX_TOTAL
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                name = Path(entry.path).relative_to(path).as_posix()
                if entry.is_dir(follow_symlinks=False):
                    _check_names(path, [f"{name}/x"])
                    folders.append(Path(entry.path))
                    continue
                if not entry.is_file(follow_symlinks=False):
                    raise _wrong(path, name, "is not a regular file")
                if len(files) >= _MAX_FILES:
                    raise _wrong(path, name, f"exceeds the limit of {_MAX_FILES} files")
                with os.fdopen(os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                    data = file.read(min(_MAX_FILE, remaining) + 1)
                if len(data) > min(_MAX_FILE, remaining):
                    raise _wrong(path, name, "is too large for a bundle")
                remaining -= len(data)
                files[name] = data
    return files


def _read_zip(path: Path) -> dict[str, bytes]:
    raw = read_bounded(path, _MAX_TOTAL)
    files: dict[str, bytes] = {}
    part = "the zip's directory"
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if len(archive.infolist()) > _MAX_FILES:
                raise _wrong(path, part, f"names more than {_MAX_FILES} files")
            if sum(entry.file_size for entry in archive.infolist()) > len(raw):
                raise _wrong(path, part, "names files that overlap")
            for entry in archive.infolist():
                part = entry.filename
                if part in files:
                    raise _wrong(path, part, "is there twice")
                if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > _MAX_FILE:
                    raise _wrong(path, part, "is compressed, or too large for a bundle")
                if stat.S_ISLNK(entry.external_attr >> 16) or part.endswith("/"):  # is_dir() needs a name
                    raise _wrong(path, part, "is not a regular file")
                files[part] = archive.read(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise _wrong(path, part, f"is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error
    _check_names(path, files)
    if pack(files) != raw:
        raise _wrong(path, _differing(raw, files), "is not packed as `gpuprov review` packs")
    return files


def _differing(raw: bytes, files: Mapping[str, bytes]) -> str:
    """The part with the first byte that is not as `pack` writes it."""
    expected = pack(files)
    at = next((n for n, (a, b) in enumerate(zip(raw, expected, strict=False)) if a != b), min(len(raw), len(expected)))
    with zipfile.ZipFile(io.BytesIO(expected)) as archive:
        if at >= archive.start_dir:
            return "the zip's directory"
        return max((e for e in archive.infolist() if e.header_offset <= at), key=lambda e: e.header_offset).filename


def _check_names(path: Path, names: Mapping[str, bytes] | list[str]) -> None:
    """Check that names mean the same on every system, and that none is also a folder."""
    seen: set[str] = set()
    folders = {parent.as_posix().casefold() for name in names for parent in Path(name).parents}
    for name in names:
        if not _NAME.fullmatch(name):
            raise _wrong(path, name, "has a name that a bundle does not allow")
        if name.casefold() in seen or name.casefold() in folders:
            raise _wrong(path, name, "is there twice on a system that ignores case")
        seen.add(name.casefold())


def _wrong(path: Path, part: str, problem: str) -> BundleInvalidError:
    name = part if part.isascii() and part.isprintable() else ascii(part)
    return BundleInvalidError(f"{path}: {name[:160]} {problem}", hint=_HINT)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _put(path: Path, files: Mapping[str, bytes]) -> None:
    if path.suffix == ".zip":
        _put_file(path, pack(files))
        return
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        for name, data in files.items():
            _put_file(fresh / name, data)
        _take_the_place(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _take_the_place(fresh: Path, path: Path) -> None:
    """Put a folder where another one may be. Where that fails, the other one is there again, with its approvals."""
    old = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    if path.exists():
        path.rename(old)
    try:
        fresh.rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _put_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)

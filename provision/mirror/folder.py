"""The carried folder: its manifest, what it must hold for a lock, and whether each file is still what was downloaded.

The manifest finds damage and mistakes. What holds against an attacker who rewrites it too is checked by others: apt checks signatures by
the fingerprints of the lock and hashes by the signed indices, and pip the hashes of the lock. So nothing in the folder is configuration.
"""

import datetime as dt
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from provision import paths
from provision.mirror.pins import missing, strangers
from provision.mirror.refused import MirrorRefusedError
from provision.profile.locked import Lock
from provision.structs import Struct

MANIFEST: Final = "manifest.json"
_MOST_MANIFEST: Final = 8 << 20
_MOST_FILES: Final = 20_000
_BLOCK: Final = 1 << 20
_PATH: Final = re.compile(r"(apt|dnf|keys|wheels)(/[A-Za-z0-9_.+~:%=,@!-]+)+")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_AGAIN: Final = "fill the folder again where there is a network: `gpuprov mirror`; carry it whole"


class CarriedFile(Struct):
    """One file: its path in the folder, its digest and its size."""

    path: str
    sha256: str
    bytes: int


class CarriedFolder(Struct):
    """A folder whose files were all compared with its manifest.

    Attributes:
        lock: the digest of the lock that it was filled for.
        day: when it was filled.
    """

    folder: Path
    lock: str
    day: str
    files: tuple[CarriedFile, ...]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest's list of files."""
        return hashlib.sha256("".join(f"{file.sha256}  {file.path}\n" for file in self.files).encode()).hexdigest()


def is_safe(path: str) -> bool:
    """Whether a path stays in the folder, and has no character that a shell, tar or sha256sum reads as something else."""
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def measure(folder: Path, path: str) -> CarriedFile:
    """A file of the folder as it is now."""
    sha256, size = digest_of(folder / path)
    return CarriedFile(path, sha256, size)


def digest_of(path: Path, most_bytes: int | None = None) -> tuple[str, int]:
    """SHA-256 and size of a regular file, read block by block.

    Raises:
        OSError: it cannot be read, is not a regular file, or is longer than `most_bytes`.
    """
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        while block := file.read(_BLOCK):
            size += len(block)
            if most_bytes is not None and size > most_bytes:
                raise OSError(errno.EFBIG, f"it is longer than {most_bytes} bytes", str(path))
            digest.update(block)
    return digest.hexdigest(), size


def write_manifest(folder: Path, lock: Lock, files: Iterable[CarriedFile], now: dt.datetime) -> None:
    """Write the manifest, last: a folder without it is not complete."""
    listed = [{"path": f.path, "sha256": f.sha256, "bytes": f.bytes} for f in sorted(files, key=lambda f: f.path)]
    data = {"schema": 1, "profile": lock.profile.name, "os": lock.os, "lock": lock.digest, "made": now.date().isoformat(), "files": listed}
    paths.write_whole(folder / MANIFEST, json.dumps(data, indent=1) + "\n", sync=True)


def check_folder(folder: Path, lock: Lock) -> CarriedFolder:
    """Compare a folder with its manifest, and the manifest with the lock.

    Raises:
        MirrorRefusedError: it is not such a folder, belongs to another lock, lacks something, or a file differs.
    """
    read = _manifest(folder)
    if read.lock != lock.digest:
        msg = f"{folder} was filled for another lock (sha256:{read.lock[:12]}…) than the one that is applied (sha256:{lock.digest[:12]}…)"
        raise _refused(msg, f"`gpuprov mirror --profile {lock.profile.name} -o …` fills one for this lock")
    for file in read.files:
        try:
            found, size = digest_of(folder / file.path, file.bytes)
        except OSError as error:
            msg = f"{folder / file.path} cannot be used: {error.strerror}"
            raise _refused(msg) from error
        if (found, size) != (file.sha256, file.bytes):
            msg = f"{folder / file.path} is not the file that was downloaded: sha256 {found[:12]}… instead of {file.sha256[:12]}…"
            raise _refused(msg)
    wheels = {file.sha256: file.path for file in read.files if file.path.startswith("wheels/")}
    if odd := strangers(lock, wheels):
        msg = f"{folder / wheels[odd[0]]} is not a wheel of the lock"
        raise _refused(msg)
    if lacking := missing(lock, wheels):
        msg = f"{folder} does not have {lacking[0]}" + (f", nor {len(lacking) - 1} more wheels" if len(lacking) > 1 else "")
        raise _refused(msg)
    return read


def listed(folder: Path) -> dict[str, CarriedFile]:
    """The files that a manifest lists, by path; nothing where there is none that can be read."""
    try:
        return {file.path: file for file in _manifest(folder).files}
    except MirrorRefusedError:
        return {}


def _manifest(folder: Path) -> CarriedFolder:
    path = folder / MANIFEST
    try:
        data = json.loads(paths.read_bounded(path, _MOST_MANIFEST))
        if not isinstance(data, dict) or data.get("schema") != 1 or not isinstance(data["files"], list):
            msg = f"{path} is not a manifest of a carried folder"
            raise _refused(msg)
        files = tuple(_file(each) for each in data["files"][: _MOST_FILES + 1])
        read = CarriedFolder(folder, _text(data["lock"]), _text(data["made"]), files)
    except OSError as error:
        msg = f"{folder} is not a complete folder of `gpuprov mirror`: {path.name}: {error.strerror}"
        raise _refused(msg) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"{path} is not a manifest of a carried folder"
        raise _refused(msg) from error
    paths_listed = [file.path for file in files]
    odd = [each for each in paths_listed if not is_safe(each)]
    if odd or len(set(paths_listed)) != len(paths_listed) or len(files) > _MOST_FILES:
        msg = f"{path} lists {odd[0]!a}, which is not a path of such a folder" if odd else f"{path} lists a file twice, or too many"
        raise _refused(msg)
    return read


def _file(data: dict[str, Any]) -> CarriedFile:
    sha256, size = _text(data["sha256"]), data["bytes"]
    if not _SHA256.fullmatch(sha256) or type(size) is not int or size < 0:
        raise ValueError(sha256)
    return CarriedFile(_text(data["path"]), sha256, size)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _refused(message: str, hint: str = _AGAIN) -> MirrorRefusedError:
    return MirrorRefusedError(message, hint=hint)

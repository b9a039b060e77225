"""Fill the folder: indices, keys, packages and wheels, into a folder beside it that is renamed when all of it is there."""

import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from filelock import FileLock, Timeout

from provision.catalog import indices
from provision.errors import counted
from provision.mirror import index, packages, rpms
from provision.mirror.download import download
from provision.mirror.folder import CarriedFile, CarriedFolder, check_folder, digest_of, listed, measure, write_manifest
from provision.mirror.origins import Origin, origins
from provision.mirror.pins import pins
from provision.mirror.refused import MirrorRefusedError
from provision.profile.locked import Lock
from provision.structs import MutableStruct, Struct, field

_MOST_BYTES: Final = 16 << 30  # of one file; the largest wheels have 3 GB
_STEP: Final = 0.1


class Filled(Struct):
    """A filled folder, and how much of it was downloaded now; nothing where it was complete already."""

    folder: CarriedFolder
    downloaded: int
    complete_before: bool


class _Told(MutableStruct):
    """Says how far the downloads are, at each tenth."""

    say: Callable[[str], None]
    kind: str
    of: int
    bytes: int = 0
    at: float = field(default=-1.0)

    def add(self, size: int) -> None:
        self.bytes += size
        share = self.bytes / self.of if self.of else 1.0
        if share - self.at >= _STEP or self.at < 0:
            self.at = share
            self.say(f"{self.kind}: {self.bytes / 1e9:.2f} of {self.of / 1e9:.2f} GB" if self.of else self.kind)


def fill(
    lock: Lock,
    folder: Path,
    values: Mapping[str, Any],
    *,
    say: Callable[[str], None],
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
) -> Filled:
    """Fill a folder with everything that `apply` of a lock downloads.

    A folder that is complete stays as it is. What was downloaded before an interruption, or for another lock, is not downloaded again.

    Args:
        lock: the lock.
        folder: what is filled.
        values: the variables of the roles for this lock.
        say: told about the progress.
        now: the time.

    Raises:
        MirrorRefusedError, IndexUnreachableError: something cannot be carried, or is not to be had.
    """
    of = origins(lock)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not listed(folder))):
            msg = f"{folder} exists and is not a folder that `gpuprov mirror` filled"
            raise MirrorRefusedError(msg, hint="name another one with --output; nothing in it was changed")
        lock_file = folder.with_name(f".{folder.name}.lock")
        lock_file.touch()  # a lock that cannot be made looks like one that somebody holds
        with FileLock(lock_file, timeout=0):
            try:
                done = _whole(folder, lock)
                if done:
                    say("the folder is complete already")
                    return Filled(done, 0, complete_before=True)
                return _Filling(lock, of, folder, values, say).run(now())
            finally:
                lock_file.unlink(missing_ok=True)
    except Timeout as error:
        msg = f"another gpuprov fills {folder}"
        raise MirrorRefusedError(msg, hint="wait for it, or name another folder with --output") from error
    except OSError as error:
        msg = f"cannot fill {folder}: {error.strerror}"
        raise MirrorRefusedError(msg, hint="make room, or choose another folder, and run the same command again") from error


class _Filling(Struct):
    """One run that fills a folder."""

    lock: Lock
    of: Sequence[Origin]
    folder: Path
    values: Mapping[str, Any]
    say: Callable[[str], None]
    known: dict[str, Path] = field(default_factory=dict)

    @property
    def part(self) -> Path:
        """Where it is filled; it stays after an interruption, and the next run goes on from there."""
        return self.folder.with_name(f"{self.folder.name}.part")

    def run(self, now: dt.datetime) -> Filled:
        self.known.update({file.sha256: self.folder / file.path for file in listed(self.folder).values()})
        self.part.mkdir(exist_ok=True)
        signed = list(self.indices())
        by_dnf = any(origin.repository.kind == "dnf" for origin in self.of)
        self.say(f"asking {'dnf' if by_dnf else 'apt'} what the packages depend on")
        if by_dnf:
            wanted = rpms.resolve(self.part, self.of, self.lock, self.values, self.say)
        else:
            wanted = packages.resolve(self.part, self.of, self.lock, self.values)
        told, downloaded = _Told(self.say, f"downloading {counted(len(wanted), 'package')}", sum(file.bytes for file in wanted)), 0
        for file, url in _with_addresses(wanted, self.of):
            downloaded += self.have(file.path, file.sha256, url, told, file.bytes)
        wheels = self.wheels()
        told = _Told(self.say, f"downloading {counted(len(wheels), 'wheel')}", 0)
        for name, (url, sha256) in wheels.items():
            downloaded += self.have(f"wheels/{name}", sha256, url, told)
        _forget(self.part, {*signed, *(file.path for file in wanted), *(f"wheels/{name}" for name in wheels)})
        self.say("writing the manifest")
        files = [measure(self.part, path) for path in _paths(self.part)]
        write_manifest(self.part, self.lock, files, now)
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.part.replace(self.folder)
        return Filled(CarriedFolder(self.folder, self.lock.digest, now.date().isoformat(), tuple(files)), downloaded, complete_before=False)

    def indices(self) -> Iterator[str]:
        """Download the signed indices and the keys; their paths."""
        for origin in self.of:
            self.say(f"reading the signed index of {origin.repository.url} {origin.repository.suite or ''}".rstrip())
            for old in ("dists", "repodata"):
                shutil.rmtree(self.part / origin.folder / old, ignore_errors=True)
            indices.keep(origin.repository, self.part / origin.folder, self.part / (origin.key or "none"))
            yield from (path for path in _paths(self.part) if path.startswith(f"{origin.folder}/") and _is_index(path))
            yield from [origin.key] if origin.key else []

    def wheels(self) -> dict[str, tuple[str, str]]:
        """The files of the package index: name → address and digest."""
        wanted = pins(self.lock)
        where = index.configured(self.lock.wheel_index) if wanted else ""
        if wanted:
            self.say(f"looking up {counted(len(wanted), 'wheel')}")
        found: dict[str, tuple[str, str]] = {}
        for pin in wanted:
            found |= index.files_of(where, pin)
        return found

    def have(self, path: str, sha256: str, url: str, told: _Told, most_bytes: int = _MOST_BYTES) -> int:
        """Have a file: as it is there, from the folder before, or from its address. Returns what was downloaded of it."""
        target = self.part / path
        for source in (target, self.known.get(sha256)):
            if source is not None and _is(source, sha256, most_bytes):
                if source != target:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.unlink(missing_ok=True)
                    shutil.copyfile(source, target)
                told.add(target.stat().st_size)
                return 0
        return download(url, target, sha256, most_bytes, told.add)


def _whole(folder: Path, lock: Lock) -> CarriedFolder | None:
    """The folder where it is complete for this lock."""
    try:
        return check_folder(folder, lock)
    except MirrorRefusedError:
        return None


def _is_index(path: str) -> bool:
    return "/repodata/" in path or path.rpartition("/")[2] in {"InRelease", "Packages.xz", "Packages.gz"}


def _with_addresses(files: Sequence[CarriedFile], of: Sequence[Origin]) -> Iterator[tuple[CarriedFile, str]]:
    bases = {f"{origin.folder}/": origin.repository.url.rstrip("/") for origin in of}
    for file in files:
        folder = next(each for each in bases if file.path.startswith(each))
        yield file, f"{bases[folder]}/{quote(file.path.removeprefix(folder), safe='/~+:')}"


def _is(path: Path, sha256: str, most_bytes: int) -> bool:
    try:
        return digest_of(path, most_bytes)[0] == sha256
    except OSError:
        return False


def _paths(part: Path) -> list[str]:
    return sorted(str(path.relative_to(part)) for path in part.rglob("*") if path.is_file() and path.parent != part)


def _forget(part: Path, wanted: set[str]) -> None:
    """Remove what an earlier run left and this one does not need."""
    for path in _paths(part):
        if path not in wanted:
            (part / path).unlink()

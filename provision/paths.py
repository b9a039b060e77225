"""Where things lie: what ships with gpuprov, and what it keeps for this user. How a file is read within bounds, and written whole."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs

from provision.errors import UsageError

if TYPE_CHECKING:
    from filelock import BaseFileLock

_MOST_TEXT: Final = 4 << 20  # an ssh configuration or a journal's record has some hundred KiB at most
_PACKAGE = Path(__file__).resolve().parent


def _shipped(name: str) -> Path:
    """A folder that lies beside the package in a checkout, and inside it in an installed wheel."""
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def profiles_dir() -> Path:
    """The folder of the profiles that ship with gpuprov."""
    return _shipped("profiles")


def playbooks_dir() -> Path:
    """The folder of `site.yml` and its roles."""
    return _shipped("playbooks")


def errors_page() -> Path:
    """The page that says what each error means."""
    return _shipped("docs") / "reference" / "errors.md"


def lock_of(path: Path | str, timeout_s: float = -1) -> BaseFileLock:
    """The lock of a file between processes, to be held in a `with`, which raises TimeoutError after `timeout_s`; by default it waits."""
    from filelock import FileLock  # noqa: PLC0415 - 5 ms, and many commands lock nothing

    return FileLock(path, timeout=timeout_s)


def state_dir() -> Path:
    """What gpuprov remembers for this user (journal, keys, run artefacts); `GPUPROV_HOME` moves it."""
    return private_dir(state_path())


def state_path() -> Path:
    """Where that is, or would be: to ask about it nothing has to be made."""
    home = os.environ.get("GPUPROV_HOME")
    return Path(home) if home else platformdirs.user_state_path("gpuprov")


def cache_dir() -> Path:
    """What can be made again (root file systems, downloads); `GPUPROV_CACHE` moves it.

    Raises:
        UsageError: the folder cannot be made.
    """
    path = cache_path()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot make {path}: {error.strerror}"
        raise UsageError(msg, hint="GPUPROV_CACHE names another folder") from error
    return path


def cache_path() -> Path:
    """Where the cache is, or would be: to read from it nothing has to be made."""
    home = os.environ.get("GPUPROV_CACHE")
    return Path(home) if home else platformdirs.user_cache_path("gpuprov")


def private_dir(path: Path) -> Path:
    """Make a folder that only its owner can enter, and return it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        msg = f"cannot make {path}: {error.strerror}"
        raise UsageError(msg, hint="GPUPROV_HOME names another folder") from error
    return path


def is_private_own(path: Path) -> bool:
    """Make a folder in a place that others write to; whether it is this user's and no link. What is somebody else's is left alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # another user created it first
        return False
    try:  # the mode is changed by the descriptor whose owner was seen: the path may lead elsewhere a moment later
        own = os.fstat(descriptor).st_uid == os.getuid()
        if own:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)
    return own


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Read a regular file that is no larger than it may be. Nothing else is read: a device never ends, and a pipe waits for its writer.

    Args:
        path: a link is followed.
        most_bytes: the size that the file may have.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger; `strerror` says which.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(most_bytes + 1) if state.st_size <= most_bytes else b""
    finally:
        os.close(descriptor)
    if state.st_size > most_bytes or len(raw) > most_bytes:  # files of /proc have no size before they are read
        size = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes >> 10} KiB"
        raise OSError(errno.EFBIG, f"it is larger than {size}", str(path))
    return raw


def text_of(path: Path, most_bytes: int = _MOST_TEXT, *, errors: str = "strict") -> str:
    """The text of a file that is kept for this user, whoever has changed it since; empty where there is none.

    Args:
        path: a link is followed.
        most_bytes: the size that the file may have.
        errors: what is done about bytes that are not UTF-8, as `bytes.decode` has it.

    Raises:
        UsageError: it cannot be read within bounds, or is not UTF-8.
    """
    try:
        return read_bounded(path, most_bytes).decode(errors=errors)
    except FileNotFoundError:
        return ""
    except OSError as error:
        why = str(error.strerror)
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    msg = f"cannot read {path}: {why}"
    raise UsageError(msg, hint="gpuprov needs a text file of its usual size there, or none: look at what it is, and move it away")


def write_whole(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace a file in one step: readers see the old file or the new one, and an error leaves the old one.

    Args:
        path: in a folder that exists.
        content: text is written as UTF-8.
        sync: wait until the disk has it, so that a crash of the machine cannot lose it.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)

"""Where things lie: what ships with gpuprov, and what it keeps for this user. How a file is written whole."""

import os
import secrets
from pathlib import Path

import platformdirs

from provision.errors import UsageError

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


def write_whole(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace a file in one step: readers see the old file or the new one, and an error leaves the old one.

    Args:
        path: in a folder that exists.
        content: text is written as UTF-8.
        sync: wait until the disk has it, so that a crash of the machine cannot lose it.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)

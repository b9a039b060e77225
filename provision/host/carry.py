"""Carry files to a folder of root's on a host, over the connection that every other command uses; what is there already is not sent again.

The host needs sh, tar, df and sha256sum. Digests are compared there, after the copy: they come from the caller, not from the host.
"""

import asyncio
import shlex
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from provision.errors import HostUnreachableError
from provision.host.ssh import Completed, Target, execute
from provision.structs import Struct

_ASK_S: Final = 1800  # to compute the digests of some gigabytes
_COPY_S: Final = 12 * 3600
_BLOCK: Final = 1 << 20
_STEP: Final = 0.1
_KEEP_FREE: Final = 512 << 20


class Parcel(Struct):
    """One file to carry: where it lies here, its path in the folder, its digest and size."""

    source: Path
    path: str
    sha256: str
    bytes: int


def carry(target: Target, parcels: Sequence[Parcel], texts: Mapping[str, str], folder: str, say: Callable[[str], None]) -> int:
    """Have all files in a folder of the host, and small texts beside them.

    Args:
        target: the host.
        parcels: the files; their paths have no character that a shell or sha256sum reads as something else.
        texts: path → content.
        folder: an absolute path that only root writes to.
        say: told about the progress.

    Returns:
        How many bytes were sent.

    Raises:
        HostUnreachableError: the connection broke, there is no room, or a file arrived with another digest.
    """
    return asyncio.run(_carry(target, parcels, texts, folder, say))


def remove(target: Target, folder: str) -> None:
    """Remove the folder from the host, and the one above it if that is empty then."""
    script = f'rm -rf -- {shlex.quote(folder)} && {{ rmdir -- "$(dirname -- {shlex.quote(folder)})" 2>/dev/null || true; }}'
    _refuse_failure(target, asyncio.run(execute(target, as_root(script), timeout_s=_ASK_S)), f"cannot remove {folder}")


async def _carry(target: Target, parcels: Sequence[Parcel], texts: Mapping[str, str], folder: str, say: Callable[[str], None]) -> int:
    say("looking at what the host has already")
    there = await _there(target, parcels, folder)
    sent = [parcel for parcel in parcels if parcel.path not in there]
    size = sum(parcel.bytes for parcel in sent)
    await _refuse_little_room(target, folder, size)
    script = f"umask 022 && cd {shlex.quote(folder)} && tar --extract --no-same-owner --no-same-permissions --file -"
    copied = await execute(target, as_root(script), stdin=_stream(sent, texts, size, say), timeout_s=_COPY_S)
    _refuse_failure(target, copied, "the copy failed")
    say("comparing what arrived")
    arrived = await _there(target, sent, folder) if sent else set()
    wrong = [parcel.path for parcel in sent if parcel.path not in arrived]
    if wrong:
        msg = f"{wrong[0]} arrived on {target.name} with another digest" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
        raise HostUnreachableError(msg, hint="run the same command again; if it happens again, look at the host's memory and disk")
    return size


async def _there(target: Target, parcels: Sequence[Parcel], folder: str) -> set[str]:
    """The files that the host has with their digests."""
    listed = "".join(f"{parcel.sha256}  {parcel.path}\n" for parcel in parcels).encode()
    place = shlex.quote(folder)
    script = f"export LC_ALL=C; umask 022 && mkdir -p -- {place} && cd {place} && {{ sha256sum --check - 2>/dev/null; true; }}"
    answer = await execute(target, as_root(script), stdin=listed, timeout_s=_ASK_S)
    _refuse_failure(target, answer, f"cannot make {folder}")
    return {line.removesuffix(": OK") for line in answer.stdout.decode(errors="replace").splitlines() if line.endswith(": OK")}


async def _refuse_little_room(target: Target, folder: str, size: int) -> None:
    answer = await execute(target, f"df -Pk -- {shlex.quote(folder)}", timeout_s=_ASK_S)
    words = answer.stdout.decode(errors="replace").splitlines()[-1:]
    free = words[0].split()[3] if words and len(words[0].split()) > 3 else ""  # noqa: PLR2004 - as POSIX has it
    if answer.exit_code or not free.isdigit():
        msg = f"{target.name} does not say how much room it has"
        raise HostUnreachableError(msg, hint=f"see `df -Pk {folder}` on the host")
    if int(free) * 1024 < size + _KEEP_FREE:
        msg = f"{target.name} has {int(free) / 1e6:.1f} GB free, and the folder takes {size / 1e9:.1f} GB more while it is set up"
        raise HostUnreachableError(msg, hint="make room there, or raise disks.root.size_gb, and run the same command again")


def as_root(script: str) -> str:
    """A command line that runs a script as root, whoever the login is and whatever its shell."""
    quoted = shlex.quote(script)
    either = f'if [ "$(id -u)" = 0 ]; then exec sh -c {quoted}; else exec sudo -n sh -c {quoted}; fi'
    return f"exec /bin/sh -c {shlex.quote(either)}"


async def _stream(parcels: Sequence[Parcel], texts: Mapping[str, str], size: int, say: Callable[[str], None]) -> AsyncIterator[bytes]:
    """A tar archive of the files, made as it is read."""
    done, at = 0, -1.0
    for path, text in texts.items():
        content = text.encode()
        yield _header(path, len(content)) + content + _padding(len(content))
    for parcel in parcels:
        yield _header(parcel.path, parcel.bytes)
        left = parcel.bytes
        with parcel.source.open("rb") as file:
            while left and (block := file.read(min(_BLOCK, left))):
                left -= len(block)
                done += len(block)
                yield block
        yield bytes(left) + _padding(parcel.bytes)  # one that has become shorter arrives with another digest
        if done / (size or 1) - at >= _STEP or at < 0:
            at = done / (size or 1)
            say(f"copying to the host: {done / 1e9:.2f} of {size / 1e9:.2f} GB")
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(path: str, size: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _refuse_failure(target: Target, answer: Completed, what: str) -> None:
    if answer.exit_code:
        lines = answer.stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
        msg = f"{target.name}: {what}: {lines[-1][:200]}"
        raise HostUnreachableError(
            msg, hint="the login needs sudo without a password, and the host tar, df and sha256sum; run it again then"
        )

"""Downloads of files whose digest is known before: whole and right, or not there."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import requests

from provision.errors import IndexUnreachableError
from provision.mirror.refused import MirrorRefusedError

_TIMEOUT_S: Final = 60
_BLOCK: Final = 1 << 18
_HINT: Final = "check the network and the proxy (HTTPS_PROXY), and run the same command again: it keeps what it has"


def download(url: str, target: Path, sha256: str, most_bytes: int, on_bytes: Callable[[int], None]) -> int:
    """Download a file, and move it into place once it has its digest.

    Returns:
        Its size.

    Raises:
        IndexUnreachableError: no answer, or another file.
        MirrorRefusedError: it cannot be written.
    """
    beside = target.with_name(f"{target.name}.part")
    digest, size = hashlib.sha256(), 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with requests.get(url, stream=True, timeout=_TIMEOUT_S) as answer, beside.open("wb") as file:
            answer.raise_for_status()
            for block in answer.iter_content(_BLOCK):
                size += len(block)
                if size > most_bytes:
                    break
                digest.update(block)
                file.write(block)
                on_bytes(len(block))
    except requests.RequestException as error:
        beside.unlink(missing_ok=True)
        msg = f"{url} gave no answer: {type(error).__name__}"
        raise IndexUnreachableError(msg, hint=_HINT, detail=str(error)) from error
    except OSError as error:
        msg = f"cannot write {target}: {error.strerror}"
        raise MirrorRefusedError(msg, hint="make room, or choose another folder, and run the same command again") from error
    if size > most_bytes or digest.hexdigest() != sha256:
        beside.unlink(missing_ok=True)
        msg = f"{url} is not the file that was asked for: its sha256 is {digest.hexdigest()[:12]}… instead of {sha256[:12]}…"
        raise IndexUnreachableError(msg, hint="the repository may be changing right now, or somebody changes files on the way: try again")
    beside.replace(target)
    return size


def text_of_address(url: str, most_bytes: int, headers: Mapping[str, str]) -> str:
    """A page, within a bound.

    Raises:
        IndexUnreachableError: no answer, or more than the bound.
    """
    page = bytearray()
    try:
        with requests.get(url, stream=True, timeout=_TIMEOUT_S, headers=dict(headers)) as answer:
            answer.raise_for_status()
            for block in answer.iter_content(_BLOCK):
                page += block
                if len(page) > most_bytes:
                    msg = f"{url} is larger than {most_bytes >> 20} MiB"
                    raise IndexUnreachableError(msg, hint=_HINT)
    except requests.RequestException as error:
        msg = f"{url} gave no answer: {type(error).__name__}"
        raise IndexUnreachableError(msg, hint=_HINT, detail=str(error)) from error
    return page.decode(errors="replace")

"""The files of a package index: found by the hashes of a lock, so the index is trusted for nothing."""

import html.parser
import os
import re
import subprocess
import sys
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from provision.errors import IndexUnreachableError
from provision.mirror.download import text_of_address
from provision.mirror.pins import IndexPin

_DEFAULT: Final = "https://pypi.org/simple"
_MOST_PAGE: Final = 64 << 20
_FORMS: Final = "application/vnd.pypi.simple.v1+html, text/html;q=0.5"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+!-]{0,200}\.(whl|tar\.gz|zip)")


class _Links(html.parser.HTMLParser):
    """The addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one."""
        if tag == "a":
            self.addresses += [value for name, value in attrs if name == "href" and value]


def configured(lock_index: str | None) -> str:
    """The index of a lock, or the one that pip is configured with."""
    if lock_index:
        return lock_index
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    return told or _DEFAULT


def files_of(index: str, pin: IndexPin) -> dict[str, tuple[str, str]]:
    """The files that the lock names of one package: name → address and digest.

    Raises:
        IndexUnreachableError: the index gave no answer, or has none of them.
    """
    page = f"{index.rstrip('/')}/{pin.name}/"
    links = _Links()
    links.feed(text_of_address(page, _MOST_PAGE, {"Accept": _FORMS}))
    found: dict[str, tuple[str, str]] = {}
    for link in links.addresses:
        address, fragment = urldefrag(urljoin(page, link))
        name, digest = unquote(address.rpartition("/")[2]), fragment.removeprefix("sha256=")
        if digest in pin.sha256 and _SAFE_NAME.fullmatch(name) and _fits(name, pin):
            found[name] = (address, digest)
    if not found:
        msg = f"the package index has no file of {pin} with the hash of the lock"
        raise IndexUnreachableError(
            msg, hint="`gpuprov lock` resolves again; an index must give the sha256 of its files (PEP 503)", detail=page
        )
    return found


def _fits(name: str, pin: IndexPin) -> bool:
    """Whether a file is for the hosts: a source distribution where one is built, else a wheel for their Python on x86_64 Linux."""
    if pin.is_source or not name.endswith(".whl"):
        return pin.is_source and not name.endswith(".whl")
    *_, tags, abi, platform = name.removesuffix(".whl").split("-")
    number = pin.python.replace(".", "")
    python = any(tag in {f"cp{number}", f"py{number}", "py3", "py2.py3"} for tag in tags.split(".")) or "abi3" in abi
    return python and (platform == "any" or ("linux" in platform and "x86_64" in platform))

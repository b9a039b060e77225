"""What a machine runs at its first boot, before it answers SSH: it downloads what its set-up will install, and installs nothing.

The program travels in the user data (`userdata.py`) and runs in the transient unit `gpuprov-ahead`, with the standard library of Python
3.11. A wheel is kept if it has the digest of the lock. Packages are apt's own business: its signatures, keys of the lock's fingerprints
only, and folders of its own, so that no lock of the system is held. What fails here is downloaded by the set-up, as without this program;
the set-up waits for the unit's end (`converge/onhost/work.py`), which takes what is here and removes it.
"""

import functools
import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

ROOT = "/var/cache/gpuprov/ahead"
"""`wheels` is in it, the list `digests` of those that are whole, and what apt needs; root's, readable by all."""
ARCHIVES = "/var/cache/apt/archives"
MOST_PAGE = 16 << 20
MOST_KEY = 1 << 20
TRIES = 3
MOST_FAILED = 3
TIMEOUT_S = 20.0
_WHEEL = re.compile(r"[A-Za-z0-9._+!-]+\.whl")
# What other programs hook into an update is for the system's own lists.
_APT = """\
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{root}/sources";
Dir::State::lists "{root}/lists";
Dir::Cache "{root}/cache";
Debug::NoLocking "true";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


def say(text: str) -> None:
    """A line for the unit's journal."""
    sys.stderr.write(text + "\n")


def opened(url: str) -> Any:
    """The answer of a server, over HTTP only; proxies are those of the environment."""
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        msg = f"{url} is not an address of HTTP"
        raise ValueError(msg)
    wanted = {"Accept": "application/vnd.pypi.simple.v1+html, text/html;q=0.9"}  # PEP 691
    asked = urllib.request.Request(url, headers=wanted)  # noqa: S310 - the scheme is looked at above
    return urllib.request.urlopen(asked, timeout=TIMEOUT_S)  # noqa: S310


def small(url: str, most: int) -> bytes:
    """What is at an address, if it has no more bytes than that."""
    with opened(url) as answer:
        data: bytes = answer.read(most + 1)
    if len(data) > most:
        msg = f"{url} has more than {most} bytes"
        raise ValueError(msg)
    return data


class Links(html.parser.HTMLParser):
    """The links of a page of a package index (PEP 503)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def address_of(name: str, sha256: str, index: str) -> str:
    """Where a package index has the file with this digest."""
    page = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    for link in Links(small(page, MOST_PAGE).decode()).found:
        if link.rpartition("#")[2] == f"sha256={sha256}":
            return urllib.parse.urljoin(page, link.rpartition("#")[0])
    msg = f"{page} has no file with the digest of the lock"
    raise ValueError(msg)


def copied(source: BinaryIO, target: BinaryIO) -> str:
    """Copy a file; its SHA-256."""
    seen = hashlib.sha256()
    while block := source.read(1 << 20):
        seen.update(block)
        target.write(block)
    return seen.hexdigest()


def fetch_wheel(name: str, sha256: str, index: str, folder: Path) -> None:
    """Download a wheel under its own name, which it gets when it is whole and has the digest."""
    url = address_of(name, sha256, index)
    file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    if not _WHEEL.fullmatch(file):
        msg = f"{file!r} is not the name of a wheel"
        raise ValueError(msg)
    part = folder.parent / "part"
    with opened(url) as answer, part.open("wb") as target:
        digest = copied(answer, target)
    if digest != sha256:
        msg = f"{url} does not have the digest of the lock"
        raise ValueError(msg)
    part.rename(folder / file)
    with (folder.parent / "digests").open("a") as kept:
        kept.write(f"{digest}\n")


def tried(name: str, work: Callable[[], None]) -> bool:
    """Whether something was done, in up to three tries: at this moment of a boot a name server may not answer yet."""
    for attempt in range(TRIES):
        try:
            work()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            say(f"{name}: {error}")
            time.sleep(2.0**attempt)
        else:
            return True
    return False


def sources(repositories: list[dict[str, Any]], root: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a folder of apt's sources: those of the system, and the lock's repositories, each with its one key."""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.*")]:
        if path.is_file():
            yield path.name, path.read_bytes()
    for each in repositories:
        key = each["keyring"]
        if each["key"]:
            key = root / f"{each['name']}.asc"
            key.write_bytes(small(each["key"], MOST_KEY))
        lines = ["Types: deb", f"URIs: {each['url']}", f"Suites: {each['suite']}", f"Signed-By: {key} {each['fingerprint'] or ''}".rstrip()]
        if each["components"]:
            lines.append(f"Components: {' '.join(each['components'])}")
        yield f"gpuprov-{each['name']}.sources", "\n".join([*lines, ""]).encode()


def fetch_packages(asked: dict[str, Any], root: Path, archives: Path) -> None:
    """Download packages and what they depend on, and lay those that apt has checked where apt looks for them."""
    for name in ("sources", "lists/partial", "cache/archives/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, content in sources(asked["repositories"], root):
        (root / "sources" / name).write_bytes(content)
    (root / "apt.conf").write_text(_APT.format(root=root))
    environment = {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--download-only", "--no-install-recommends", *asked["packages"]]):
        subprocess.run(["apt-get", "--quiet", *words], check=True, env=environment, stdin=subprocess.DEVNULL)
    for path in (root / "cache" / "archives").glob("*.deb"):
        if not (archives / path.name).exists():
            os.link(path, archives / path.name)


def main(path: str, root: Path = Path(ROOT), archives: Path = Path(ARCHIVES)) -> None:
    """Download what a file asks for: a JSON object with the attributes of `userdata.Downloads`."""
    asked = json.loads(Path(path).read_text())
    os.environ.update(asked["environment"])
    root.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if shutil.disk_usage(root.parent).free < asked["least_free_gb"] << 30:
        say(f"less than {asked['least_free_gb']} GB are free")
        return
    shutil.rmtree(root, ignore_errors=True)
    (root / "wheels").mkdir(parents=True)
    if asked["packages"]:
        tried("packages", lambda: fetch_packages(asked, root, archives))
    failed = 0
    for name, sha256 in asked["wheels"]:
        failed += not tried(name, functools.partial(fetch_wheel, name, sha256, asked["index"], root / "wheels"))
        if failed == MOST_FAILED:  # so that a set-up does not wait long for an index that does not answer
            say("no further wheel is tried")
            return


if __name__ == "__main__":
    main(sys.argv[1])

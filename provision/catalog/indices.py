"""The signed indices of package repositories: which versions of a package there are. Nothing in them is read before the signature holds."""

import datetime as dt
import gzip
import hashlib
import io
import itertools
import lzma
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import requests
from univers.versions import DebianVersion, RpmVersion, Version

from provision import paths
from provision.catalog.package_versions import Repository
from provision.errors import IndexUnreachableError

_TIMEOUT_S: Final = 30
_GPG_S: Final = 30
_ENTRY_BYTES: Final = 4 << 20  # an InRelease of Debian has 200 KiB
_INDEX_BYTES: Final = 96 << 20  # Packages.xz of Debian's main has 9 MiB
_UNPACKED_BYTES: Final = 768 << 20
_OPENERS: Final[dict[str, Callable[[Path], lzma.LZMAFile | gzip.GzipFile]]] = {".xz": lzma.LZMAFile, ".gz": gzip.GzipFile}
_REPO: Final = "{http://linux.duke.edu/metadata/repo}"
_COMMON: Final = "{http://linux.duke.edu/metadata/common}"
_PLAIN: Final = re.compile(r"(?!/)(?!.*\.\.)[A-Za-z0-9_.+~:%=,@!/-]{1,400}")  # a path below the repository
_KEPT: Final = frozenset(("primary", "filelists", "group", "modules"))  # the lists of a dnf repository that an installation reads
_STAYS: Final = "the versions that were known before stay in use"


def read(group: Sequence[Repository], names: re.Pattern[str]) -> dict[str, list[str]]:
    """Read the indices of a group of repositories.

    Args:
        group: repositories of one package manager, which one host installs from.
        names: the packages of interest; all others are left out.

    Returns:
        package → its versions, the newest first: `1.2-3` for apt, `epoch:version-release` for dnf.

    Raises:
        IndexUnreachableError: no answer, or one that the repository's key did not sign.
    """
    found: dict[str, set[str]] = {}
    kinds = {repository.kind for repository in group}
    for repository in group:
        if not repository.keyring and not (repository.key and repository.fingerprint):
            raise _refused(repository, "the fingerprint of its key is not known")
        with tempfile.TemporaryDirectory(prefix="gpuprov-index-") as folder:
            entries = _apt(repository, Path(folder)) if repository.kind == "apt" else _dnf(repository, Path(folder))
            for name, version in entries:
                if names.fullmatch(name):
                    found.setdefault(name, set()).add(version)
    order: type[Version] = DebianVersion if "apt" in kinds else RpmVersion
    return {name: sorted(versions, key=order, reverse=True) for name, versions in sorted(found.items())}


def _apt(repository: Repository, folder: Path) -> Iterator[tuple[str, str]]:
    for packed in _lists(repository, folder):
        name = ""
        # Of some sixty thousand paragraphs only two fields matter.
        with _unpacked(packed) as lines:
            for line in lines:
                key, _, value = line.partition(b": ")
                if key == b"Package":
                    name = value.decode("ascii", "replace").strip()
                elif key == b"Version" and name:
                    yield name, value.decode("ascii", "replace").strip()


def keep(repository: Repository, root: Path, key: Path) -> str:
    """Download the signed indices of a repository as they are, into the same folders below a root, and its key.

    Returns:
        The text of its entry, which the key has signed: an apt repository's release, or repomd.xml.

    Raises:
        IndexUnreachableError: as for `read`.
    """
    if not repository.keyring and not (repository.key and repository.fingerprint):
        raise _refused(repository, "the fingerprint of its key is not known")
    if repository.kind == "dnf":
        return _keep_dnf(repository, root, key)
    folder = root if repository.suite == "/" else root / "dists" / str(repository.suite)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpuprov-index-") as scratch:
        list(_lists(repository, Path(scratch), folder))
        if repository.key and not repository.keyring:
            key.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(scratch) / "key", key)
        return (Path(scratch) / "Release").read_text()


def _lists(repository: Repository, scratch: Path, kept: Path | None = None) -> Iterator[Path]:
    """Download an apt repository's lists of packages; `kept` is where they keep their names."""
    base = repository.url.rstrip("/") + ("" if repository.suite == "/" else f"/dists/{repository.suite}")
    entry = (kept or scratch) / "InRelease"
    release = _clearsigned(repository, _fetch(f"{base}/InRelease", entry, _ENTRY_BYTES), scratch)
    _refuse_expired(repository, release)
    listed = re.findall(r"^ ([0-9a-f]{64}) +\d+ +(\S+)$", release.partition("SHA256:")[2], re.MULTILINE)
    digest_of = {path: digest for digest, path in listed}  # empty components have one digest
    for part in [f"{component}/binary-amd64/" for component in repository.components] or [""]:
        path = next((f"{part}Packages{ending}" for ending in (".xz", ".gz") if f"{part}Packages{ending}" in digest_of), None)
        if path is None:
            raise _refused(repository, f"its index lists no {part}Packages.xz or .gz")
        target = kept / path if kept else scratch / path.replace("/", "_")
        target.parent.mkdir(parents=True, exist_ok=True)
        yield _fetch(f"{base}/{path}", target, _INDEX_BYTES, sha256=digest_of[path])


def _dnf(repository: Repository, folder: Path) -> Iterator[tuple[str, str]]:
    base = repository.url.rstrip("/")
    href, sha256 = _lists_of_dnf(repository, _entry_of_dnf(repository, folder, folder))["primary"]
    packed = _fetch(f"{base}/{href}", folder / f"primary{Path(href).suffix}", _INDEX_BYTES, sha256=sha256)
    for element in _packages_of_dnf(repository, packed):
        name, version = element.findtext(f"{_COMMON}name"), element.find(f"{_COMMON}version")
        if name and version is not None and element.findtext(f"{_COMMON}arch") in {"x86_64", "noarch"}:
            yield name, f"{version.get('epoch', '0')}:{version.get('ver')}-{version.get('rel')}"


def _entry_of_dnf(repository: Repository, folder: Path, scratch: Path) -> Path:
    """Download the entry of a dnf repository, which its key has signed."""
    base = f"{repository.url.rstrip('/')}/repodata"
    entry = _fetch(f"{base}/repomd.xml", folder / "repomd.xml", _ENTRY_BYTES)
    signature = _fetch(f"{base}/repomd.xml.asc", folder / "repomd.xml.asc", _ENTRY_BYTES)
    _verify(repository, scratch, ["--verify", str(signature), str(entry)])
    return entry


def _lists_of_dnf(repository: Repository, entry: Path) -> dict[str, tuple[str, str]]:
    """Type of a list → where it is and its SHA-256, of a signed entry; `primary` is among them."""
    try:
        listed = list(ET.parse(entry).iter(f"{_REPO}data"))  # noqa: S314 - signed
    except ET.ParseError as error:
        raise _refused(repository, "its index is not XML", str(error)) from error
    found: dict[str, tuple[str, str]] = {}
    for data in listed:
        where, digest = data.find(f"{_REPO}location"), data.find(f"{_REPO}checksum")
        href = where.get("href", "") if where is not None else ""
        if digest is not None and digest.get("type") == "sha256" and digest.text and _PLAIN.fullmatch(href):
            found[str(data.get("type"))] = (href, digest.text)
    if "primary" not in found or Path(found["primary"][0]).suffix not in _OPENERS:
        raise _refused(repository, "its index names no list of packages, as .gz or .xz, with a SHA-256")
    return found


def _packages_of_dnf(repository: Repository, packed: Path) -> Iterator[ET.Element]:
    with _unpacked(packed) as file:
        try:
            for _, element in ET.iterparse(file):  # noqa: S314 - signed
                if element.tag == f"{_COMMON}package":
                    yield element
                    element.clear()
        except ET.ParseError as error:
            raise _refused(repository, "its list of packages is not XML", str(error)) from error


def _keep_dnf(repository: Repository, root: Path, key: Path) -> str:
    folder = root / "repodata"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpuprov-index-") as scratch:
        entry = _entry_of_dnf(repository, folder, Path(scratch))
        for kind, (href, sha256) in _lists_of_dnf(repository, entry).items():
            if kind in _KEPT:
                _fetch(f"{repository.url.rstrip('/')}/{href}", root / href, _INDEX_BYTES, sha256=sha256)
        key.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(scratch) / "key", key)
    return entry.read_text()


def files_of_dnf(repository: Repository, root: Path, key: Path) -> dict[str, tuple[str, int]]:
    """The packages of a dnf repository that was kept: where each is → its SHA-256 and its size in bytes.

    Raises:
        IndexUnreachableError: what was kept is not what the repository's key has signed.
    """
    folder = root / "repodata"
    with tempfile.TemporaryDirectory(prefix="gpuprov-index-") as scratch:
        _verify(repository, Path(scratch), ["--verify", str(folder / "repomd.xml.asc"), str(folder / "repomd.xml")], kept=key)
        _refuse_other_keys(repository, Path(scratch))
    lists = _lists_of_dnf(repository, folder / "repomd.xml")
    for kind, (href, sha256) in lists.items():
        if kind in _KEPT and _digest(root / href) != sha256:
            raise _refused(repository, f"{href} is not the file that its signed index lists")
    found: dict[str, tuple[str, int]] = {}
    for element in _packages_of_dnf(repository, root / lists["primary"][0]):
        where, digest, size = (element.find(f"{_COMMON}{name}") for name in ("location", "checksum", "size"))
        href = where.get("href", "") if where is not None else ""
        if digest is not None and digest.get("type") == "sha256" and digest.text and size is not None and _PLAIN.fullmatch(href):
            found[href] = (digest.text, int(size.get("package", "0")))
    return found


class _Bounded(io.RawIOBase):
    """A compressed file as it is unpacked, block by block, up to a bound: no line and no text between two tags is held beyond it."""

    def __init__(self, packed: Path) -> None:
        self._name, self._left, self._file = packed.name, _UNPACKED_BYTES, _OPENERS[packed.suffix](packed)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next block."""
        try:
            block = self._file.read(len(buffer))
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            msg = f"{self._name} cannot be unpacked: {error}"
            raise IndexUnreachableError(msg, hint=_STAYS) from error
        self._left -= len(block)
        if self._left < 0:
            msg = f"{self._name} is larger than {_UNPACKED_BYTES >> 20} MiB when it is unpacked"
            raise IndexUnreachableError(msg, hint=_STAYS)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        """Close the file below."""
        self._file.close()
        super().close()


def _unpacked(packed: Path) -> io.BufferedReader:
    return io.BufferedReader(_Bounded(packed), 1 << 16)


def _fetch(url: str, target: Path, most_bytes: int, *, sha256: str | None = None) -> Path:
    """Download a file within bounds; with `sha256`, only the file that has it."""
    digest, size = hashlib.sha256(), 0
    try:
        with requests.get(url, stream=True, timeout=_TIMEOUT_S) as answer, target.open("wb") as file:
            answer.raise_for_status()
            for block in answer.iter_content(1 << 16):
                size += len(block)
                if size > most_bytes:
                    msg = f"{url} is larger than {most_bytes >> 20} MiB"
                    raise IndexUnreachableError(msg, hint=_STAYS)
                digest.update(block)
                file.write(block)
    except requests.RequestException as error:
        msg = f"{url} gave no answer: {type(error).__name__}"
        raise IndexUnreachableError(msg, hint=f"check the network and the proxy (HTTPS_PROXY); {_STAYS}", detail=str(error)) from error
    if sha256 is not None and digest.hexdigest() != sha256:
        msg = f"{url} is not the file that the signed index lists"
        raise IndexUnreachableError(msg, hint=f"the repository may be changing right now: try again; {_STAYS}")
    return target


def _clearsigned(repository: Repository, signed: Path, folder: Path) -> str:
    """The text that a clear signature covers: what stands around it is not part of it."""
    _verify(repository, folder, ["--output", str(folder / "Release"), "--decrypt", str(signed)])
    return (folder / "Release").read_text()


def _verify(repository: Repository, folder: Path, command: list[str], kept: Path | None = None) -> None:
    """Verify a signature with the repository's key and no other, in a key ring of its own; `kept` is the key where it is here already."""
    gpg = shutil.which("gpg")
    if gpg is None:
        msg = "gpg is not installed here, and an index without a verified signature is not read"
        raise IndexUnreachableError(msg, hint="install gnupg")
    home = folder / "gnupg"
    home.mkdir(mode=0o700, exist_ok=True)
    base = [gpg, "--homedir", str(home), "--batch", "--no-tty", "--no-autostart", "--quiet"]
    trusted = {repository.fingerprint} if repository.fingerprint else set()
    if repository.keyring:
        key = Path(repository.keyring)
        if not key.is_file():
            raise _refused(repository, f"its keyring {key} is not on this machine")
    else:
        key = kept or _fetch(repository.key or "", folder / "key", _ENTRY_BYTES)
    try:
        subprocess.run([*base, "--import", str(key)], check=False, capture_output=True, timeout=_GPG_S)
        outcome = subprocess.run([*base, "--status-fd", "1", *command], check=False, capture_output=True, text=True, timeout=_GPG_S)
    except subprocess.TimeoutExpired as error:
        msg = f"gpg did not say within {_GPG_S} s whether the index of {repository.url} is signed"
        raise IndexUnreachableError(msg, hint=f"see whether `gpg --version` answers on this machine, and try again; {_STAYS}") from error
    # GOODSIG is missing where the key has expired or was revoked. VALIDSIG ends with the fingerprint of the primary key, whichever signed.
    status = [line.removeprefix("[GNUPG:] ").split() for line in outcome.stdout.splitlines() if line.startswith("[GNUPG:] ")]
    signers = {words[-1] for words in status if words[0] == "VALIDSIG"} if any(words[0] == "GOODSIG" for words in status) else set()
    if not signers or (trusted and not signers & trusted):
        raise _refused(repository, "its index is not signed with its key", outcome.stderr.strip())


def _digest(path: Path) -> str:
    """SHA-256 of a list; empty where it is none that could be read."""
    try:
        return hashlib.sha256(paths.read_bounded(path, _INDEX_BYTES)).hexdigest()
    except OSError:
        return ""


def _refuse_other_keys(repository: Repository, folder: Path) -> None:
    """Refuse a file that brought more keys than the one: whoever imports the file trusts all of them."""
    gpg = [shutil.which("gpg") or "gpg", "--homedir", str(folder / "gnupg"), "--batch", "--no-tty", "--no-autostart", "--quiet"]
    listed = subprocess.run([*gpg, "--with-colons", "--list-keys"], check=False, capture_output=True, text=True, timeout=_GPG_S).stdout
    kinds = [line.split(":") for line in listed.splitlines()]
    primary = [after[9] for before, after in itertools.pairwise(kinds) if before[0] == "pub" and after[0] == "fpr"]
    if primary != [repository.fingerprint]:
        raise _refused(repository, "its key file holds other keys than the one that is trusted")


def _refuse_expired(repository: Repository, release: str) -> None:
    """Refuse an index that says of itself that it is too old: somebody may be replaying it."""
    until = re.search(r"^Valid-Until: (.+)$", release, re.MULTILINE)
    if until and parsedate_to_datetime(until[1]) < dt.datetime.now(dt.UTC):
        raise _refused(repository, f"its index was valid until {until[1]}")


def _refused(repository: Repository, why: str, detail: str = "") -> IndexUnreachableError:
    return IndexUnreachableError(f"the repository {repository.url} is not read: {why}", hint=_STAYS, detail=detail)

"""The engine of a bundle: Ansible as it is installed here, as one packed layer for hosts of any architecture.

It has Python sources only. What some of these packages also have as compiled code is faster, and needed by none of the roles: so the layer
fits each host whose Python is new enough for Ansible. The same versions give the same bytes.
"""

import functools
import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from provision.errors import PlaybookFailedError
from provision.paths import cache_dir, read_bounded, write_whole
from provision.structs import Struct

# The distributions that Ansible and ansible-runner need on the host, with the package of each. `cryptography` is for vaults, which the
# roles have none of.
_PACKAGES: Final = {
    "ansible-core": "ansible",
    "ansible-runner": "ansible_runner",
    "jinja2": "jinja2",
    "markupsafe": "markupsafe",
    "pyyaml": "yaml",
    "packaging": "packaging",
    "resolvelib": "resolvelib",
    "pexpect": "pexpect",
    "ptyprocess": "ptyprocess",
    "python-daemon": "daemon",
    "lockfile": "lockfile",
}
_OURS: Final = (
    *("__init__.py", "converge/__init__.py", "converge/drive.py", "converge/processes.py"),
    *("converge/onhost/__init__.py", "converge/onhost/bundle.py", "converge/onhost/work.py"),
)
_LEFT_OUT: Final = frozenset({".pyc", ".so", ".pyi", ".c", ".pyx", ".typed"})
_MOST_FILE: Final = 8 << 20
_MOST_PACKED: Final = 64 << 20
_PACKAGE: Final = Path(__file__).parents[1]


class Layer(Struct):
    """One packed part of a bundle."""

    content: bytes
    sha256: str

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "Layer":
        """The layer of these files, path → content; the same bytes for the same files."""
        out = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            for path in sorted(files):
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(files[path]), 0o644
                archive.addfile(info, io.BytesIO(files[path]))
        return cls(out.getvalue(), hashlib.sha256(out.getvalue()).hexdigest())


@functools.cache
def least_python() -> str:
    """The oldest Python that this Ansible runs on, such as 3.11."""
    found = re.match(r">=\s*(\d+\.\d+)", importlib.metadata.metadata("ansible-core")["Requires-Python"] or "")
    return found[1] if found else "3.11"


@functools.cache
def engine() -> Layer:
    """The engine, packed once for each set of versions and kept in the cache.

    Raises:
        PlaybookFailedError: a package is not installed beside gpuprov.
    """
    named = [f"{name} {_version(name)}" for name in _PACKAGES]
    named += [hashlib.sha256(read_bounded(_PACKAGE / path, _MOST_FILE)).hexdigest() for path in _OURS]
    return kept_layer(named, lambda: dict(engine_files()))


def kept_layer(named: Sequence[str], files: Callable[[], Mapping[str, bytes]]) -> Layer:
    """A layer from the cache, or packed now and kept there.

    Args:
        named: what tells its content from that of every other layer.
        files: what it holds, path → content.
    """
    key = hashlib.sha256("\n".join(named).encode()).hexdigest()
    kept = cache_dir() / "engines" / f"{key[:32]}.tar.gz"
    try:
        content = read_bounded(kept, _MOST_PACKED)
        gzip.decompress(content)  # a file that a full disk cut short says so here
    except (OSError, EOFError, zlib.error):
        content = Layer.of(files()).content
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, content)
    return Layer(content, hashlib.sha256(content).hexdigest())


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        msg = f"{name} is not installed beside gpuprov"
        raise PlaybookFailedError(msg, hint="install gpuprov again: `pip install --force-reinstall gpuprov`") from None


def engine_files() -> Iterator[tuple[str, bytes]]:
    """The files of the engine."""
    for ours in _OURS:
        yield f"provision/{ours}", read_bounded(_PACKAGE / ours, _MOST_FILE)
    for name, package in _PACKAGES.items():
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            _version(name)
            msg = f"{package} has no files here"
            raise PlaybookFailedError(msg, hint="install gpuprov again: `pip install --force-reinstall gpuprov`")
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in _LEFT_OUT and "__pycache__" not in path.parts:
                yield f"{package}/{path.relative_to(folder)}", read_bounded(path, _MOST_FILE)
        # Jinja2's version is asked for by name; the licence and the authors travel with the code.
        metadata = importlib.metadata.distribution(name).read_text("METADATA") or f"Name: {name}\nVersion: {_version(name)}\n"
        yield f"{package}-{_version(name)}.dist-info/METADATA", metadata.encode()

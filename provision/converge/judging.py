"""The engine of a fleet's member: Ansible, and the part of gpuprov that observes and judges, with the libraries that it needs.

A member has nobody to ask, so it judges itself, with the code that judges here. Two of the libraries have compiled code, which fits one
version of Python on x86_64 Linux: those of this interpreter are taken as they are installed here, others from the package index.
"""

import functools
import hashlib
import importlib.metadata
import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from provision.catalog.wheels import PLATFORM, uv_environment, uv_program
from provision.converge.engine import Layer, engine_files, kept_layer
from provision.errors import IndexUnreachableError
from provision.paths import read_bounded

HERE: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The version of this Python."""
# What the rooms below import, found by importing them; tests/converge/test_judging.py does so without anything else.
_DISTRIBUTIONS: Final = (
    *("annotated-types", "filelock", "msgspec", "nvidia-ml-py", "platformdirs", "pydantic", "pydantic-core", "pyyaml"),
    *("typing-extensions", "typing-inspection"),
)
_ROOMS: Final = ("catalog", "clouds", "profile", "host", "verify", "converge")
_LEFT_OUT: Final = frozenset({".pyc", ".pyi", ".c", ".h", ".pyx", ".pxd", ".typed"})
_MOST_FILE: Final = 32 << 20
_INSTALL_S: Final = 300
_PACKAGE: Final = Path(__file__).parents[1]


@functools.cache
def judging_engine(python: str) -> Layer:
    """The engine with what judges, packed once for each Python and set of versions, and kept in the cache.

    Args:
        python: the version on the members, such as 3.12.

    Raises:
        IndexUnreachableError: the package index did not give the libraries for this Python.
    """
    ours = dict(_ours())
    named = ["judging", python, platform.machine(), *(f"{name}=={importlib.metadata.version(name)}" for name in _DISTRIBUTIONS)]
    named += [f"{path} {hashlib.sha256(content).hexdigest()}" for path, content in sorted(ours.items())]
    libraries = _installed if _fits_here(python) else _from_index
    return kept_layer(named, lambda: {**dict(engine_files()), **dict(libraries(python)), **ours})


def _fits_here(python: str) -> bool:
    return python == HERE and sysconfig.get_platform() == "linux-x86_64"


def _ours() -> Iterator[tuple[str, bytes]]:
    """What observes and judges, and the data that it reads."""
    files = [*_PACKAGE.glob("*.py"), *(path for room in _ROOMS for path in (_PACKAGE / room).rglob("*"))]
    for path in files:
        if path.is_file() and path.suffix not in _LEFT_OUT and path.name != "__main__.py":
            yield f"provision/{path.relative_to(_PACKAGE)}", read_bounded(path, _MOST_FILE)


def _installed(_python: str) -> Iterator[tuple[str, bytes]]:
    for name in _DISTRIBUTIONS:
        for file in importlib.metadata.distribution(name).files or ():
            if ".." not in file.parts and file.suffix not in _LEFT_OUT and "RECORD" not in file.parts:
                path = Path(str(file.locate()))
                if path.is_file():  # an installer may have left out what it lists
                    yield str(file), read_bounded(path, _MOST_FILE)


def _from_index(python: str) -> Iterator[tuple[str, bytes]]:
    """The same versions for another Python, as uv gets them from the user's index."""
    pins = [f"{name}=={importlib.metadata.version(name)}" for name in _DISTRIBUTIONS]
    with tempfile.TemporaryDirectory() as folder:
        command = [uv_program(), "pip", "install", "--quiet", "--no-deps", "--no-build", "--target", folder]
        command += ["--python-version", python, "--python-platform", PLATFORM, *pins]
        try:
            uv = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False, env=uv_environment())
            why = uv.stderr.strip() if uv.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            msg = f"the package index gave no libraries for Python {python}, which members judge themselves with"
            hint = "try again when the index answers (UV_INDEX_URL names another one), or give a --program of your own"
            raise IndexUnreachableError(msg, hint=hint, detail=why)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and path.suffix not in _LEFT_OUT and path.name not in {"RECORD", ".lock"}:
                yield str(path.relative_to(folder)), read_bounded(path, _MOST_FILE)

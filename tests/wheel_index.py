"""A package index of tiny wheels, which carry the names of real packages and nothing that computes."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["Index"]


class Index:
    """The index, served on an address; name → version → what it requires. A package may have a program of its own name, in Python."""

    def __init__(
        self,
        folder: Path,
        packages: dict[str, dict[str, tuple[str, ...]]],
        address: str = "127.0.0.1",
        programs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.pins: dict[str, str] = {}
        self.asked: list[str] = []  # the paths, as they come
        for name, versions in packages.items():
            links = ""
            (folder / "simple" / name).mkdir(parents=True)
            for version, requires in versions.items():
                wheel = folder / f"{name}-{version}-py3-none-any.whl"
                _wheel(wheel, name, version, requires, programs.get(name))
                digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
                self.pins[f"{name} {version}"] = f"{name}=={version} --hash=sha256:{digest}"
                links += f'<a href="/{wheel.name}#sha256={digest}">{wheel.name}</a>\n'
            (folder / "simple" / name / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
        handler = functools.partial(_Silent, self.asked, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer((address, 0), handler)
        self.url = f"http://{address}:{self.server.server_port}/simple"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self.server.shutdown()
        self.server.server_close()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def __init__(self, asked: list[str], *words: Any, **more: Any) -> None:
        self.asked = asked
        super().__init__(*words, **more)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002 - the library's words
        self.asked.append(self.path)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


def _wheel(path: Path, name: str, version: str, requires: tuple[str, ...], program: str | None) -> None:
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"__version__ = '{version}'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {r}\n" for r in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if program is not None:
        files[f"{name}/program.py"] = program
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {name}.program:main\n"
    rows = [
        f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for file, text in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)

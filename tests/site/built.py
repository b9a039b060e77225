"""The site, built once for all tests of it, and served on loopback as a web server would."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """`make docs`, into a folder of the test's own."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), "--config-file", str(ROOT / "mkdocs.yml")]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    return subprocess.run(words, cwd=folder.parent, env=variables, capture_output=True, text=True, check=False, timeout=600)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder on loopback; the address without a slash at its end."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()

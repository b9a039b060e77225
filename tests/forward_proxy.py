"""A forward proxy for plain HTTP, which remembers what went through it."""

from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
from typing import ClassVar

__all__ = ["ForwardProxy"]


class ForwardProxy:
    """The proxy, served on an address."""

    def __init__(self, address: str) -> None:
        self.asked: list[str] = []
        handler = type("Handler", (_Forwarding,), {"asked": self.asked})
        self._server = http.server.ThreadingHTTPServer((address, 0), handler)
        self.url = f"http://{address}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


class _Forwarding(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def do_GET(self) -> None:
        """Ask for the whole address that the request line has."""
        self.asked.append(self.path)
        try:
            with self.opener.open(self.path, timeout=60) as answer:
                status, body, kind = answer.status, answer.read(), answer.headers.get("Content-Type", "")
        except urllib.error.HTTPError as error:
            status, body, kind = error.code, error.read(), "text/plain"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass

"""A server between gpuprov and an embedded cloud that answers as a captive portal, a broken proxy or a wrong endpoint does.

A call reaches the cloud all the same: what it asks for is made, and nobody learns of it.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

Reply = tuple[int, str, bytes]
_PAGE: Final = b"<html><body><h1>Welcome</h1><p>Please accept the terms.</p></body></html>"
# What comes in the place of an answer: its status, its type and its body, from the body that the cloud gave.
KINDS: Final[dict[str, Callable[[int, bytes], Reply]]] = {
    "page": lambda _, __: (200, "text/html", b"<!DOCTYPE html>" + _PAGE + b"<br>"),
    "page-that-is-xml": lambda _, __: (200, "text/html", _PAGE),
    "redirect": lambda _, __: (302, "text/html", _PAGE),
    "forbidden": lambda _, __: (403, "text/html", _PAGE),
    "not-found": lambda _, __: (404, "text/html", _PAGE),
    "not-found-json": lambda _, __: (404, "application/json", b'{"error": "no route"}'),
    "empty": lambda _, __: (200, "text/plain", b""),
    "cut": lambda status, body: (status, "text/plain", body[: len(body) // 2]),
    "no-utf-8": lambda status, body: (status, "application/json", b'\xa4"'.join(body.rsplit(b'"', 1))),
    "nothing-in-it": lambda _, __: (200, "application/json", b"{}"),
    "list": lambda _, __: (200, "application/json", b"[]"),
    "other-json": lambda _, __: (200, "application/json", b'{"status": "ok", "items": 1, "droplets": 1, "droplet": 1}'),
    "deep": lambda _, __: (200, "application/json", b"[" * 100_000),
    "other-xml": lambda _, __: (200, "text/xml", b"<Answer><requestId>1</requestId><instancesSet>1</instancesSet></Answer>"),
}


class Portal:
    """The server; used as a context, its address is `url`.

    Args:
        endpoint: of the embedded cloud.

    Attributes:
        kind: which of `KINDS` comes instead of the cloud's answers; empty for none.
        left: how many answers are changed; None for all.
        spares: what the beginning of a request that is left alone matches: its verb, path and body.
        hears: is told each request, with its authorization, and the answer that the cloud gave.
        instead: gives the body that comes in the place of an answer's; None for its own.
    """

    def __init__(self, endpoint: str) -> None:
        self.kind, self.left = "", None if endpoint else 0
        self.spares: Callable[[str], bool] = lambda _: False
        self.hears: Callable[[str, str, Reply], None] = lambda *_: None
        self.instead: Callable[[Reply], bytes | None] = lambda _: None
        self._to, self._lock = urlsplit(endpoint), threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def stand_before(self, folder: Path, cloud: str) -> None:
        """Be the endpoint of a cloud for whoever reads where the embedded clouds of a folder are."""
        path = folder / "server.json"
        known = json.loads(path.read_text())
        known["access"][cloud]["endpoint_url"] = self.url
        path.write_text(json.dumps(known))

    def _due(self, request: str) -> bool:
        with self._lock:
            if not self.kind or self.left == 0 or self.spares(request):
                return False
            self.left = self.left if self.left is None else self.left - 1
            return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        portal = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path == "/portal":
                    self._answer(200, "text/html", _PAGE)
                    return
                upstream = http.client.HTTPConnection(portal._to.netloc, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                upstream.request(self.command, self.path, body, headers)
                reply = upstream.getresponse()
                answer, kind, status = reply.read(), reply.headers.get("Content-Type", "text/plain"), reply.status
                more = {k: v for k, v in reply.headers.items() if k.lower().startswith("x-am")}
                upstream.close()
                request = f"{self.command} {self.path} {body.decode(errors='replace')}"
                portal.hears(request, self.headers.get("Authorization", ""), (status, kind, answer))
                answer = portal.instead((status, kind, answer)) or answer
                if portal._due(request):
                    more = {}
                    status, kind, answer = KINDS[portal.kind](status, answer)
                self._answer(status, kind, answer, **more)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815 - names of the standard library

            def _answer(self, status: int, kind: str, body: bytes, **more: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if status == 302:
                    self.send_header("Location", f"{portal.url}/portal")
                for name, value in more.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

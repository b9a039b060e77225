"""A server between gpuprov and an embedded cloud that changes answers: an account that is not as the embedded cloud says.

What it changes is planted by a test, which then expects it on the list of differences. Everything else passes as it is.
"""

import base64
import http.client
import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from tests.cloud.deviations import Kind

_ERROR: Final = (
    "<Response><Errors><Error><Code>{code}</Code><Message>planted</Message></Error></Errors><RequestID>{code}</RequestID></Response>"
)
_TIMEOUT_S: Final = 60
Change = Callable[[bytes], bytes]


@dataclass
class Lie:
    """One change.

    Attributes:
        kind: how it appears on the list.
        action: of the calls to EC2 whose answers are changed.
        seen: what its line on the list contains.
        change: the body of an answer, changed.
        status, code: an error that is answered instead; a status of 0 closes the connection without an answer.
        times: how often; None for always.
    """

    kind: Kind
    action: str
    seen: str
    change: Change | None = None
    status: int | None = None
    code: str = ""
    times: int | None = None
    told: int = field(default=0, compare=False)


def without(tag: str) -> Change:
    """Leave an element out."""
    pattern = re.compile(rf"<{tag}>.*?</{tag}>|<{tag}/>".encode(), re.DOTALL)
    return lambda body: pattern.sub(b"", body)


def replaced(before: str, after: str) -> Change:
    """Replace words."""
    return lambda body: body.replace(before.encode(), after.encode())


def without_tag(key: str) -> Change:
    """Leave a tag out of every set of tags."""
    pattern = re.compile(
        rf"<item>\s*(<resourceId>[^<]*</resourceId>\s*<resourceType>[^<]*</resourceType>\s*)?<key>{key}</key>.*?</item>".encode(), re.DOTALL
    )
    return lambda body: pattern.sub(b"", body)


def without_key(kind: str) -> Change:
    """Leave the lines with a host key of a kind out of a console."""

    def change(body: bytes) -> bytes:
        match = re.search(rb"<output>([^<]*)</output>", body)
        if match is None:
            return body
        lines = base64.b64decode(match[1]).splitlines(keepends=True)
        fewer = b"".join(line for line in lines if f"{kind} AAAA".encode() not in line)
        return body.replace(match[1], base64.b64encode(fewer))

    return change


def lies() -> list[Lie]:
    """Ten ways in which an account may differ, none of which keeps the story from its end."""
    return [
        Lie(Kind.ERROR, "DescribeInstances", "RequestLimitExceeded", status=503, code="RequestLimitExceeded", times=1),
        Lie(Kind.ERROR, "RunInstances", "InsufficientInstanceCapacity", status=500, code="InsufficientInstanceCapacity", times=1),
        Lie(Kind.ERROR, "DescribeTags", "InternalError", status=500, code="InternalError", times=1),
        Lie(Kind.ERROR, "DescribeSecurityGroups", "ConnectionClosedError", status=0, times=1),
        Lie(Kind.FIELD_MISSING, "DescribeInstances", "Reservations[].Instances[].Architecture", without("architecture")),
        Lie(
            Kind.FIELD_NEW,
            "DescribeInstances",
            "Reservations[].Instances[].TpmSupport",
            replaced("<instanceType>", "<tpmSupport>v2.0</tpmSupport><instanceType>"),
        ),
        Lie(Kind.TAG_MISSING, "DescribeInstances", "Tags[cloud-test]", without_tag("cloud-test"), times=None),
        Lie(Kind.WORD, "DescribeInstances", "Ebs.Status", replaced("<status>attached</status>", "<status>busy</status>")),
        Lie(Kind.CONSOLE, "GetConsoleOutput", "ssh-ed25519", without_key("ecdsa-sha2-nistp256")),
        Lie(Kind.REQUEST_ID, "DescribeVolumes", "the id of the request", without("requestId")),
    ]


class Liar:
    """The server; used as a context, its address is `url`.

    Args:
        endpoint: of the embedded cloud.
        lies: what is changed.
    """

    def __init__(self, endpoint: str, lies: Sequence[Lie]) -> None:
        self.lies, self._to = list(lies), urlsplit(endpoint)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def stand_before(self, folder: Path) -> None:
        """Be the endpoint of AWS for whoever reads where the embedded cloud of a folder is."""
        path = folder / "server.json"
        told = json.loads(path.read_text())
        told["access"]["aws"]["endpoint_url"] = self.url
        path.write_text(json.dumps(told))

    def _due(self, action: str) -> list[Lie]:
        with self._lock:
            due = [lie for lie in self.lies if lie.action == action and (lie.times is None or lie.told < lie.times)]
            for lie in due:
                lie.told += 1
            return due

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        liar = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                action = parse_qs(body.decode(errors="replace")).get("Action", [""])[0]
                lies = liar._due(action)
                instead = next((lie for lie in lies if lie.status is not None), None)
                if instead is not None and instead.status == 0:
                    self.close_connection = True
                    self.connection.close()
                    return
                if instead is not None:
                    self._answer(int(instead.status or 0), "text/xml", _ERROR.format(code=instead.code).encode())
                    return
                upstream = http.client.HTTPConnection(liar._to.hostname or "", liar._to.port, timeout=_TIMEOUT_S)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                upstream.request(self.command, self.path, body, headers)
                reply = upstream.getresponse()
                answer, kind = reply.read(), reply.headers.get("Content-Type", "text/xml")
                more = {name: value for name, value in reply.headers.items() if name.lower().startswith("x-am")}
                upstream.close()
                for lie in lies:
                    answer = lie.change(answer) if lie.change else answer
                self._answer(reply.status, kind, answer, **more)

            def _answer(self, status: int, kind: str, body: bytes, **more: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                for name, value in more.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        return Handler

"""What clouds answer: recorded from the embedded ones, changed in one place, and given back to a command that asks.

Whoever may tag machines writes a part of it, and a proxy or another service any of it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import parse_qsl, urlsplit

import tenacity
import yaml

from provision import paths
from provision.cli import main
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import up
from tests.clouds.digitalocean.rig import DigitalOceanRig
from tests.clouds.portal import KINDS, Portal, Reply
from tests.embedded import Embedded

CLOUDS: Final = ("aws", "gcp", "digitalocean")
PLACES: Final = {
    "aws": {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["ap-southeast-1"]},
    "gcp": {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": ["asia-east2-a"]},
}
WORDS: Final = (
    ("ls", "--rehearse"),
    ("ls", "--rehearse", "--json", "--tag", "a=b"),
    ("cost", "--rehearse"),
    ("sweep", "--rehearse", "--dry-run", "--all-owners"),
    *(("extend", cloud, "1h") for cloud in PLACES),
    *(("down", cloud, "--yes") for cloud in PLACES),
    ("down", "droplet", "--rehearse", "--yes"),
)
# Of a request: what is another one each time.
_OWN: Final = re.compile(r"token|request|until|since|time|date", re.IGNORECASE)
Answers = Mapping[str, tuple[Reply, ...]]


@dataclass(frozen=True)
class Recorded:
    """What each command asked and was answered, gpuprov's own files before it, and how it reached the clouds."""

    answers: dict[tuple[str, ...], dict[str, tuple[Reply, ...]]]
    files: dict[str, bytes]
    access: dict[str, dict[str, str]]


def key_of(request: str, authorization: str) -> str:
    """A request without what is another one each time."""
    verb, path, body = (*request.split(" ", 2), "")[:3]
    parts = urlsplit(path)
    asked = parse_qsl(parts.query) + (parse_qsl(body) if "Action=" in body else [])
    region = re.search(r"Credential=[^/]*/[^/]*/([^/]*)/", authorization)
    return " ".join([verb, parts.path, region[1] if region else "", *(f"{k}={v}" for k, v in sorted(asked) if not _OWN.search(k))])


@functools.cache
def recorded() -> Recorded:
    """Play each command once before embedded clouds with a machine each."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home = folder / "gpuprov"
        stack.enter_context(mock.patch.dict("os.environ", {"GPUPROV_HOME": str(home), "GPUPROV_SSH_CONFIG": str(folder / "ssh")}))
        stack.enter_context(mock.patch.object(up, "CONSOLE_S", 0.2))
        embedded = Embedded()
        stack.callback(embedded.close)
        rehearsal = embedded.start(home / "rehearsal")
        stack.callback(control.stop, home / "rehearsal")
        slow = {"gce_guest_attributes_s": 3600.0, "gce_operation_s": 0.05, "do_active_s": 0.1}
        control.ask(rehearsal, "settings", method="PUT", body={**slow, "do_tags_s": 0.0, "do_unseen_s": 0.0})
        for cloud, place in PLACES.items():
            data = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
            (folder / "p.yml").write_text(yaml.safe_dump({**data, "places": [place]}))
            run(("up", "--profile", str(folder / "p.yml"), "--rehearse", cloud, "--name", cloud, "--without-gpu"))
        DigitalOceanRig(rehearsal).cloud().launch(DigitalOceanRig(rehearsal).order("droplet"))
        files = {str(path.relative_to(home)): path.read_bytes() for path in (home / "launches").rglob("*.json")}
        heard: defaultdict[str, list[Reply]] = defaultdict(list)
        for cloud in CLOUDS:
            portal = stack.enter_context(Portal(rehearsal.endpoints[cloud]))
            portal.hears = lambda request, by, reply: heard[key_of(request, by)].append(reply)
            portal.stand_before(home / "rehearsal", cloud)
        answers = {}
        for words in WORDS:
            heard.clear()
            run(words)
            answers[words] = {key: tuple(replies) for key, replies in heard.items()}
        assert len(files) == len(PLACES), "a launch left no record"
        assert all(answers.values()), "a command asked nobody"
        return Recorded(answers, files, rehearsal.access)


def run(words: tuple[str, ...]) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        main(words)


class Clock:
    """Time that passes while somebody sleeps, and not otherwise."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


@contextlib.contextmanager
def given(answers: Answers) -> Iterator[int]:
    """Be the embedded clouds that run, and answer so; gives the port of the server that does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answers))
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client may go away
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    loopback = re.compile(r"^http://127\.0\.0\.1:\d+")
    access = {cloud: {k: loopback.sub(url, v) for k, v in values.items()} for cloud, values in recorded().access.items()}
    there = Rehearsal(0, paths.state_dir() / "rehearsal", "", dict.fromkeys(CLOUDS, url), access, {})
    clock = Clock()
    threading.stack_size(1 << 18)  # the stacks of a hundred threads count as memory of the case
    try:
        with (
            mock.patch.object(control, "running", return_value=there),
            mock.patch.object(tenacity.nap, "time", clock),
            mock.patch.object(tenacity, "time", clock),
        ):
            yield server.server_port
    finally:
        threading.stack_size(0)
        server.shutdown()
        server.server_close()


def _handler(answers: Answers) -> type[BaseHTTPRequestHandler]:
    turns: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = key_of(f"{self.command} {self.path} {body.decode(errors='replace')}", self.headers.get("Authorization", ""))
            replies = answers.get(key) or (KINDS["not-found-json"](404, b""),)
            status, kind, content = replies[min(turns[key], len(replies) - 1)]
            turns[key] += 1
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("x-amzn-RequestId", "1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - names of the standard library

    return Handler

"""The embedded GCP's front: checks each request, logs it, lets it fail as the faults say, and answers it.

One call log and one set of faults are shared with the embedded EC2 (server.py).
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from werkzeug.serving import WSGIRequestHandler

from provision.rehearsal.faults import Fault, Faults, hang_up, wait
from provision.rehearsal.gce import bulk, discovery, instances, lifecycle, networking, offered, operations, permissions, quota
from provision.rehearsal.gce.refusals import Refused, invalid
from provision.rehearsal.gce.world import Call, Handler, Park, Place, Settings, World, last

__all__ = ["Api", "Quiet", "new_world"]

Environ = dict[str, Any]
Own = Callable[[Environ, bytes, Callable[..., Any]], Iterable[bytes]]
_MODULES: Final = (bulk, instances, lifecycle, networking, offered, operations, quota)
_HANDLERS: Final[dict[str, Handler]] = {method: handler for module in _MODULES for method, handler in module.HANDLERS.items()}
_SCOPES: Final = {"project", "zone", "region"}
_BEYOND: Final = {"orderBy", "sourceInstanceTemplate", "sourceMachineImage"}  # known to Google, and better refused than ignored
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAX_CALLS: Final = 10_000
_FAULTS: Final = ("error", "html", "drop", "lost", "delay", "operation")


class Quiet(WSGIRequestHandler):
    """The server's handler: what is asked stands in the call log."""

    def log(self, *_: Any) -> None:
        """Say nothing."""


def new_world(settings: Settings, park: Park | None) -> World:
    """A fresh project: its default network, and nothing else."""
    made = World(settings, park)
    networking.seed(made)
    return made


class Api:
    """WSGI.

    Args:
        held: what it speaks about.
        faults, calls: shared with the embedded EC2.
        own: answers the rehearsal's own paths.
    """

    def __init__(self, held: World, faults: Faults, calls: list[dict[str, Any]], own: Own) -> None:
        self._world = held
        self._faults = faults
        self._calls = calls
        self._own = own
        self._discovery = discovery.load()

    def __call__(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ["PATH_INFO"].startswith("/_rehearsal/"):
            return self._own(environ, raw, start)
        log: dict[str, Any] = {"time": time.time(), "action": "", "region": "global", "path": environ["PATH_INFO"]}
        self._calls.append(log)
        del self._calls[:-_MAX_CALLS]
        try:
            status, answer = self._answer(environ, raw, log)
        finally:
            log["seconds"] = time.time() - log["time"]
        kind = "application/json; charset=UTF-8" if answer[:1] == b"{" else "text/html"
        start(f"{int(status)} {HTTPStatus(status).phrase}", [("Content-Type", kind), ("Content-Length", str(len(answer)))])
        return [answer]

    def _answer(self, environ: Environ, raw: bytes, log: dict[str, Any]) -> tuple[int, bytes]:
        try:
            call = self._read(environ, raw, log)
            fault = self._faults.next_for(log["action"], log["region"], _words(call), _FAULTS)
            if fault is None:
                return HTTPStatus.OK, self._do(call)
            return self._failing(fault, call, environ)
        except Refused as refused:
            log["refused"] = refused.reason
            return refused.http, json.dumps(refused.body()).encode()

    def _read(self, environ: Environ, raw: bytes, log: dict[str, Any]) -> Call:
        """The call that a request is, checked against Google's document, with what the log says of it."""
        method, path = self._discovery.find(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        log |= {"action": method.id, "region": path.get("zone") or path.get("region") or "global"}
        log |= {"requestId": query["requestId"]} if "requestId" in query else {}
        try:
            body = json.loads(raw) if raw else {}
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "parseError", f"Parse Error: {error}") from error
        name = body.get("name") if isinstance(body, dict) else None
        name = name or next((value for key, value in reversed(path.items()) if key not in _SCOPES), None)
        log |= {"name": name} if name else {}
        self._discovery.check_query(method, query)
        self._discovery.check_body(method, body)
        return Call(self._world, method, path, query, body)

    def _do(self, call: Call) -> bytes:
        """Carry a call out, once for each request id."""
        offered.require_scope(call)
        permissions.enforce(call)
        handler = _HANDLERS.get(call.method.id)
        beyond = sorted(_BEYOND & call.query.keys())
        if handler is None or beyond:
            words = f"The embedded GCP does not do {call.method.id}{' with ' if beyond else ''}{', '.join(beyond)}"
            raise Refused(HTTPStatus.NOT_IMPLEMENTED, "notImplemented", words)
        with self._world.lock:
            answer = self._again(call) or self._first(call, handler)
            self._discovery.check_answer(call.method, answer)
            return json.dumps(answer).encode()

    def _again(self, call: Call) -> dict[str, Any] | None:
        """The operation of the same request asked before.

        Raises:
            Refused: the request id is none, or was used for something else.
        """
        asked = call.query.get("requestId")
        if asked is None:
            return None
        if not _UUID.fullmatch(asked) or uuid.UUID(asked).int == 0:
            raise invalid("requestId", asked, "It must be a valid UUID other than zero.")
        before = self._world.again.get((call.path["project"], asked))
        if before is None:
            return None
        if before[0] != _asked(call):
            raise invalid("requestId", asked, "The request id was used for another request.")
        return dict(self._world.get(before[1]))

    def _first(self, call: Call, handler: Handler) -> dict[str, Any]:
        answer = handler(call)
        if "requestId" in call.query and answer.get("kind") == "compute#operation":
            place = Place(call.path["project"], call.scope, "operations", answer["name"])
            self._world.again[call.path["project"], call.query["requestId"]] = (_asked(call), place)
        return answer

    def _failing(self, fault: Fault, call: Call, environ: Environ) -> tuple[int, bytes]:
        wait(fault)
        if fault.kind == "html":
            return HTTPStatus.BAD_GATEWAY, b"<html><body><h1>502 Bad Gateway</h1></body></html>"
        if fault.kind == "error":
            raise Refused(fault.http, fault.code, fault.message or fault.code)
        if fault.kind == "drop":
            hang_up(environ["werkzeug.socket"], fault)
        if fault.kind == "operation":
            failed = operations.failure(fault.code, fault.message or fault.code, http=fault.http, details=fault.details)
            return HTTPStatus.OK, self._do(replace(call, failing=failed))
        answer = self._do(call)
        if fault.kind == "lost":
            hang_up(environ["werkzeug.socket"], fault)
        return HTTPStatus.OK, answer


def _words(call: Call) -> dict[str, str]:
    """What a fault's `params` may ask for: path, query, and what the body says in plain text, with links as names."""
    plain = {key: value for key, value in call.body.items() if isinstance(value, str)}
    machine = call.body.get("instanceProperties", call.body).get("machineType")
    return {**plain, **call.query, **call.path, **({"machineType": last(machine)} if machine else {})}


def _asked(call: Call) -> str:
    return json.dumps([call.method.id, call.path, call.body], sort_keys=True)

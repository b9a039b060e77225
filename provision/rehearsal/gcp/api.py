"""The embedded GCP's front: checks each request, logs it, lets it fail as the faults say, and answers it."""

import hmac
import json
import re
import uuid
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qsl

from werkzeug import Response
from werkzeug.datastructures import Authorization
from werkzeug.wsgi import get_input_stream

from provision.rehearsal.base import Environ, Start, Traffic
from provision.rehearsal.faults import KINDS, Fault, strike
from provision.rehearsal.gcp import (
    baking,
    bindings,
    bulk,
    capacity,
    discovery,
    groups,
    instances,
    launch,
    networks,
    offers,
    operations,
    os_login,
    permissions,
    probes,
    project_policy,
    quota,
    skus,
    storage,
    templates,
    unkind,
)
from provision.rehearsal.gcp.metadata import CERTS, MetadataServer
from provision.rehearsal.gcp.refusals import ComputeError, invalid, not_implemented
from provision.rehearsal.gcp.world import GcpCall, Handler, ResourcePath, World, last
from provision.structs import replace

_MODULES: Final = (
    *(baking, bulk, capacity, groups, instances, launch, networks, offers),
    *(operations, os_login, project_policy, probes, quota, skus, storage, templates),
)
_HANDLERS: Final[dict[str, Handler]] = {method: handler for module in _MODULES for method, handler in module.HANDLERS.items()}
_BEYOND: Final = {"orderBy", "sourceInstanceTemplate", "sourceMachineImage"}  # Google has them: better refused than ignored
_UPLOAD: Final = "/upload/"
_STORAGE: Final = ("/storage/", _UPLOAD)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class GcpApi:
    """WSGI over a world."""

    def __init__(self, world: World, traffic: Traffic, metadata: MetadataServer) -> None:
        self._world = world
        self._metadata = metadata
        self._traffic = traffic
        self._discovery = discovery.load()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        if environ["PATH_INFO"] == CERTS:
            return self._metadata.certificates()(environ, start)
        with self._traffic.record(action="", region="global", path=environ["PATH_INFO"]) as log:
            response = self._answer(environ, get_input_stream(environ).read(), log)
        return response(environ, start)

    def _answer(self, environ: Environ, raw: bytes, log: dict[str, Any]) -> Response:
        try:
            call = self._read(environ, raw, log)
            fault = self._traffic.faults.next_for(log["action"], log["region"], _params(call), KINDS)
            if fault is None:
                return self._do(call, log)
            return strike(fault, environ, carry_out=lambda: self._do(call, log), refuse=lambda: self._refuse(fault, call, log))
        except ComputeError as error:
            log["refused"] = error.reason
            return _json(error.body(), error.http)

    def _read(self, environ: Environ, raw: bytes, log: dict[str, Any]) -> GcpCall:
        """The call that a request is, checked against Google's document, with what the log says of it."""
        raw_path, where = str(environ.get("REQUEST_URI", "")).partition("?")[0], str(environ["PATH_INFO"])
        # The name of an object is one part of the path, whatever slashes it has.
        method, path = self._discovery.find(environ["REQUEST_METHOD"], raw_path if where.startswith(_STORAGE) else where)
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        log |= {"action": method.id, "region": path.get("zone") or path.get("region") or "global"}
        log |= {"requestId": query["requestId"]} if "requestId" in query else {}
        upload, given = where.startswith(_UPLOAD), Authorization.from_header(environ.get("HTTP_AUTHORIZATION"))
        try:
            body = json.loads(raw) if raw and not upload else {}
        except ValueError as error:
            raise ComputeError("parseError", f"Parse Error: {error}") from error
        call = GcpCall(self._world, method, path, query, body, raw=raw if upload else b"", token=(given.token or "") if given else "")
        name = (body.get("name") if isinstance(body, dict) else None) or call.name
        log |= {"name": name} if name else {}
        self._discovery.check_query(method, query)
        self._discovery.check_body(method, body)
        return call

    def _do(self, call: GcpCall, log: dict[str, Any]) -> Response:
        """Carry a call out, once for each request id."""
        self._authorise(call)
        offers.require_scope(call)
        handler = _HANDLERS.get(call.method.id)
        beyond = sorted(_BEYOND & call.query.keys())
        if handler is None or beyond:
            raise not_implemented(call.method.id, beyond)
        with self._world.lock:
            answer = self._again(call) or self._first(call, handler)
            if isinstance(answer, Response):
                return answer
            self._discovery.check_answer(call.method, answer)
            log |= {"operation": answer["name"]} if answer.get("kind") == "compute#operation" else {}
            return _json(answer)

    def _authorise(self, call: GcpCall) -> None:
        """Refuse a token that nobody was given, and a call that its holder may not make; the owner's is that of the start."""
        if hmac.compare_digest(call.token.encode(), self._traffic.secret.encode()):
            permissions.enforce(call)
            return
        with self._world.lock:
            holder = self._metadata.holder(call.token)
            if holder is None:
                raise ComputeError("authError", "Invalid Credentials", http=401)
            bindings.enforce(call, holder[1])

    def _again(self, call: GcpCall) -> dict[str, Any] | None:
        """The operation that answered the same request before; a request id may not be used for something else."""
        request_id = call.query.get("requestId")
        if request_id is None:
            return None
        if not _UUID.fullmatch(request_id) or uuid.UUID(request_id).int == 0:
            raise invalid("requestId", request_id, "It must be a valid UUID other than zero.")
        request, place = self._world.answers.get((call.path["project"], request_id), ("", None))
        if place is None:
            return None
        if request != _request(call):
            raise invalid("requestId", request_id, "The request id was used for another request.")
        return dict(self._world.get(place))

    def _first(self, call: GcpCall, handler: Handler) -> Any:
        unkind.check_ready(call)
        if call.error is None and (fails := unkind.failure_of(call)):
            call = replace(call, error=operations.failure(*fails, http=400))
        answer = handler(call)
        if isinstance(answer, dict) and "requestId" in call.query and answer.get("kind") == "compute#operation":
            place = ResourcePath(call.path["project"], call.scope, "operations", answer["name"])
            self._world.answers[call.path["project"], call.query["requestId"]] = (_request(call), place)
        return answer

    def _refuse(self, fault: Fault, call: GcpCall, log: dict[str, Any]) -> Response:
        message = fault.message or fault.code
        if fault.kind == "error":
            raise ComputeError(fault.code, message, http=fault.http, details=fault.details)
        return self._do(replace(call, error=operations.failure(fault.code, message, http=fault.http, details=fault.details)), log)


def _json(answer: dict[str, Any], http: int = 200) -> Response:
    return Response(json.dumps(answer), http, content_type="application/json; charset=UTF-8")


def _params(call: GcpCall) -> dict[str, str]:
    """What the `params` of a fault can name: path, query and the strings of the body, the machine type without its link."""
    plain = {key: value for key, value in call.body.items() if isinstance(value, str)}
    machine = call.body.get("instanceProperties", call.body).get("machineType")
    return {**plain, **call.query, **call.path, **({"machineType": last(machine)} if machine else {})}


def _request(call: GcpCall) -> str:
    return json.dumps([call.method.id, call.path, call.body], sort_keys=True)

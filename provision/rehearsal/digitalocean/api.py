"""The embedded DigitalOcean's front: checks each request, logs it, lets it fail as the faults say, and answers it."""

import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qsl

from werkzeug import Response
from werkzeug.wsgi import get_host, get_input_stream

from provision.rehearsal.base import Environ, Start, Traffic, is_bearer
from provision.rehearsal.digitalocean import account, document, instances, launch, networks, offers, permissions, quota, volumes
from provision.rehearsal.digitalocean.refusals import DropletApiError, not_implemented
from provision.rehearsal.digitalocean.world import DropletCall, DropletWorld, Handler, new_uuid
from provision.rehearsal.faults import Fault, strike

_UNNAMED: Final = Fault("error").code
_MODULES: Final = (account, instances, launch, networks, offers, volumes)
_HANDLERS: Final[dict[str, Handler]] = {name: handler for module in _MODULES for name, handler in module.HANDLERS.items()}


class DropletApi:
    """WSGI over a world."""

    def __init__(self, world: DropletWorld, traffic: Traffic) -> None:
        self._world = world
        self._traffic = traffic
        self._document = document.load()
        self._rates = quota.RequestRates()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        with self._traffic.record(action="", region="global", path=environ["PATH_INFO"]) as log:
            response = self._answer(environ, get_input_stream(environ).read(), log)
        return response(environ, start)

    def _answer(self, environ: Environ, raw: bytes, log: dict[str, Any]) -> Response:
        headers: dict[str, str] = {}
        operation = None
        try:
            operation, path = self._document.find(environ["REQUEST_METHOD"], environ["PATH_INFO"])
            log["action"] = operation.id
            permissions.authenticate(self._world.settings, is_ours=is_bearer(environ, self._traffic.secret))
            headers, over = self._rates.count(self._world.settings, operation.id)
            if over:
                raise over
            texts = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
            base = f"{environ['wsgi.url_scheme']}://{get_host(environ)}{environ['PATH_INFO']}"
            query, body = self._document.query(operation, texts), self._document.body(operation, raw)
            call = DropletCall(self._world, operation, path, query, body, base)
            log |= _place(call)
            fault = self._traffic.faults.next_for(log["action"], log["region"], _params(call))
            if fault is None:
                return self._do(call, headers, log)
            return strike(fault, environ, carry_out=lambda: self._do(call, headers, log), refuse=lambda: _refuse(fault))
        except DropletApiError as error:
            log["refused"] = error.code
            answer = error.body(new_uuid())
            if operation:
                self._document.check_answer(operation, error.http, answer)
            return _json(error.http, answer, headers | error.headers)

    def _do(self, call: DropletCall, headers: dict[str, str], log: dict[str, Any]) -> Response:
        """Carry a call out, and hold the answer to the document."""
        lacks = permissions.missing(call)
        if lacks:
            log["scopes"] = lacks
            raise permissions.not_authorized()
        handler = _HANDLERS.get(call.operation.id)
        if handler is None:
            raise not_implemented(call.operation.id)
        with self._world.lock:
            status, answer = handler(call)
            self._document.check_answer(call.operation, status, answer)
            return _json(status, answer, headers)


def _json(status: int, answer: dict[str, Any] | None, headers: dict[str, str]) -> Response:
    text = "" if answer is None else json.dumps(answer)
    return Response(text, status, headers=headers, content_type="application/json; charset=utf-8")


def _refuse(fault: Fault) -> Response:
    code = "" if fault.code == _UNNAMED else fault.code  # then it is the word of the status
    raise DropletApiError(fault.http, fault.message or fault.code, code=code)


def _place(call: DropletCall) -> dict[str, Any]:
    """What the log says of a call besides its action: the region, and the name that it makes or lists."""
    droplet = call.world.droplets.get(call.path.get("droplet_id", 0))
    region = call.body.get("region") or call.query.get("region") or (droplet.region if droplet else "")
    name = call.body.get("name") or call.query.get("name") or (droplet.shown["name"] if droplet else "")
    return {**({"region": region} if region else {}), **({"name": name} if name else {})}


def _params(call: DropletCall) -> dict[str, str]:
    """What the `params` of a fault can name: path, query and the plain values of the body."""
    plain = {key: value for key, value in call.body.items() if isinstance(value, str | int)}
    return {key: str(value) for key, value in {**plain, **call.query, **call.path}.items()}

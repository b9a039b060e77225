"""The embedded AWS's front: logs each request, lets it fail as the faults or its permissions say, and hands it to moto."""

import html
import io
import json
import re
import urllib.parse
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from werkzeug import Response
from werkzeug.wsgi import get_input_stream

from provision.rehearsal.aws import identities, keys, permissions, pricelist
from provision.rehearsal.aws.permissions import AwsCall, Need
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import error_xml, tags_of
from provision.rehearsal.base import Environ, Start, Traffic, Wsgi
from provision.rehearsal.faults import Fault, strike

_LOGGED: Final = ("InstanceType", "ClientToken", "ImageId", "DryRun", "Name", "KeyName", "GroupId", "GroupName", "AutoScalingGroupName")
_REQUEST_ID: Final = re.compile(rb"<[rR]equestI[dD]>([^<]*)</[rR]equestI[dD]>")


class AwsApi:
    """WSGI in front of moto."""

    def __init__(self, moto: Wsgi, settings: AwsSettings, traffic: Traffic, asked: Callable[[AwsCall], Iterable[Need]]) -> None:
        self._moto = moto
        self._asked = asked
        self._settings = settings
        self._traffic = traffic

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        body = get_input_stream(environ).read()
        environ["wsgi.input"] = io.BytesIO(body)
        call = _read(environ, body)
        fields = {key: call.params[key] for key in _LOGGED if key in call.params}
        with self._traffic.record(action=call.action, region=call.region, **fields) as log:
            fault = self._traffic.faults.next_for(call.action, call.region, call.params) or self._refusal(call)
            if fault is None and environ.get("HTTP_X_AMZ_TARGET", "").startswith(pricelist.TARGET):
                return pricelist.answer(call.action, body)(environ, start)
            if fault is None:
                return _identified(Response.from_app(self._moto, environ, buffered=True), log)(environ, start)
            answer = strike(
                fault,
                environ,
                carry_out=lambda: _identified(Response.from_app(self._moto, environ, buffered=True), log),
                refuse=lambda: _identified(_error(fault, json_protocol=bool(environ.get("HTTP_X_AMZ_TARGET"))), log),
            )
            return answer(environ, start)

    def _refusal(self, call: AwsCall) -> Fault | None:
        """The answer to a call that these credentials may not make, as a fault."""
        if call.region in self._settings.not_opted_in:
            words = "AWS was not able to validate the provided access credentials"
            return Fault("error", code="AuthFailure", message=words, http=401)
        policy, more = (
            self._settings.allowed,
            (*keys.asked(call, self._settings), *identities.asked(call, self._settings), *self._asked(call)),
        )
        words = permissions.refusal(policy, call, tags_of, more) if policy is not None else ""
        if self._settings.guardrail is not None:
            words = permissions.denial(self._settings.guardrail, call, tags_of, more) or words
        if not words:
            return None
        if call.service == "autoscaling":
            return Fault("error", code="AccessDenied", message=words, http=403)
        if call.service != "ec2":
            return Fault("error", code="AccessDeniedException", message=words)
        return Fault("error", code="UnauthorizedOperation", message=f"You are not authorized to perform this operation. {words}", http=403)


def _identified(response: Response, log: dict[str, Any]) -> Response:
    """The answer under an id of its own, which the log has too, as CloudTrail has that of each call; moto's templates have one for all."""
    found = _REQUEST_ID.search(response.get_data()) if response.mimetype == "text/xml" else None
    if found:
        log["requestId"] = str(uuid.uuid4())
        raw = response.get_data()
        response.set_data(raw[: found.start(1)] + log["requestId"].encode() + raw[found.end(1) :])
    return response


def _error(fault: Fault, *, json_protocol: bool) -> Response:
    """A fault's error, as EC2 (XML) or SSM (JSON) would send it."""
    message = fault.message or fault.code
    if json_protocol:
        return Response(json.dumps({"__type": fault.code, "message": message}), fault.http, content_type="application/x-amz-json-1.1")
    return Response(error_xml(fault.code, html.escape(message, quote=False)), fault.http, content_type="text/xml")


def _read(environ: Environ, body: bytes) -> AwsCall:
    """The call that a request is, in EC2's query protocol or SSM's JSON; service and region are those of its signature."""
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    params: dict[str, Any] = dict(urllib.parse.parse_qsl(body.decode("latin-1")))
    action = params.get("Action") or target.rpartition(".")[2]
    if target:
        params = {key: value for key, value in json.loads(body or b"{}").items() if isinstance(value, str)}
    scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    region, service = scope.groups() if scope else ("", "")
    return AwsCall(service, action, region, params)

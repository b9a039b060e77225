"""The embedded AWS's front: logs each request, lets it fail as the faults or its permissions say, and hands it to moto."""

import datetime as dt
import html
import io
import json
import re
import urllib.parse
import uuid
from collections.abc import Iterable
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from werkzeug import Response
from werkzeug.wsgi import get_input_stream

from provision.rehearsal.aws import (
    baking,
    buckets,
    group_needs,
    identities,
    keys,
    late,
    metadata,
    permissions,
    pricelist,
    refusals,
    service_roles,
    signatures,
)
from provision.rehearsal.aws.metadata import Metadata
from provision.rehearsal.aws.permissions import AwsCall
from provision.rehearsal.aws.scaling import Engine
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import error_xml, tags_of
from provision.rehearsal.base import Environ, Start, Traffic, Wsgi
from provision.rehearsal.faults import Fault, strike

_LOGGED: Final = ("InstanceType", "ClientToken", "ImageId", "DryRun", "Name", "KeyName", "GroupId", "GroupName", "AutoScalingGroupName")
_OF_A_ROLE: Final = "ASIA"  # what the ids of temporary credentials begin with
OWNERS_KEY: Final = "rehearsal"  # the id of the owner's access key; its secret is that of the start
_REQUEST_ID: Final = re.compile(rb"<[rR]equestI[dD]>([^<]*)</[rR]equestI[dD]>")


class AwsApi:
    """WSGI in front of moto."""

    def __init__(self, moto: Wsgi, settings: AwsSettings, traffic: Traffic, groups: Engine, given: Metadata) -> None:
        self._moto = moto
        self._groups = groups
        self._metadata = given
        self._settings = settings
        self._traffic = traffic

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        body = get_input_stream(environ).read()
        environ["wsgi.input"] = io.BytesIO(body)
        call = _read(environ, body)
        fields = {key: call.params[key] for key in _LOGGED if key in call.params}
        with self._traffic.record(action=call.action, region=call.region, **fields) as log:
            fault = self._traffic.faults.next_for(call.action, call.region, call.params)
            key_id = signatures.key_id_of(environ)
            fault = fault or self._unsigned(environ, body)
            if fault is None and call.service == "s3" and key_id == OWNERS_KEY:
                buckets.ensure(call, self._settings.missing)
            fault = fault or buckets.moved(call) or self._refusal(call, key_id)
            fault = fault or refusals.refusal(call, self._settings) or late.refusal(call, self._settings)
            holder = self._metadata.holder(key_id) if call.action == "GetCallerIdentity" else None
            if fault is None and holder:
                return _identified(metadata.identity(*holder), log)(environ, start)
            if fault is None and environ.get("HTTP_X_AMZ_TARGET", "").startswith(pricelist.TARGET):
                return pricelist.answer(call.action, body)(environ, start)
            if fault is None and call.action == "SimulatePrincipalPolicy":
                return _identified(identities.simulated(call, self._settings), log)(environ, start)
            if fault is None:
                return _identified(Response.from_app(self._moto, environ, buffered=True), log)(environ, start)
            answer = strike(
                fault,
                environ,
                carry_out=lambda: _identified(Response.from_app(self._moto, environ, buffered=True), log),
                refuse=lambda: _identified(_error(fault, call, json_protocol=bool(environ.get("HTTP_X_AMZ_TARGET"))), log),
            )
            return answer(environ, start)

    def _unsigned(self, environ: Environ, body: bytes) -> Fault | None:
        """The answer to a request whose signature does not hold."""
        code, words = signatures.complaint(environ, body, self._secret_of, dt.datetime.now(dt.UTC))
        return Fault("error", code=code, message=words, http=400 if code == "BadDigest" else 403) if code else None

    def _secret_of(self, key_id: str, token: str) -> str | None:
        return self._traffic.secret if key_id == OWNERS_KEY and not token else self._metadata.secret_of(key_id, token)

    def _refusal(self, call: AwsCall, key_id: str) -> Fault | None:
        """The answer to a call that these credentials may not make, as a fault."""
        if call.region in self._settings.not_opted_in:
            words = "AWS was not able to validate the provided access credentials"
            return Fault("error", code="AuthFailure", message=words, http=401)
        policy, user = self._policy_of(key_id)
        of_keys = (*keys.asked(call, self._settings), *identities.asked(call, self._settings))
        of_keys = (*of_keys, *baking.asked(call, self._settings))
        more = (*of_keys, *group_needs.asked(self._groups, call, self._settings), *buckets.asked(call, self._settings))
        words = permissions.refusal(policy, call, tags_of, more, user) if policy is not None else ""
        if self._settings.guardrail is not None:
            words = permissions.denial(self._settings.guardrail, call, tags_of, more) or words
        if not words:
            if call.action == "CreateAutoScalingGroup":
                service_roles.made(service_roles.AUTO_SCALING, self._settings)
            return None
        if call.service in {"autoscaling", "s3"}:
            return Fault("error", code="AccessDenied", message=words, http=403)
        if call.service != "ec2":
            return Fault("error", code="AccessDeniedException", message=words)
        return Fault("error", code="UnauthorizedOperation", message=f"You are not authorized to perform this operation. {words}", http=403)

    def _policy_of(self, key_id: str) -> tuple[dict[str, Any] | None, str]:
        """The policy that holds whoever has these credentials, and who that is to it; a role without a policy may do nothing."""
        if not key_id.startswith(_OF_A_ROLE):
            return self._settings.allowed, ""
        instance_id, role, role_id = self._metadata.holder(key_id) or ("", "", "")
        document = self._settings.role_policies.get(role, {"Version": "2012-10-17", "Statement": []})
        # docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html: of a role, aws:userid is ROLE-ID:SESSION; EC2 calls
        # the session as the instance.
        words = json.dumps(document).replace("${aws:userid}", f"{role_id}:{instance_id}")
        return json.loads(words), f"arn:aws:sts::{DEFAULT_ACCOUNT_ID}:assumed-role/{role}/{instance_id}"


def _identified(response: Response, log: dict[str, Any]) -> Response:
    """The answer under an id of its own, which the log has too, as CloudTrail has that of each call; moto's templates have one for all."""
    found = _REQUEST_ID.search(response.get_data()) if response.mimetype == "text/xml" else None
    if found:
        log["requestId"] = str(uuid.uuid4())
        raw = response.get_data()
        response.set_data(raw[: found.start(1)] + log["requestId"].encode() + raw[found.end(1) :])
    return response


def _error(fault: Fault, call: AwsCall, *, json_protocol: bool) -> Response:
    """A fault's error, as EC2 (XML) or SSM (JSON) would send it."""
    message = fault.message or fault.code
    if json_protocol:
        return Response(json.dumps({"__type": fault.code, "message": message}), fault.http, content_type="application/x-amz-json-1.1")
    if call.service == "s3":
        words = f"<Error><Code>{fault.code}</Code><Message>{html.escape(message, quote=False)}</Message></Error>"
        headers = {"x-amz-request-id": str(uuid.uuid4()), **buckets.region_of(call)}
        return Response(words, fault.http, headers, content_type="application/xml")
    return Response(error_xml(fault.code, html.escape(message, quote=False)), fault.http, content_type="text/xml")


def _read(environ: Environ, body: bytes) -> AwsCall:
    """The call that a request is, in EC2's query protocol or SSM's JSON; service and region are those of its signature."""
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    region, service = scope.groups() if scope else ("", "")
    if service == "s3" or (not scope and environ["PATH_INFO"] != "/"):
        return buckets.call_of(environ, region)
    params: dict[str, Any] = dict(urllib.parse.parse_qsl(body.decode("latin-1")))
    action = params.get("Action") or target.rpartition(".")[2]
    if target:
        params = {key: value for key, value in json.loads(body or b"{}").items() if isinstance(value, str)}
    return AwsCall(service, action, region, params)

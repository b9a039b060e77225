"""Tells of the calls to AWS that change something, with the id under which CloudTrail has them (`requestID`).

https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html
"""

import re
import threading
from collections.abc import Callable
from typing import Any, Final

import botocore.exceptions as boto

from provision.clouds import changes
from provision.clouds.aws.access import AwsAccess
from provision.structs import replace

_READS: Final = re.compile(r"(Describe|Get|List)[A-Z]")
_DRY: Final = "gpuprov_dry_run"
_FIRST_ERROR = 300
_IDENTITY_S: Final = 3.0
_LOCK: Final = threading.Lock()
_principals: dict[AwsAccess, str] = {}

ClientOf = Callable[..., Any]


def watch(events: Any, access: AwsAccess, client_of: ClientOf) -> None:
    """Tell of the calls of a client.

    Args:
        events: of the client.
        access: whose AWS.
        client_of: makes the client that says who asks.
    """

    def begins(event_name: str, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context[_DRY] = bool(params.get("DryRun"))
        if not context[_DRY] and not _READS.match(event_name.rpartition(".")[2]):
            changes.begin()

    def tell(name: str, context: dict[str, Any], answer: str, request_id: str) -> None:
        _, service, operation = name.split(".")
        if changes.is_heard() and not context.get(_DRY) and not _READS.match(operation):
            region = str(context.get("client_region", ""))
            principal = _principal_of(region, access, client_of)
            changes.tell(changes.ChangingCall("aws", region, f"{service}:{operation}", answer, request_id, principal=principal))

    def answered(event_name: str, http_response: Any, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        refused = http_response.status_code >= _FIRST_ERROR
        answer = str(parsed.get("Error", {}).get("Code", http_response.status_code)) if refused else changes.ACCEPTED
        tell(event_name, context, answer, str(parsed.get("ResponseMetadata", {}).get("RequestId", "")))

    def unanswered(event_name: str, context: dict[str, Any], **_: Any) -> None:
        tell(event_name, context, changes.UNANSWERED, "")

    events.register("before-parameter-build", begins)
    events.register("after-call", answered)
    events.register("after-call-error", unanswered)


def _principal_of(region: str, access: AwsAccess, client_of: ClientOf) -> str:
    """The ARN of whoever asks; empty where AWS does not say within seconds, because nothing else depends on it. It is asked for once.

    The call needs no permission, and no policy can deny it: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """
    with _LOCK:
        if access not in _principals:
            brief = replace(access, timeout_s=min(access.timeout_s, _IDENTITY_S))
            try:
                _principals[access] = str(client_of("sts", region, brief, retried=False).get_caller_identity()["Arn"])
            except (boto.BotoCoreError, boto.ClientError):
                _principals[access] = ""
        return _principals[access]

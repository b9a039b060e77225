"""Tells of the calls to GCP that change something, with the ids under which Cloud Audit Logs have them.

An entry's `operation.id` is the name of the operation, and `protoPayload.request` has the request id that the call sent
(https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogEntryOperation). Who asked is in the operation itself.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.protobuf.json_format import ParseError
from requests import RequestException

from provision.clouds import changes


@contextlib.contextmanager
def telling(action: str, where: str, request_id: str) -> Iterator[Callable[[Any], None]]:
    """Tell of one call; the block calls what it gets with the operation that answered.

    Args:
        action: the permission that the call needs.
        where: zone or region; empty for what is global.
        request_id: that the call sends, or nothing.
    """

    def tell(answer: str, operation: Any = None) -> None:
        name, user = (str(operation.name), str(operation.user)) if operation is not None else ("", "")
        changes.tell(changes.ChangingCall("gcp", where or "global", action, answer, request_id, operation=name, principal=user))

    def answered(operation: Any) -> None:
        tell(changes.ACCEPTED, operation)

    changes.begin()
    try:
        yield answered
    except GoogleAPICallError as error:
        reasons = [str(entry.get("reason", "")) for entry in error.errors or [] if isinstance(entry, dict)]
        tell(next(filter(None, reasons), f"HTTP {int(error.code or 0)}"))
        raise
    except (GoogleAuthError, RequestException, ParseError):
        tell(changes.UNANSWERED)
        raise

"""What DigitalOcean's errors mean: by their HTTP status, and where one status has several meanings by their words. Classified here, once.

An error is `{id, message}`, and its id says no more than the status (shared/models/error.yml). The words were read in others' reports:
"Size is not available in this region." (OpenRouterLabs/spawn#2768), "Region is not available" (digitalocean/api-v2#41), "will exceed your
droplet limit" (OpenRouterLabs/spawn#2516), "Droplet already has a pending event." (hashicorp/packer#1814).
"""

import contextlib
import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from requests import RequestException

from provision.clouds.base import NotSetUpError
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    ImageNotFoundError,
    PermissionRefusedError,
    QuotaExceededError,
    ThrottledError,
)

LOGIN: Final = "make a token at https://cloud.digitalocean.com/account/api/tokens and set DIGITALOCEAN_TOKEN"
ACCESS: Final = "ask DigitalOcean's support for access to this size: a new account has GPUs nowhere; or add a place on another cloud"
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _CONFLICT, _INVALID, _TOO_MANY, _SERVER_ERROR = 401, 403, 404, 409, 422, 429, 500
_SUMMARY_LENGTH: Final = 300


class NotThereError(CloudInvalidError):
    """Nothing has this id or name; for a removal that is not an error."""


class NameUsedError(CloudInvalidError):
    """Something has this name already, or is in use; the caller finds out whose it is."""


class PendingEventError(CloudInvalidError):
    """Something else is being done to it: the same call is accepted later."""


# Of a 422, in this order.
_MEANINGS: Final[tuple[tuple[re.Pattern[str], type[CloudError]], ...]] = (
    (re.compile(r"pending event", re.IGNORECASE), PendingEventError),
    (re.compile(r"(droplet|volume|resource) limit", re.IGNORECASE), QuotaExceededError),
    (re.compile(r"(size|region) is not (currently )?available|capacity", re.IGNORECASE), CapacityError),
    (re.compile(r"\bimage\b", re.IGNORECASE), ImageNotFoundError),
)
_HINTS: Final[dict[type[CloudError], str]] = {
    CapacityError: f"try again later, or add another region, size or cloud to the profile's places; {ACCESS}",
    QuotaExceededError: "ask DigitalOcean's support for a higher limit, or remove droplets that nobody needs",
    PermissionRefusedError: "make a token with all scopes that `gpuprov plan` lists",
    ImageNotFoundError: "correct the profile's os or image, or lock another image",
    CloudUnreachableError: "check the network and run the same command again; it goes on where it stopped",
}
_CORRECT: Final = "correct the profile; `gpuprov plan --profile …` shows what would be requested"


def no_token() -> NotSetUpError:
    """The error where nobody has given a token."""
    return NotSetUpError("there is no DigitalOcean token", hint=LOGIN)


def in_place(action: str, where: str) -> str:
    """An action and where, as messages have it."""
    return f"{action} in {where}" if where else action


@contextlib.contextmanager
def cloud_errors(call: str) -> Iterator[None]:
    """Raise our error for an answer that did not come within the block.

    Args:
        call: the operation, and where.
    """
    try:
        yield
    except (RequestException, ValueError) as error:  # a ValueError is an answer that is not JSON
        msg, hint = f"DigitalOcean did not answer {call}", _HINTS[CloudUnreachableError]
        raise CloudUnreachableError(msg, hint=hint, detail=f"{type(error).__name__}: {error}"[:_SUMMARY_LENGTH]) from error


def of_answer(status: int, body: Any, headers: Mapping[str, str], call: str, scopes: Sequence[str]) -> CloudError:
    """Our error for a refused call.

    Args:
        status: of HTTP.
        body: of the answer; a mapping with `message` where it is DigitalOcean's own.
        headers: of the answer.
        call: the operation, and where.
        scopes: that the call needs.
    """
    message = str(body.get("message", "")) if isinstance(body, dict) else ""
    summary = re.sub(r"\s+", " ", message).strip()[:_SUMMARY_LENGTH]
    detail = f"HTTP {status}: {summary}"
    if status == _UNAUTHORIZED:
        return CredentialsExpiredError(f"DigitalOcean does not accept the token for {call}", hint=LOGIN, detail=detail)
    if status == _FORBIDDEN:
        words = ", ".join(scopes)
        return PermissionRefusedError(
            f"DigitalOcean refuses {call}: the token needs {words}", hint=_HINTS[PermissionRefusedError], detail=detail
        )
    if status == _TOO_MANY:
        return ThrottledError(f"DigitalOcean asks for slower calls of {call}", hint=_when(headers), detail=detail)
    if status >= _SERVER_ERROR:
        hint = _HINTS[CloudUnreachableError]
        return CloudUnreachableError(f"DigitalOcean failed to answer {call} (HTTP {status})", hint=hint, detail=detail)
    kinds: dict[int, type[CloudError]] = {_MISSING: NotThereError, _CONFLICT: NameUsedError}
    kind = kinds.get(status, CloudInvalidError)
    if status == _INVALID:
        kind = next((meaning for words, meaning in _MEANINGS if words.search(message)), CloudInvalidError)
    return kind(f"{call}: {summary or f'HTTP {status}'}", hint=_HINTS.get(kind, _CORRECT), detail=detail)


def _when(headers: Mapping[str, str]) -> str:
    """What to do about a limit: only that of a minute says after how many seconds; that of an hour says when it ends."""
    after, reset = headers.get("retry-after", ""), headers.get("ratelimit-reset", "")
    if after.isdecimal():
        return f"run the same command again in {after} s; it goes on where it stopped"
    if reset.isdecimal():
        ends = dt.datetime.fromtimestamp(int(reset), dt.UTC)
        return f"the hourly limit of the token is used up until {ends:%H:%M} UTC; run the same command again then, or use another token"
    return "wait a minute and run the same command again; it goes on where it stopped"

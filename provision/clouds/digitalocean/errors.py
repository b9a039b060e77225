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
from provision.clouds.refusals import AccountRefusedError, sentence
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
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _CONFLICT, _PRECONDITION, _INVALID, _TOO_MANY, _SERVER_ERROR = 401, 403, 404, 409, 412, 422, 429, 500
_SUMMARY_LENGTH: Final = 300


class NotThereError(CloudInvalidError):
    """Nothing has this id or name; for a removal that is not an error."""


class NameUsedError(CloudInvalidError):
    """Something has this name already, or is in use; the caller finds out whose it is."""


class PendingEventError(CloudInvalidError):
    """Something else is being done to it: the same call is accepted later."""


# Of a 403, a 412 and a 422, in this order: DigitalOcean answers with each of them for a limit, for the account's state and for a place.
# digitalocean/csi-digitalocean#476 has a limit as a 403, inlets/inlets-operator#111, digitalocean/api-v2#36 and thecodeteam/libstorage#429
# what a region does not have.
_MEANINGS: Final[tuple[tuple[re.Pattern[str], type[CloudError]], ...]] = (
    (re.compile(r"pending event", re.IGNORECASE), PendingEventError),
    (re.compile(r"\blimit\b", re.IGNORECASE), QuotaExceededError),
    (re.compile(r"\b(account|team)\b.*\b(verif|lock|block|suspend|warning)|payment|billing|past.due", re.IGNORECASE), AccountRefusedError),
    (
        re.compile(
            r"\b(size|region|image)\b.*\b(not (currently )?available|unavailable|restricted)\b|capacity|invalid (size|region)"
            r"|not supported (for|in) this region",
            re.IGNORECASE,
        ),
        CapacityError,
    ),
    (re.compile(r"\bimage\b", re.IGNORECASE), ImageNotFoundError),
)
_HINTS: Final[dict[type[CloudError], str]] = {
    CapacityError: f"try again later, or add another region, size or cloud to the profile's places; {ACCESS}",
    QuotaExceededError: "ask DigitalOcean's support for a higher limit, or remove droplets that nobody needs",
    PermissionRefusedError: "make a token with all scopes that `gpuprov plan` lists",
    AccountRefusedError: "do what DigitalOcean says there, at https://cloud.digitalocean.com/account; then run the same command again",
    ImageNotFoundError: "correct the profile's os or image, or lock another image",
    CloudUnreachableError: "check the network and run the same command again; it goes on where it stopped",
}
_OTHERWISE: Final = "`gpuprov -v` shows the whole answer, and `gpuprov plan --profile …` what would be requested"
# A 403 about the token: "You are not authorized to perform this operation", "You do not have access for the attempted action."
_SCOPES: Final = re.compile(r"authorized|access|scope|permission", re.IGNORECASE)


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
    summary = sentence(message)
    detail = f"HTTP {status}: {message}"
    if status == _UNAUTHORIZED:
        return CredentialsExpiredError(f"DigitalOcean does not accept the token for {call}: {summary}", hint=LOGIN, detail=detail)
    meaning = next((kind for words, kind in _MEANINGS if words.search(message)), None)
    if status == _FORBIDDEN and (meaning is None or _SCOPES.search(message)):
        text = f"DigitalOcean refuses {call} (the token needs {', '.join(scopes)}): {summary or 'it gave no reason'}"
        return PermissionRefusedError(text, hint=_HINTS[PermissionRefusedError], detail=detail)
    if status == _TOO_MANY:
        return ThrottledError(f"DigitalOcean asks for slower calls of {call}: {summary}", hint=_when(headers), detail=detail)
    if status >= _SERVER_ERROR:
        hint = _HINTS[CloudUnreachableError]
        return CloudUnreachableError(f"DigitalOcean failed to answer {call} (HTTP {status}): {summary}", hint=hint, detail=detail)
    kinds: dict[int, type[CloudError]] = {_MISSING: NotThereError, _CONFLICT: NameUsedError}
    kind = kinds.get(status, CloudInvalidError)
    if status in {_FORBIDDEN, _PRECONDITION, _INVALID}:
        kind = meaning or CloudInvalidError
    return kind(f"{call}: {summary or f'HTTP {status}'}", hint=_HINTS.get(kind, _OTHERWISE), detail=detail)


def _when(headers: Mapping[str, str]) -> str:
    """What to do about a limit: only that of a minute says after how many seconds; that of an hour says when it ends."""
    after, reset = headers.get("retry-after", ""), headers.get("ratelimit-reset", "")
    if after.isdecimal():
        return f"run the same command again in {after} s; it goes on where it stopped"
    if reset.isdecimal() and headers.get("ratelimit-remaining", "0") == "0":  # the reset is on every answer
        ends = dt.datetime.fromtimestamp(int(reset), dt.UTC)
        return f"the hourly limit of the token is used up until {ends:%H:%M} UTC; run the same command again then, or use another token"
    return "wait a minute and run the same command again; it goes on where it stopped"

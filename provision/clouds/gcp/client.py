"""Clients of Google's library with everything explicit: credentials, where the API is, time-outs, and what its errors mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from provision.errors import (
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsMissingError,
    PermissionRefusedError,
    ThrottledError,
)

__all__ = ["TIMEOUT_S", "Access", "classified", "client", "project_of"]

TIMEOUT_S: Final = 30.0
_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _SERVER_ERROR = 401, 403, 429, 500
_LOGIN: Final = "log in with `gcloud auth application-default login` and name a project in GOOGLE_CLOUD_PROJECT"


@dataclass(frozen=True, slots=True)
class Access:
    """Whose GCP is spoken to. All None: the user's own, by Google's application default credentials.

    Attributes:
        project: the project that asks.
        endpoint_url: another place than Google's; it is spoken to without credentials.
    """

    project: str | None = None
    endpoint_url: str | None = None


def client(kind: str, access: Access) -> Any:
    """A client of `google.cloud.compute_v1`, such as `ImagesClient`.

    Raises:
        CredentialsMissingError: nobody is logged in.
    """
    from google.api_core.client_options import ClientOptions  # noqa: PLC0415 - 1.6 s that only a cloud command may pay
    from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415
    from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415
    from google.cloud import compute_v1  # noqa: PLC0415

    made = getattr(compute_v1, kind)
    if access.endpoint_url:
        return made(credentials=AnonymousCredentials(), client_options=ClientOptions(api_endpoint=access.endpoint_url))  # type: ignore[no-untyped-call]  # google-auth is not typed
    try:
        return made()
    except DefaultCredentialsError as error:
        msg = "no GCP credentials were found"
        raise CredentialsMissingError(msg, hint=_LOGIN, detail=str(error)) from error


def project_of(access: Access) -> str:
    """The project that asks.

    Raises:
        CredentialsMissingError: none is named anywhere.
    """
    import google.auth  # noqa: PLC0415
    from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415

    if access.project:
        return access.project
    try:
        _, project = google.auth.default()
    except DefaultCredentialsError as error:
        msg = "no GCP credentials were found"
        raise CredentialsMissingError(msg, hint=_LOGIN, detail=str(error)) from error
    if not project:
        msg = "no GCP project is named"
        raise CredentialsMissingError(msg, hint="set GOOGLE_CLOUD_PROJECT")
    return str(project)


@contextlib.contextmanager
def classified(action: str) -> Iterator[None]:
    """Raise our errors for Google's within the block, by the HTTP status that each of them carries.

    Args:
        action: the permission that the call needs, such as `compute.images.getFromFamily`.
    """
    from google.api_core.exceptions import GoogleAPICallError, RetryError  # noqa: PLC0415
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
    from requests import RequestException  # noqa: PLC0415 - Google's REST transport lets these through

    try:
        yield
    except GoogleAPICallError as error:
        raise _of_answer(int(error.code or 0), action, str(error.message)) from error
    except GoogleAuthError as error:
        msg = f"GCP's log-in does not work for {action}"
        raise CredentialsMissingError(msg, hint=_LOGIN, detail=str(error)) from error
    except (RetryError, RequestException) as error:
        msg = f"GCP did not answer {action}"
        raise CloudUnreachableError(msg, hint="check the network and run the same command again", detail=str(error)) from error


def _of_answer(status: int, action: str, said: str) -> CloudError:
    if status == _UNAUTHORIZED:
        return CredentialsMissingError(f"GCP does not accept the credentials for {action}", hint=_LOGIN, detail=said)
    if status == _FORBIDDEN:
        hint = "ask whoever owns the project for this permission"
        return PermissionRefusedError(f"GCP refuses {action} to these credentials", hint=hint, detail=said)
    if status == _TOO_MANY:
        return ThrottledError(f"GCP asks for slower calls of {action}", hint="wait a minute and run the same command again", detail=said)
    if status >= _SERVER_ERROR:
        hint = "run the same command again in a minute"
        return CloudUnreachableError(f"GCP failed to answer {action} (HTTP {status})", hint=hint, detail=said)
    return CloudInvalidError(f"GCP does not accept {action} (HTTP {status})", hint="`--verbose` shows what it said", detail=said)

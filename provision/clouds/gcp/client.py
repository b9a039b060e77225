"""Clients of Google's library with everything explicit: credentials, where the API is, time-outs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

from provision.clouds.gcp import sdk
from provision.clouds.gcp.errors import LOGIN
from provision.errors import CredentialsMissingError

TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class GcpAccess:
    """Whose GCP is spoken to. All None: the user's own, by Google's application default credentials.

    Attributes:
        project: the project that asks.
        endpoint_url: another place than Google's; it is spoken to without credentials.
        caller_address_url: answers with the address under which instances see this machine.
        timeout_s: how long one call may go unanswered.
    """

    project: str | None = None
    endpoint_url: str | None = None
    caller_address_url: str | None = None
    timeout_s: float = TIMEOUT_S


@functools.cache
def client(kind: str, access: GcpAccess) -> Any:
    """A client of `google.cloud.compute_v1`, such as `ImagesClient`; made once.

    Raises:
        CredentialsMissingError: nobody is logged in.
    """
    with sdk.importing:
        from google.api_core.client_options import ClientOptions  # noqa: PLC0415 - half a second that only a cloud command may pay
        from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415
        from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415

    made = getattr(sdk.compute(), kind)
    if access.endpoint_url:
        return made(credentials=AnonymousCredentials(), client_options=ClientOptions(api_endpoint=access.endpoint_url))  # type: ignore[no-untyped-call]  # google-auth is not typed
    try:
        return made()
    except DefaultCredentialsError as error:
        msg = "no GCP credentials were found"
        raise CredentialsMissingError(msg, hint=LOGIN, detail=str(error)) from error


@functools.cache
def project_of(access: GcpAccess) -> str:
    """The project that asks.

    Raises:
        CredentialsMissingError: none is named anywhere.
    """
    if access.project:
        return access.project
    with sdk.importing:
        import google.auth  # noqa: PLC0415
        from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415
    try:
        _, project = google.auth.default()
    except DefaultCredentialsError as error:
        msg = "no GCP credentials were found"
        raise CredentialsMissingError(msg, hint=LOGIN, detail=str(error)) from error
    if not project:
        msg = "no GCP project is named"
        raise CredentialsMissingError(msg, hint="set GOOGLE_CLOUD_PROJECT")
    return str(project)


def access_from(settings: dict[str, str]) -> GcpAccess:
    """The access that plain settings describe, such as those of the embedded cloud."""
    return GcpAccess(**settings)  # type: ignore[arg-type]  # the settings are texts: the time-out is not among them

"""Clients of Google's library with everything explicit: credentials, endpoint, project."""

import functools
import os
from pathlib import Path
from typing import Any, Final

import google.auth
import google.auth.transport.requests
import google.oauth2.credentials
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError

from provision.clouds.base import NotSetUpError
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.errors import LOGIN, only_googles, only_tokens
from provision.clouds.gcp.sdk import client_class
from provision.errors import CredentialsMissingError


@functools.cache
def client(kind: str, access: GcpAccess) -> Any:
    """A client of `google.cloud.compute_v1`, such as `ImagesClient`; the same one each time.

    Raises:
        CredentialsMissingError: nobody is logged in.
    """
    cls = client_class(kind)
    if access.endpoint_url:
        return _heard(cls(credentials=_credentials(access), client_options=ClientOptions(api_endpoint=access.endpoint_url)))
    try:
        return _heard(cls())
    except DefaultCredentialsError as error:
        raise _no_credentials(error) from error


def catalog_client(cls: Any, access: GcpAccess) -> Any:
    """A client of Google's price list, over HTTP as those of Compute Engine.

    Raises:
        CredentialsMissingError: nobody is logged in.
    """
    if access.endpoint_url:
        options = ClientOptions(api_endpoint=access.endpoint_url)
        return _heard(cls(credentials=_credentials(access), client_options=options, transport="rest"))
    try:
        return _heard(cls(transport="rest"))
    except DefaultCredentialsError as error:
        raise _no_credentials(error) from error


_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


@functools.cache
def session(access: GcpAccess) -> google.auth.transport.requests.AuthorizedSession:
    """Plain HTTP with the caller's credentials, for an API of which one or two methods are needed.

    Raises:
        CredentialsMissingError: nobody is logged in.
    """
    if access.endpoint_url:
        return _strict(google.auth.transport.requests.AuthorizedSession(_credentials(access)))  # type: ignore[no-untyped-call]  # google-auth is not typed
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except DefaultCredentialsError as error:
        raise _no_credentials(error) from error
    return _strict(google.auth.transport.requests.AuthorizedSession(credentials))  # type: ignore[no-untyped-call]  # as above


def _heard(made: Any) -> Any:
    """A client of Google's library that takes nothing for an answer but Google's."""
    _strict(made.transport._session)  # noqa: SLF001 - no other door
    return made


def _strict(sends: google.auth.transport.requests.AuthorizedSession) -> google.auth.transport.requests.AuthorizedSession:
    sends.hooks["response"].append(only_googles)
    sends._auth_request_session.hooks["response"].append(only_tokens)  # noqa: SLF001 - nor here
    return sends


@functools.cache
def project_of(access: GcpAccess) -> str:
    """The project that asks.

    Raises:
        CredentialsMissingError: neither the access nor the environment names one.
    """
    if access.project:
        return access.project
    try:
        _, project = google.auth.default()
    except DefaultCredentialsError as error:
        raise _no_credentials(error) from error
    if not project:
        msg = "nothing names a GCP project"
        raise CredentialsMissingError(msg, hint="set GOOGLE_CLOUD_PROJECT")
    return str(project)


def _credentials(access: GcpAccess) -> Credentials:
    """For another place than Google's: what the access has, and nothing of the user's."""
    if access.token is None:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]  # as above
    return google.oauth2.credentials.Credentials(access.token)  # type: ignore[no-untyped-call]  # as above


def _no_credentials(error: DefaultCredentialsError) -> CredentialsMissingError:
    folder = os.environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    named = "GOOGLE_APPLICATION_CREDENTIALS" in os.environ or (Path(folder).expanduser() / "application_default_credentials.json").exists()
    kind = CredentialsMissingError if named else NotSetUpError
    return kind("there are no GCP credentials", hint=LOGIN, detail=str(error))

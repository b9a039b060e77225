"""Clients of Google's library with everything explicit: credentials, endpoint, project."""

import functools
import json
import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import google.auth
import google.auth.transport.requests
import google.oauth2.credentials
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError
from requests import RequestException

from provision.clouds.base import NotSetUpError
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.errors import LOGIN
from provision.clouds.gcp.sdk import client_class
from provision.errors import CredentialsMissingError

_REFUSED, _SERVER_ERROR = 400, 500

# Answers of Compute Engine that are no resource and have no `kind`.
_KINDLESS: Final = re.compile(r"/list[A-Z][A-Za-z]+")
_WITH_KIND: Final = ("/compute/v1/", "/upload/storage/v1/")


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


class NotGooglesError(RequestException):
    """What came back is not Google's: a page of somebody else, or a part of an answer."""


def only_googles(reply: Any, **_: Any) -> None:
    """A hook of `requests` for each response. Google's have a JSON object, an error in it where they are one, and redirect nobody.

    Raises:
        NotGooglesError: this one has not.
    """
    url, body = urlsplit(reply.url), _object_of(reply)
    whole = body is not None and not reply.is_redirect
    if "alt=media" in url.query:
        whole = not reply.is_redirect
    elif body is not None and reply.status_code >= _REFUSED:
        error = body.get("error")
        rows = [error.get(key, []) for key in ("errors", "details")] if isinstance(error, dict) else [None]
        whole = all(isinstance(row, list) and all(isinstance(each, dict) for each in row) for row in rows)
    elif body is not None and url.path.startswith(_WITH_KIND):
        whole = whole and ("kind" in body or bool(_KINDLESS.search(url.path)))
    # A balancer of Google's answers with a page as well; what is not there for a moment is asked for again.
    _must(reply, whole or (reply.status_code >= _SERVER_ERROR and body is None))


def only_tokens(reply: Any, **_: Any) -> None:
    """The same for each response of a login; one that grants a token has a JSON object.

    Raises:
        NotGooglesError: this one has not.
    """
    _must(reply, reply.request.method != "POST" or reply.status_code >= _REFUSED or _object_of(reply) is not None)


def _object_of(reply: Any) -> dict[str, Any] | None:
    try:
        body = json.loads(reply.content.decode())
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _must(reply: Any, whole: bool) -> None:  # noqa: FBT001 - what is found out of it
    if not whole:
        msg = f"HTTP {reply.status_code} with something else than Google's JSON"
        raise NotGooglesError(msg)

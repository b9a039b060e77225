"""A small client of DigitalOcean's API: one request, one answer.

Not pydo, DigitalOcean's own: it is generated, 113 MB with Azure's core that it stands on, and takes 0.8 s to import, while gpuprov makes
twenty kinds of calls, all of them JSON over HTTPS with one header. What a maintainer would have to keep of it is this module; what pydo
would add, paging and retries, it leaves to its caller anyway. `requests` is here already, under Google's library.
"""

import json
import os
import threading
from collections.abc import Mapping
from typing import Any, Final

import requests

from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.errors import no_token
from provision.clouds.received import Received
from provision.errors import CloudUnreachableError
from provision.structs import Struct

_API: Final = "https://api.digitalocean.com"
_VARIABLES: Final = ("DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN")  # of Terraform, and of doctl
_NO_CONTENT: Final = 204
_sessions = threading.local()  # a session keeps its connections open, and belongs to one thread


class ApiAnswer(Struct):
    """What came back.

    Attributes:
        body: parsed; empty where there is none.
        request_id: under which DigitalOcean has the call.
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    request_id: str


def send(access: DigitalOceanAccess, verb: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> ApiAnswer:
    """Send one request, once. A redirection is an answer: the token goes to no other host.

    Raises:
        requests.RequestException: there is no answer.
        ValueError: the answer to a call that was accepted is not JSON.
        CredentialsMissingError: nobody has given a token.
        CloudUnreachableError: the endpoint would get the token in the clear.
    """
    endpoint = access.endpoint_url or os.environ.get("GPUPROV_DIGITALOCEAN_ENDPOINT") or _API
    if not endpoint.startswith(("https://", "http://127.0.0.1:")):
        msg = f"the endpoint {endpoint!r} is not HTTPS"
        raise CloudUnreachableError(msg, hint="unset GPUPROV_DIGITALOCEAN_ENDPOINT, or give an https:// address")
    token = access.token or next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if not token:
        raise no_token()
    if not hasattr(_sessions, "one"):
        _sessions.one = requests.Session()
    answer = _sessions.one.request(
        verb,
        f"{endpoint}/v2/{path}",
        params=query,
        json=body,
        headers={"Authorization": f"Bearer {token}"},
        timeout=access.timeout_s,
        allow_redirects=False,
    )
    accepted = 200 <= answer.status_code < 300  # noqa: PLR2004 - HTTP
    parsed: Any = {}
    if answer.status_code != _NO_CONTENT:
        try:
            parsed = json.loads(answer.content.decode(), object_hook=Received)
        except (ValueError, RecursionError) as error:
            if accepted:
                raise ValueError(str(error)) from error
    return ApiAnswer(answer.status_code, parsed, {k.lower(): v for k, v in answer.headers.items()}, answer.headers.get("x-request-id", ""))

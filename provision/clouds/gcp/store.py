"""Objects of Cloud Storage, by its JSON API: written once, read, listed. Source: docs.cloud.google.com/storage/docs/json_api/v1/objects."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from google.api_core import exceptions

from provision.clouds.gcp.api import MOST_PAGES, GcpProjectApi
from provision.clouds.gcp.client import session
from provision.clouds.gcp.errors import GoneError, cloud_errors
from provision.clouds.gcp.shapes import GoogleAnswer
from provision.clouds.received import AGAIN, Received, check_shape
from provision.errors import CloudUnreachableError, PermissionRefusedError

_HOST: Final = "https://storage.googleapis.com"
CREATE: Final = "storage.objects.create"


def put_once(api: GcpProjectApi, bucket: str, name: str, body: bytes) -> bool:
    """Write an object where there is none yet, and return whether it was written.

    Whoever may create and not delete may get 403 where an object is there: no page says which is looked at first, that or the precondition.
    """
    asked = {"uploadType": "media", "name": name, "ifGenerationMatch": "0"}
    try:
        reply = _send(api, CREATE, "POST", f"/upload/storage/v1/b/{bucket}/o", params=asked, data=body)
    except PermissionRefusedError:
        if get(api, bucket, name) != body:
            raise
        return False
    return bool(reply.status_code != HTTPStatus.PRECONDITION_FAILED)


def get(api: GcpProjectApi, bucket: str, name: str) -> bytes | None:
    """The bytes of an object; None where there is none."""
    try:
        reply = _send(api, "storage.objects.get", "GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", params={"alt": "media"})
    except GoneError:
        return None
    return bytes(reply.content)


def names(api: GcpProjectApi, bucket: str, prefix: str, most: int) -> Iterator[tuple[str, str, int]]:
    """The name, time and bytes of the objects below a prefix that have at most so many bytes, in the order of their names.

    Raises:
        CloudUnreachableError: the answers name a next page each time, and are none of the cloud's.
    """
    asked = {"prefix": prefix, "fields": "items(name,size,timeCreated),nextPageToken"}
    for _ in range(MOST_PAGES):
        answer = _send(api, "storage.objects.list", "GET", f"/storage/v1/b/{bucket}/o", params=asked).json(object_hook=Received)
        check_shape(answer, GoogleAnswer)
        yield from (
            (str(row["name"]), str(row["timeCreated"]), int(row["size"])) for row in answer.get("items", []) if int(row["size"]) <= most
        )
        if "nextPageToken" not in answer:
            return
        asked["pageToken"] = str(answer["nextPageToken"])
    msg = f"the list of {bucket} has no end"
    raise CloudUnreachableError(msg, hint=AGAIN)


def certificates(api: GcpProjectApi) -> dict[str, str]:
    """The certificates, by key id, of the keys that Google signs the identities of machines with."""
    return {str(key): str(pem) for key, pem in api.ask("oauth2", "GET", "/oauth2/v1/certs", "oauth2.certs").items()}


def _send(api: GcpProjectApi, action: str, verb: str, path: str, **more: Any) -> Any:
    """One request; an answer that a precondition did not hold is returned."""
    with cloud_errors(action):
        url = f"{api.access.endpoint_url or _HOST}{path}"
        reply = session(api.access).request(verb, url, timeout=api.access.timeout_s, **more)  # type: ignore[no-untyped-call]  # google-auth is not typed
        if reply.status_code >= HTTPStatus.BAD_REQUEST and reply.status_code != HTTPStatus.PRECONDITION_FAILED:
            raise exceptions.from_http_response(reply)  # type: ignore[no-untyped-call]  # nor is this
    return reply

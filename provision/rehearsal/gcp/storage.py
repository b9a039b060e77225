"""The embedded Cloud Storage: objects that are written under conditions, read and listed.

Methods and answers are those of Google's document of storage.v1. The preconditions:
docs.cloud.google.com/storage/docs/request-preconditions. That a new upload under a name in use needs storage.objects.delete:
docs.cloud.google.com/storage/docs/access-control/iam-json. To whoever may not list the bucket an object that is missing is one that he may
not read (github.com/googleapis/google-api-php-client/issues/1791, github.com/seung-lab/cloud-volume/pull/260), and a condition on the
names of objects gives nobody the right to list (github.com/salesforce/multicloudj/pull/437): no page of Google's was found that says it.
"""

import base64
import hashlib
import itertools
import time
from typing import Any, Final

from werkzeug import Response

from provision.rehearsal.gcp.refusals import ComputeError, invalid, required
from provision.rehearsal.gcp.world import GcpCall, Handler, now
from provision.structs import Struct, field

_PAGE: Final = 1000
_COUNTER: Final = itertools.count(time.time_ns() // 1000)


class StoredObject(Struct):
    """One object as it was written."""

    bucket: str
    name: str
    body: bytes
    generation: int = field(default_factory=lambda: next(_COUNTER))
    created: str = field(default_factory=now)

    def shown(self) -> dict[str, Any]:
        """Its metadata."""
        return {
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "bucket": self.bucket,
            "name": self.name,
            "size": str(len(self.body)),
            "generation": str(self.generation),
            "metageneration": "1",
            "md5Hash": base64.b64encode(hashlib.md5(self.body, usedforsecurity=False).digest()).decode(),
            "timeCreated": self.created,
            "updated": self.created,
        }


def _missing(bucket: str, name: str) -> ComputeError:
    return ComputeError("notFound", f"No such object: {bucket}/{name}")


def _insert(call: GcpCall) -> dict[str, Any]:
    bucket, name = call.path["bucket"], call.query.get("name", "")
    if call.query.get("uploadType") != "media":
        raise invalid("uploadType", call.query.get("uploadType"), "The embedded Cloud Storage takes media.")
    if not name:
        raise required("name")
    present = call.world.objects.get((bucket, name))
    asked = call.query.get("ifGenerationMatch")
    if asked is not None and int(asked) != (present.generation if present else 0):
        raise ComputeError("conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
    made = StoredObject(bucket, name, call.raw)
    call.world.objects[bucket, name] = made
    return made.shown()


def _get(call: GcpCall) -> Any:
    found = call.world.objects.get((call.path["bucket"], call.path["object"]))
    if found is None:
        raise _missing(call.path["bucket"], call.path["object"])
    media = call.query.get("alt") == "media"
    return Response(found.body, mimetype="application/octet-stream") if media else found.shown()


def _list(call: GcpCall) -> dict[str, Any]:
    prefix, start = call.query.get("prefix", ""), call.query.get("pageToken", "")
    names = sorted(n for b, n in call.world.objects if b == call.path["bucket"] and n.startswith(prefix) and n > start)
    size = int(call.query.get("maxResults") or _PAGE)
    items = [call.world.objects[call.path["bucket"], name].shown() for name in names[:size]]
    more = {"nextPageToken": names[size - 1]} if len(names) > size else {}
    return {"kind": "storage#objects", **more, **({"items": items} if items else {})}


def _delete(call: GcpCall) -> Any:
    if call.world.objects.pop((call.path["bucket"], call.path["object"]), None) is None:
        raise _missing(call.path["bucket"], call.path["object"])
    return Response(b"", 204)


HANDLERS: Final[dict[str, Handler]] = {
    "storage.objects.insert": _insert,
    "storage.objects.get": _get,
    "storage.objects.list": _list,
    "storage.objects.delete": _delete,
}

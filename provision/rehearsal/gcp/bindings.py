"""What a service account may do in the embedded GCP: the roles of its policy, under the one kind of condition that is understood.

The permissions of the roles: docs.cloud.google.com/storage/docs/access-control/iam-roles. A condition that is not understood does not hold.
"""

import json
import re
from typing import Any, Final

from provision.rehearsal.gcp.refusals import forbidden
from provision.rehearsal.gcp.world import GcpCall

_ROLES: Final = {
    "roles/storage.objectCreator": {"storage.objects.create"},
    "roles/storage.objectViewer": {"storage.objects.get", "storage.objects.list"},
    "roles/storage.objectUser": {f"storage.objects.{verb}" for verb in ("create", "delete", "get", "list", "update")},
}
_TERM: Final = re.compile(r"\s*resource\.name\.startsWith\((\"(?:[^\"\\]|\\.)*\")\)\s*")


def needs(call: GcpCall) -> list[tuple[str, str]]:
    """The permissions of a call of Cloud Storage, each with its resource: an object, or for a listing the bucket."""
    bucket = f"projects/_/buckets/{call.path['bucket']}"
    name = call.path.get("object") or call.query.get("name", "")
    verb = call.method.id.rpartition(".")[2]
    where = f"{bucket}/objects/{name}" if name else bucket
    wanted = [(f"storage.objects.{'create' if verb == 'insert' else verb}", where)]
    if verb == "get" and (call.path["bucket"], name) not in call.world.objects:
        wanted.append(("storage.objects.list", bucket))
    held = call.query.get("ifGenerationMatch") == "0" and not call.world.settings.gce_delete_before_match
    if verb == "insert" and (call.path["bucket"], name) in call.world.objects and not held:
        wanted.append(("storage.objects.delete", where))
    return wanted


def enforce(call: GcpCall, account: str) -> None:
    """Refuse a call that the policy of a service account does not cover."""
    policy = call.world.settings.gce_account_policies.get(account, {})
    if not call.method.id.startswith("storage."):
        raise forbidden(call.method.id, account)
    for permission, resource in needs(call):
        if not any(permission in _ROLES.get(row.get("role", ""), ()) and _holds(row, resource) for row in policy.get("bindings", [])):
            raise forbidden(permission, resource)


def _holds(binding: dict[str, Any], resource: str) -> bool:
    expression = binding.get("condition", {}).get("expression")
    if expression is None:
        return True
    terms = [_TERM.fullmatch(term) for term in expression.split("||")]
    return all(terms) and any(resource.startswith(json.loads(term[1])) for term in terms if term)

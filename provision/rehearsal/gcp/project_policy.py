"""The IAM policy of the embedded GCP's project: who has which role, and which permissions the caller has."""

from typing import Any, Final

from provision.rehearsal.gcp.refusals import not_found
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, Handler


def _check(call: GcpCall) -> None:
    if call.path["projectsId"] != PROJECT:
        raise not_found(f"projects/{call.path['projectsId']}")


def _policy(call: GcpCall) -> dict[str, Any]:
    _check(call)
    return {"version": 1, "etag": "BwXh0000000=", "bindings": list(call.world.settings.gce_bindings)}


def _test(call: GcpCall) -> dict[str, Any]:
    """Those of the asked permissions that the caller has; asking needs none."""
    _check(call)
    allowed = call.world.settings.gce_allowed
    had = [each for each in call.body.get("permissions", []) if allowed is None or each in allowed]
    return {"permissions": had} if had else {}


HANDLERS: Final[dict[str, Handler]] = {
    "cloudresourcemanager.projects.getIamPolicy": _policy,
    "cloudresourcemanager.projects.testIamPermissions": _test,
}

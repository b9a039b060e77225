"""The embedded GCP's project: who has which role, which permissions the caller has, who pays, and which APIs are enabled.

The last two: the methods `getBillingInfo` of cloudbilling.v1 and `services.get` of serviceusage.v1 in Google's documents; JSON of Google's
leaves out what is false.
"""

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


def _billing(call: GcpCall) -> dict[str, Any]:
    _check(call)
    paid = {"billingAccountName": "billingAccounts/012345-567890-ABCDEF", "billingEnabled": True}
    return {"name": f"projects/{PROJECT}/billingInfo", "projectId": PROJECT, **(paid if call.world.settings.gce_billing else {})}


def _service(call: GcpCall) -> dict[str, Any]:
    name = call.path["servicesId"]
    state = "DISABLED" if name in call.world.settings.gce_apis_off else "ENABLED"
    return {"name": f"projects/{PROJECT}/services/{name}", "parent": f"projects/{PROJECT}", "state": state}


HANDLERS: Final[dict[str, Handler]] = {
    "cloudresourcemanager.projects.getIamPolicy": _policy,
    "cloudresourcemanager.projects.testIamPermissions": _test,
    "cloudbilling.projects.getBillingInfo": _billing,
    "serviceusage.services.get": _service,
}

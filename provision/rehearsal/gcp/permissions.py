"""Which IAM permissions a call needs, and their enforcement.

Where the reference page of a method names its permissions ("IAM Permissions" of
docs.cloud.google.com/compute/docs/reference/rest/v1/METHOD), they are these. What inserting an instance needs beside
`compute.instances.create` is the list "Required permissions" of
docs.cloud.google.com/compute/docs/access/create-enable-service-accounts-for-instances and …/compute/docs/instances/create-start-instance.
That reading an operation needs `compute.zoneOperations.get` and so on: roles/compute.viewer in
docs.cloud.google.com/iam/docs/roles-permissions/compute.
"""

from collections.abc import Iterator
from typing import Any, Final

from provision.rehearsal.gcp import bindings
from provision.rehearsal.gcp.images import project_of, public_projects
from provision.rehearsal.gcp.refusals import forbidden
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, last

# Method → permission, where it is not `compute.COLLECTION.VERB` with the verbs below.
_VERBS: Final = {
    "insert": "create",
    "aggregatedList": "list",
    "patch": "update",
    "wait": "get",
    "bulkInsert": "create",
    # Of groups: from memory, like what making one needs besides.
    "listManagedInstances": "get",
    "listErrors": "get",
    **dict.fromkeys(("resize", "applyUpdatesToInstances", "recreateInstances", "deleteInstances"), "update"),
}
_OTHERS: Final = {
    "regionInstances": "instances",
    "regionInstanceGroupManagers": "instanceGroupManagers",
    "regionInstanceTemplates": "instanceTemplates",
    "regionHealthChecks": "healthChecks",
}  # collection → the one whose permissions it needs
# docs.cloud.google.com/resource-manager/docs/access-control-proj
_ELSEWHERE: Final = {
    "cloudresourcemanager.projects.getIamPolicy": "resourcemanager.projects.getIamPolicy",
    "cloudbilling.projects.getBillingInfo": "resourcemanager.projects.get",  # its description
    "serviceusage.services.get": "serviceusage.services.get",
}
# A firewall rule also changes what its network lets through.
_FIREWALL: Final = {"insert", "patch", "delete"}


def _needs(call: GcpCall) -> Iterator[tuple[str, str]]:
    """The permissions of a call, and the resource that each is asked for."""
    _, collection, verb = call.method.id.split(".")
    permission = f"compute.{_OTHERS.get(collection, collection)}.{_VERBS.get(verb, verb)}"
    project = f"projects/{PROJECT}"
    name = call.body.get("name") or call.name
    yield permission, f"{project}/{call.scope}/{collection}/{name}" if name else project
    if collection == "firewalls" and verb in _FIREWALL:
        yield "compute.networks.updatePolicy", f"{project}/global/networks/default"
    if permission in {"compute.instanceGroupManagers.create", "compute.instanceGroupManagers.update"} and call.body.get("versions"):
        yield "compute.instanceTemplates.useReadOnly", project
    if permission == "compute.instanceGroupManagers.create" and call.body.get("autoHealingPolicies"):
        yield "compute.healthChecks.useReadOnly", project
    if permission == "compute.instanceTemplates.create":
        for account in call.body.get("properties", {}).get("serviceAccounts", []):
            yield "iam.serviceAccounts.actAs", f"{project}/serviceAccounts/{account.get('email', 'default')}"
    if permission == "compute.images.create":
        yield "compute.disks.useReadOnly", f"{project}/disks/{last(call.body.get('sourceDisk', ''))}"
        if call.body.get("labels"):
            yield "compute.images.setLabels", f"{project}/global/images/{name}"
    if permission == "compute.instances.create":
        properties = call.body.get("instanceProperties", call.body)
        yield from _of_instance(properties, f"{project}/{call.scope}/instances/{name}" if name else project)


def _of_instance(body: dict[str, Any], instance: str) -> Iterator[tuple[str, str]]:
    """What making an instance needs besides, by what it is made of."""
    project = f"projects/{PROJECT}"
    if any("source" not in disk and disk.get("type") != "SCRATCH" for disk in body.get("disks", [])):
        yield "compute.disks.create", project
    if any(disk.get("initializeParams", {}).get("labels") for disk in body.get("disks", [])):
        yield "compute.disks.setLabels", project
    yield from _of_images(body)
    if any("source" in disk for disk in body.get("disks", [])):
        yield "compute.disks.use", project
    for card in body.get("networkInterfaces", []):
        yield "compute.subnetworks.use", f"{project}/subnetworks/{last(card.get('subnetwork', 'default'))}"
        if card.get("accessConfigs"):
            yield "compute.subnetworks.useExternalIp", f"{project}/subnetworks/{last(card.get('subnetwork', 'default'))}"
    for policy in body.get("resourcePolicies", []):
        yield "compute.resourcePolicies.use", f"{project}/resourcePolicies/{last(policy)}"
    for field, permission in (("metadata", "setMetadata"), ("labels", "setLabels"), ("tags", "setTags")):
        if body.get(field):
            yield f"compute.instances.{permission}", instance
    if body.get("serviceAccounts"):
        yield "compute.instances.setServiceAccount", instance
        yield "iam.serviceAccounts.actAs", f"{project}/serviceAccounts/{body['serviceAccounts'][0].get('email', 'default')}"


def _of_images(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """An image that is not everybody's may be read by whoever its project lets."""
    for disk in body.get("disks", []):
        owner = project_of(disk.get("initializeParams", {}).get("sourceImage", ""))
        if owner and owner not in public_projects():
            yield "compute.images.useReadOnly", f"projects/{owner}"


def enforce(call: GcpCall) -> None:
    """Refuse a call that the caller's permissions do not cover, naming the first that is missing."""
    permissions = call.world.settings.gce_allowed
    if call.method.id.startswith("storage."):
        for permission, resource in bindings.needs(call):
            if permissions is not None and permission not in permissions:
                raise forbidden(permission, resource)
        return
    if not call.method.id.startswith("compute."):  # the price list is everybody's, as is one's own profile of OS Login
        needed = _ELSEWHERE.get(call.method.id)
        if needed and permissions is not None and needed not in permissions:
            raise forbidden(needed, f"projects/{PROJECT}")
        return
    if permissions is None or (call.collection == "images" and call.path["project"] in public_projects()):  # these are everybody's
        return
    for permission, resource in _needs(call):
        if permission not in permissions:
            raise forbidden(permission, resource)

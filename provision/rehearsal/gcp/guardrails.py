"""The organisation policy of the embedded GCP: what it refuses of an insert, and of what is read of a machine.

The words of vmExternalIpAccess, requireShieldedVm and resourceLocations are Google's (GoogleCloudPlatform/compute-image-tools#1476,
fortinet/fortigate-terraform-deploy#34, GoogleCloudPlatform/pubsec-declarative-toolkit#82, googlecodelabs/feedback#351); those of the others
are from memory. What each constraint forbids: cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints.
"""

from collections.abc import Iterator
from typing import Any, Final

from provision.rehearsal.gcp.refusals import ComputeError
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import ResourcePath, World, last

_NUMBER: Final = 123456789012  # of the project


def check_insert(world: World, place: ResourcePath, body: dict[str, Any]) -> None:
    """Refuse an instance that the policy forbids, with all that it breaks."""
    constraints = world.settings.gce_constraints
    words = [text for name, text in _breaches(world, place, body) if name in constraints]
    managed = ((name.replace("compute.", "compute.managed."), text) for name, text in _breaches(world, place, body))
    words += [_denied(place, f"constraints/{name}", text) for name, text in managed if name in constraints]
    words += [_denied(place, f"customConstraints/{name}", *why[:1]) for name, why in constraints.items() if name.startswith("custom.")]
    if words:
        raise ComputeError("conditionNotMet", words[0], more=words[1:])


def check_guest_attributes(world: World) -> None:
    """Refuse to show guest attributes where the policy does."""
    if "compute.disableGuestAttributesAccess" in world.settings.gce_constraints:
        raise ComputeError("conditionNotMet", _violated("compute.disableGuestAttributesAccess", "Access to guest attributes is disabled."))


def _denied(place: ResourcePath, name: str, why: str = "It is not allowed.") -> str:
    """The newer form: docs.cloud.google.com/compute/docs/access/custom-constraints."""
    return f'Operation denied by org policy on resource \'{place}\': ["{name}": "{why}"].'


def _violated(name: str, why: str, project: object = f"projects/{PROJECT}") -> str:
    return f"Constraint constraints/{name} violated for project {project}. {why}"


def _breaches(world: World, place: ResourcePath, body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    constraints, zone = world.settings.gce_constraints, last(place.scope)
    if any(card.get("accessConfigs") for card in body["networkInterfaces"]):
        words = f"Add instance {place} to the constraint to use external IP with it."
        yield "compute.vmExternalIpAccess", _violated("compute.vmExternalIpAccess", words, _NUMBER)
    if not body.get("shieldedInstanceConfig", {}).get("enableSecureBoot"):
        words = "Secure Boot is not enabled in the 'shielded_instance_config' field."
        yield "compute.requireShieldedVm", _violated("compute.requireShieldedVm", words)
    metadata = {item["key"]: str(item.get("value", "")) for item in body.get("metadata", {}).get("items", [])}
    if metadata.get("enable-oslogin", "").upper() == "FALSE":
        yield "compute.requireOsLogin", _violated("compute.requireOsLogin", "OS Login cannot be disabled in the instance's metadata.")
    if metadata.get("serial-port-enable", "").upper() in {"TRUE", "1"}:
        yield "compute.disableSerialPortAccess", _violated("compute.disableSerialPortAccess", "Serial port access cannot be enabled.")
    image = next((d["initializeParams"]["sourceImage"] for d in body["disks"] if d.get("initializeParams", {}).get("sourceImage")), "")
    owner = image.partition("projects/")[2].partition("/")[0]
    if owner and owner not in constraints.get("compute.trustedImageProjects", []):
        words = f"Use of images from project {owner} is prohibited."
        yield "compute.trustedImageProjects", _violated("compute.trustedImageProjects", words)
    if not {zone, zone.rpartition("-")[0]} & set(constraints.get("gcp.resourceLocations", [])):
        yield (
            "gcp.resourceLocations",
            f"Location ZONE:{zone} violates constraint constraints/gcp.resourceLocations on the resource {place}.",
        )

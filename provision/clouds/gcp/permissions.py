"""The IAM permissions that exactly one order needs, computed from it and without Google's client, so that a plan can name them.

Which method needs which: the "Permissions required" of each method in the reference of Compute Engine
(https://docs.cloud.google.com/compute/docs/reference/rest/v1), for insert also "Create an instance"; nobody has run them on a real project.
"""

from typing import Final

from provision.clouds import base
from provision.clouds.gcp import identity
from provision.clouds.gcp.place import capacity_of

PRE_CHECKS: Final = ("compute.machineTypes.get", "compute.projects.get", "compute.regions.get")
ENDING: Final = (
    "compute.disks.delete",
    "compute.disks.list",
    "compute.firewalls.delete",
    "compute.firewalls.list",
    "compute.instances.delete",
    "compute.instances.list",
    "compute.networks.updatePolicy",  # beside every change of a firewall rule
)
LAUNCHING: Final = (
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.firewalls.create",
    "compute.firewalls.get",  # whether a rule of an earlier try lets in today's address
    "compute.firewalls.update",
    "compute.globalOperations.get",
    "compute.images.useReadOnly",
    "compute.instances.create",
    "compute.instances.delete",  # fewer than asked for are not kept
    "compute.instances.get",
    "compute.instances.getGuestAttributes",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.networks.updatePolicy",
    "compute.subnetworks.use",
    "compute.zoneOperations.get",
)
LIFECYCLE: Final = (
    "compute.firewalls.update",
    "compute.instances.setMetadata",
    "compute.instances.setScheduling",
    "compute.instances.start",
    "compute.instances.stop",
)
"""stop, start, extend, allow."""


def launching(order: base.Order) -> tuple[str, ...]:
    """What making the machines of an order and waiting for them needs."""
    public = ("compute.subnetworks.useExternalIp",) if order.public_address else ()
    subnet = ("compute.subnetworks.get",) if order.subnet else ()  # which network it is of, for the rules
    capacity = capacity_of(order)
    policy = ("compute.resourcePolicies.use",) if capacity and capacity.placement_policy else ()
    account = identity.ACTIONS if identity.of(order) else ()
    login = identity.OS_LOGIN if identity.by_os_login(order) else ()
    return (*LAUNCHING, *public, *subnet, *policy, *account, *login, *(() if order.zone else ("compute.regionOperations.get",)))


def permissions(order: base.Order) -> tuple[str, ...]:
    """Everything from the first question to the last removal of an order, sorted."""
    own = getattr(order.place, "image", None)
    by_name = own.name is not None if own is not None else order.image_id is not None
    image = ("compute.images.get",) if by_name else ("compute.images.getFromFamily",)
    accelerator = ("compute.acceleratorTypes.get",) if order.instance_type.startswith("n1-") else ()
    capacity = capacity_of(order)
    reservation = ("compute.reservations.get",) if capacity and capacity.reservation else ()
    policy = ("compute.resourcePolicies.get",) if capacity and capacity.placement_policy else ()
    asked = ("serviceusage.services.get", "resourcemanager.projects.get", *(() if order.subnet else ("compute.networks.get",)))
    account = (*asked, *((identity.READ_POLICY,) if identity.of(order) else ()))  # for `plan --ask` alone
    baked = ("compute.images.list",) if order.place is not None and order.place.baked_use != "never" else ()
    return tuple(
        sorted({*baked, *PRE_CHECKS, *account, *reservation, *policy, *image, *accelerator, *launching(order), *LIFECYCLE, *ENDING})
    )

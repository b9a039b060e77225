"""What GCP says about the reservation or placement policy that a place names."""

from provision.clouds import base
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.capacity import GcpCapacity


def examine(api: GcpProjectApi, order: base.Order, capacity: GcpCapacity, region: str) -> base.Answer:
    """Whether it is there and has room; a name that does not exist is an error that says so."""
    if capacity.placement_policy:
        permission = "compute.resourcePolicies.get"
        api.call("ResourcePolicies", "get", permission, region=region, resource_policy=capacity.placement_policy)
    if capacity.reservation is None:
        return base.Answer("capacity", holds=True, said=f"placement policy {capacity.placement_policy} is there")
    row = api.call("Reservations", "get", "compute.reservations.get", zone=order.zone, reservation=capacity.reservation)
    kind = row.specific_reservation.instance_properties.machine_type
    free = row.specific_reservation.count - row.specific_reservation.in_use_count
    said = f"{capacity.reservation}: {row.status}, {kind} in {order.zone}, {free} of {row.specific_reservation.count} free"
    holds = row.status == "READY" and kind == order.instance_type and free >= order.count
    return base.Answer("capacity", holds=holds, said=said)

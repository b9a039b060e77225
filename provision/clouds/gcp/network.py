"""The network of GCP that a machine stands in: that of the subnetwork that an order names."""

from __future__ import annotations

from provision.clouds import base
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.requests import NETWORK
from provision.errors import CloudInvalidError


def network_of(api: GcpProjectApi, order: base.Order, region: str) -> str:
    """The path of the network of an order's subnetwork; the default one, without a call, where the order names none.

    Raises:
        CloudInvalidError: the region has no such subnetwork.
    """
    if not order.subnet:
        return NETWORK
    try:
        raw = api.call("Subnetworks", "get", "compute.subnetworks.get", where=region, region=region, subnetwork=order.subnet)
    except GoneError as error:
        msg = f"there is no subnetwork {order.subnet} in {region}"
        raise CloudInvalidError(msg, hint="correct network.subnet of the profile, or create it there", detail=error.detail) from error
    return "projects/" + str(raw.network).partition("/projects/")[2]

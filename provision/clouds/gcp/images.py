"""Images as Compute Engine describes them."""

from typing import Any

from provision.clouds import base
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.image_choice import named


def described(api: GcpProjectApi, order: base.Order) -> tuple[str, Any]:
    """The project of an order's image, and the image: the one of a name, or the newest of a family.

    Raises:
        GoneError, ImageNotFoundError: there is none.
    """
    project, name, in_family = named(order)
    if in_family:
        return project, api.call("Images", "get_from_family", "compute.images.getFromFamily", project=project, family=name)
    return project, api.call("Images", "get", "compute.images.get", project=project, image=name)

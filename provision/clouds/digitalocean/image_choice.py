"""Which image an order starts from: its own, its lock's, or the public one of its system; and what is wrong with one."""

from typing import Any

from provision.clouds import base
from provision.clouds.digitalocean import data
from provision.clouds.digitalocean.data import DigitalOceanImage
from provision.clouds.digitalocean.own_image import DigitalOceanOwnImage
from provision.errors import ImageNotFoundError


def image_of(system: tuple[str, str]) -> DigitalOceanImage:
    """The public image of a system.

    Raises:
        ImageNotFoundError: the catalog has none on DigitalOcean.
    """
    image = data.image(system)
    if image is None:
        known = ", ".join(f"{i.os} {i.version}" for i in data.digitalocean().images)
        msg = f"the catalog has no image of {' '.join(system)} on DigitalOcean"
        raise ImageNotFoundError(msg, hint=f"choose one of {known}, or another cloud")
    return image


def own_of(place: Any) -> DigitalOceanOwnImage | None:
    """The image that a place names; None where there is none, or no place."""
    image: DigitalOceanOwnImage | None = getattr(place, "image", None)
    return image


def login_of(order: base.Order) -> str:
    """The user that our user data makes for the first login: DigitalOcean's images have root alone."""
    own, record = own_of(order.place), data.image(order.os)
    if own is not None:
        return own.login or (record.login if record else order.os[0])
    return image_of(order.os).login


def source_image(order: base.Order) -> str:
    """The place's own image, the image of the lock, or else the slug of the system's."""
    own = own_of(order.place)
    return own.source if own is not None else order.image_id or image_of(order.os).slug


def problem(image: Any, order: base.Order, region: str) -> str:
    """Why a droplet of an order does not start from an image; empty where it does. The words follow the image's name."""
    if image.get("status", "available") != "available":
        return f"is {image['status']}"
    if image.get("regions") and region not in image["regions"]:
        return f"is not in {region}"
    size = data.size(order.instance_type)
    if size and (image.get("min_disk_size") or 0) > size.disk_gb:
        return f"needs {image['min_disk_size']} GiB, and {order.instance_type} has {size.disk_gb}"
    return ""

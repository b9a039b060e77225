"""Which image an order starts from: its own, its lock's, or the newest of its system; and what is wrong with one."""

from typing import Any

from provision.clouds import base
from provision.clouds.gcp import data
from provision.clouds.gcp.data import GcpImage
from provision.clouds.gcp.own_image import GcpOwnImage
from provision.errors import ImageNotFoundError


def image_of(system: tuple[str, str]) -> GcpImage:
    """The image family of a system.

    Raises:
        ImageNotFoundError: the catalog has none on GCP.
    """
    image = data.image(system)
    if image is None:
        msg = f"the catalog has no image family of {' '.join(system)} on GCP"
        raise ImageNotFoundError(msg, hint=_choose())
    return image


def first_boot_of(system: tuple[str, str]) -> str:
    """The item of the metadata that images of a system run at their first boot, those of one's own too.

    Raises:
        ImageNotFoundError: it is not known; what is not run is a deadline, or the program of a fleet's member.
    """
    image = data.image(system)
    if image is None:
        msg = f"it is not known what images of {' '.join(system)} run at their first boot on GCP"
        raise ImageNotFoundError(msg, hint=_choose())
    return image.first_boot


def _choose() -> str:
    return f"choose one of {', '.join(f'{i.os} {i.version}' for i in data.gcp().images)}, or another cloud"


def own_of(place: Any) -> GcpOwnImage | None:
    """The image that a place names; None where there is none, or no place."""
    image: GcpOwnImage | None = getattr(place, "image", None)
    return image


def login_of(order: base.Order) -> str:
    """The user whom Google's agent makes for the first login."""
    own, record = own_of(order.place), data.image(order.os)
    if own is not None:
        return own.login or (record.login if record else order.os[0])
    return image_of(order.os).login


def source_image(order: base.Order) -> str:
    """One that was baked, the place's own image, the image of the lock, or else the family, of which GCE takes the newest."""
    if order.baked:
        return f"global/images/{order.baked}"
    own = own_of(order.place)
    if own is not None:
        return own.source
    family = image_of(order.os)
    return order.image_id or f"projects/{family.project}/global/images/family/{family.family}"


def named(order: base.Order) -> tuple[str, str, bool]:
    """The project, and the name of the image, or of its family."""
    own = own_of(order.place)
    if own is not None:
        return own.project or "", own.family or own.name or "", own.family is not None
    if order.image_id:
        _, project, _, _, name = order.image_id.split("/")
        return project, name, False
    family = image_of(order.os)
    return family.project, family.family, True


def problem(image: Any, order: base.Order) -> str:
    """Why a machine of an order does not start from an image; empty where it does. The words follow the image's name.

    The states: docs.cloud.google.com/compute/docs/images/image-management-best-practices, "deprecation states": only of the last two no
    new disk is made, and DEPRECATED warns.
    """
    state = image.deprecated.state
    if state in {"DEPRECATED", "OBSOLETE", "DELETED"}:
        newer = f"; {image.deprecated.replacement.rpartition('/')[2]} replaces it" if image.deprecated.replacement else ""
        return f"is {state.lower()}{newer}"
    if image.status not in {"READY", ""}:
        return f"is {image.status.lower()}"
    if image.architecture not in {"X86_64", "", "ARCHITECTURE_UNSPECIFIED"}:
        return f"is for {image.architecture}, and {order.instance_type} has X86_64"
    if image.disk_size_gb > order.root_gb:
        return f"needs {image.disk_size_gb} GB, and disks.root.size_gb is {order.root_gb}"
    return ""

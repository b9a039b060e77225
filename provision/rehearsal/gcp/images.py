"""Images of the embedded GCP: the families of the catalogue in their public projects, and those of the settings in any other project."""

import re
import zlib
from typing import Any, Final

from provision.clouds.gcp import data
from provision.clouds.gcp.own_image import GcpOwnImage
from provision.rehearsal.gcp.refusals import invalid, not_found
from provision.rehearsal.gcp.settings import PROJECT, GcpSettings
from provision.rehearsal.gcp.world import BASE, GcpCall, last

_IMAGE_DATE: Final = "v20261101"
_LINK: Final = re.compile(r"(?:(?:^|/)projects/([^/]+)/|^)global/images/(family/)?([^/]+)$")
_GONE: Final = {"OBSOLETE", "DELETED"}  # no new disk is made of them: cloud.google.com/compute/docs/images/image-management-best-practices


def public_projects() -> set[str]:
    """The projects whose images are everybody's."""
    return {project for project, _ in _families()}


def images_of(project: str, settings: GcpSettings) -> list[dict[str, Any]]:
    """Every image of a project, as `images.get` shows it."""
    families = sorted(family for owner, family in _families() if owner == project)
    shipped = [_image(project, {"name": f"{family}-{_IMAGE_DATE}", "family": family}) for family in families]
    return shipped + [_image(project, given) for given in (*settings.gce_images, *settings.gce_made_images) if given["project"] == project]


def _families() -> set[tuple[str, str]]:
    records = data.gcp()
    return {(i.project, i.family) for i in records.images} | {(i.project, i.family) for i in records.accelerator_images}


def by_family(call: GcpCall) -> dict[str, Any]:
    """The newest image of a family that is not deprecated, as `images.getFromFamily` answers."""
    fitting = [i for i in images_of(call.path["project"], call.world.settings) if i.get("family") == call.name and "deprecated" not in i]
    if not fitting:
        raise not_found(str(call.resource(f"family/{call.name}")))
    return max(fitting, key=lambda image: str(image["creationTimestamp"]))


def boot_image(link: str, at: str, settings: GcpSettings) -> dict[str, Any]:
    """The image that a boot disk is made of, by family or by name."""
    match = _LINK.search(link)
    project, in_family, name = match.groups() if match else ("", None, "")
    project = project or (PROJECT if match else "")
    images = [image for image in images_of(project, settings) if image.get("family" if in_family else "name") == name]
    usable = [image for image in images if not (in_family and "deprecated" in image)]
    if not usable:
        raise invalid(at, link, "The referenced image resource cannot be found.")
    image = max(usable, key=lambda image: str(image["creationTimestamp"]))
    state = image.get("deprecated", {}).get("state", "")
    if state in _GONE:
        raise invalid(at, link, f"The referenced image resource is {state.lower()} and cannot be used.")
    if image["status"] != "READY":
        raise invalid(at, link, f"The referenced image resource is not ready: it is {image['status']}.")
    if image["architecture"] != "X86_64":
        raise invalid(at, link, f"The architecture {image['architecture']} of the image does not fit the machine type.")
    return image


def system_of(link: str, settings: GcpSettings) -> str:
    """The system of an image that is named by its link, in the words of the catalogue; empty where none is known."""
    project, name = project_of(link), last(link)
    shipped = {f"{i.family}-{_IMAGE_DATE}": f"{i.os} {i.version}" for i in data.gcp().images if i.project == project}
    rows = (*settings.gce_images, *settings.gce_made_images)
    given = {i["name"]: i.get("system", "") for i in rows if i["project"] == project}
    return str({**shipped, **given}.get(name, ""))


def project_of(link: str) -> str:
    """The project of an image's path; empty where it is none."""
    match = _LINK.search(link)
    return (match[1] or PROJECT) if match else ""


def made_of(link: str, settings: GcpSettings) -> str:
    """The name of an image that a client made of a host's disk; empty for every other one."""
    return next((row["name"] for row in settings.gce_made_images if (row["project"], row["name"]) == (project_of(link), last(link))), "")


def stand_in(image: GcpOwnImage, system: str) -> dict[str, Any]:
    """What a rehearsal adds for the own image of a place: a plain image of that name or family."""
    named = {"name": image.name} if image.name else {"name": f"{image.family}-{_IMAGE_DATE}"[:63], "family": image.family}
    return {"project": image.project, **named, "system": system}


def _image(project: str, given: dict[str, Any]) -> dict[str, Any]:
    name = given["name"]
    return {
        "kind": "compute#image",
        "id": str(zlib.crc32(f"{project}/{name}".encode()) + 10**12),
        "status": "READY",
        "description": name.upper().replace("-", " "),
        "architecture": "X86_64",
        "diskSizeGb": "20" if "rocky" in name else "10",
        "archiveSizeBytes": "1000000000",
        "creationTimestamp": "2026-11-01T00:00:00.000-07:00",
        "selfLink": f"{BASE}projects/{project}/global/images/{name}",
        **{key: value for key, value in given.items() if key not in {"project", "system"}},
    }

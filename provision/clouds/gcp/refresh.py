"""What GCP says today about its GPUs: which zone has which accelerator, and the newest image of each family."""

from __future__ import annotations

from collections import defaultdict

from provision.catalog import read
from provision.clouds.gcp.client import TIMEOUT_S, GcpAccess, client, project_of
from provision.clouds.gcp.errors import classified


def accelerator_zones(access: GcpAccess) -> dict[str, list[str]]:
    """Accelerator → the zones that have it, for the accelerators whose GPU the catalogue knows.

    Raises:
        CloudError: what GCP said instead.
    """
    known = {g.gce_accelerator for g in read.gpus().gpus if g.gce_accelerator}
    found: dict[str, list[str]] = defaultdict(list)
    with classified("compute.acceleratorTypes.list"):
        pages = client("AcceleratorTypesClient", access).aggregated_list(project=project_of(access), timeout=TIMEOUT_S)
        for scope, listed in pages:
            for accelerator in listed.accelerator_types:
                if accelerator.name in known and not accelerator.deprecated.state:
                    found[accelerator.name].append(scope.removeprefix("zones/"))
    return {name: sorted(where) for name, where in found.items()}


def newest_images(access: GcpAccess) -> dict[str, str]:
    """System → the newest image of its family, as `projects/PROJECT/global/images/NAME`.

    Raises:
        CloudError: what GCP said instead.
    """
    newest = {}
    families = client("ImagesClient", access)
    for image in read.gcp().images:
        with classified("compute.images.getFromFamily"):
            found = families.get_from_family(project=image.project, family=image.family, timeout=TIMEOUT_S)
        newest[f"{image.os} {image.version}"] = f"projects/{image.project}/global/images/{found.name}"
    return newest

"""What GCP says today about its GPUs: which zone has which accelerator, and the newest image of each family."""

from __future__ import annotations

from collections import defaultdict

from provision.catalog import read
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client, project_of
from provision.clouds.gcp.errors import cloud_errors


def accelerator_zones(access: GcpAccess) -> dict[str, list[str]]:
    """Accelerator → the zones that have it, for the accelerators whose GPU the catalogue knows.

    Raises:
        CloudError: what GCP said instead.
    """
    accelerators = {g.gce_accelerator for g in read.gpus().gpus if g.gce_accelerator}
    zones: dict[str, list[str]] = defaultdict(list)
    with cloud_errors("compute.acceleratorTypes.list"):
        pages = client("AcceleratorTypesClient", access).aggregated_list(project=project_of(access), timeout=access.timeout_s)
        for scope, scoped in pages:
            for accelerator in scoped.accelerator_types:
                if accelerator.name in accelerators and not accelerator.deprecated.state:
                    zones[accelerator.name].append(scope.removeprefix("zones/"))
    return {name: sorted(where) for name, where in zones.items()}


def newest_images(access: GcpAccess) -> dict[str, str]:
    """System → the newest image of its family, as `projects/PROJECT/global/images/NAME`.

    Raises:
        CloudError: what GCP said instead.
    """
    images = {}
    families = client("ImagesClient", access)
    for image in read.gcp().images:
        with cloud_errors("compute.images.getFromFamily"):
            newest = families.get_from_family(project=image.project, family=image.family, timeout=access.timeout_s)
        images[f"{image.os} {image.version}"] = f"projects/{image.project}/global/images/{newest.name}"
    return images

"""What GCP says today about its GPUs: which zone has which accelerator, and the newest image of each family."""

from collections import defaultdict
from collections.abc import Sequence

from provision.catalog.overlay import Overlay
from provision.clouds.gcp import data
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client, project_of
from provision.clouds.gcp.errors import cloud_errors
from provision.clouds.terms import Refreshed, Say


def accelerator_zones(access: GcpAccess) -> dict[str, list[str]]:
    """Accelerator → the zones that have it, for the accelerators whose GPU the catalog knows.

    Raises:
        CloudError: what GCP said instead.
    """
    accelerators = set(data.gcp().accelerators.values()) | {machine.accelerator for machine in data.gcp().machines if machine.accelerator}
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
    for image in data.gcp().images:
        with cloud_errors("compute.images.getFromFamily"):
            newest = families.get_from_family(project=image.project, family=image.family, timeout=access.timeout_s)
        images[f"{image.os} {image.version}"] = f"projects/{image.project}/global/images/{newest.name}"
    return images


def refresh_offers(before: Overlay, regions: Sequence[str], access: GcpAccess, say: Say) -> Refreshed:  # noqa: ARG001 - one call has all
    """Ask Compute Engine where its accelerators are, and for its newest images.

    Args:
        before: the overlay so far.
        regions: ignored: one call answers for all.
        access: whose GCP.
        say: told about progress.

    Raises:
        CloudError: what GCP said instead.
    """
    say("asking GCP where its accelerators are, and for its newest images")
    zones = accelerator_zones(access)
    changed = []
    for name in data.gcp().zones:
        if name != "source":
            now, old = set(zones.setdefault(name, [])), set(data.zones(name))
            changed += [f"{zone}: now has {name}" for zone in sorted(now - old)]
            changed += [f"{zone}: no longer has {name}" for zone in sorted(old - now)]
    layer = data.GcpOverlay(zones=zones, images=newest_images(access))
    origin = f"Compute Engine{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    return Refreshed(before.with_part("gcp", origin, clouds=before.with_cloud("gcp", layer)), changed, [])

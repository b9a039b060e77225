"""What GCP says today about its GPUs: which zone has which accelerator, and the newest image of each family."""

from collections import defaultdict
from collections.abc import Sequence

from provision.catalog import read
from provision.catalog.overlay import Overlay
from provision.clouds.gcp import data
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client, project_of
from provision.clouds.gcp.errors import GoneError, cloud_errors
from provision.clouds.terms import Refreshed, Say
from provision.errors import ImageNotFoundError


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


def newest_images(access: GcpAccess) -> tuple[dict[str, str], dict[str, data.GcpImageFacts], list[str]]:
    """System → the newest image of its family, as `projects/PROJECT/global/images/NAME`; what each is; and why a system has none.

    Raises:
        CloudError: what GCP said instead.
    """
    images, described, lacking = {}, {}, []
    launched = {system.key for system in read.systems().systems if not system.subscribed}
    families = client("ImagesClient", access)
    for record in data.gcp().images:
        system = f"{record.os} {record.version}"
        if system not in launched:
            continue
        try:
            with cloud_errors("compute.images.getFromFamily"):
                newest = families.get_from_family(project=record.project, family=record.family, timeout=access.timeout_s)
        except (GoneError, ImageNotFoundError) as error:
            lacking.append(f"gcp: {system}: {error.message}")
            continue
        images[system] = f"projects/{record.project}/global/images/{newest.name}"
        described[images[system]] = data.GcpImageFacts(newest.name, record.project, newest.creation_timestamp[:10])
    return images, described, lacking


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
    images, described, lacking = newest_images(access)
    layer = data.GcpOverlay(zones=zones, images=images, described=described)
    origin = f"Compute Engine{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    return Refreshed(before.with_part("gcp", origin, clouds=before.with_cloud("gcp", layer)), changed, lacking)

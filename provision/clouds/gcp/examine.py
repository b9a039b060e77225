"""What GCP says before a launch: reads alone, all at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provision.clouds import base
from provision.clouds.gcp import data
from provision.clouds.gcp.api import GcpApi, at_once
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.requests import image_of
from provision.errors import CloudError, ImageNotFoundError


def examine(api: GcpApi, order: base.Order, region: str, zones: list[str]) -> list[base.Answer]:
    """The answers about the region, the machine type, the quotas and the image; GCP has no dry run."""

    def asked(question: tuple[str, Callable[[], base.Answer]]) -> base.Answer:
        about, ask = question
        try:
            return ask()
        except GoneError as error:
            return base.Answer(about, holds=False, said=error.message)
        except CloudError as error:
            return base.Answer(about, holds=None, said=error.message)

    questions = [
        ("region", lambda: _region(api, region)),
        ("offered", lambda: _offered(api, order, zones)),
        ("quota", lambda: _quota(api, order, region)),
        ("image", lambda: _image(api, order)),
    ]
    return [*at_once(asked, questions), base.Answer("dry-run", holds=None, said="Compute Engine has no dry run")]


def _region(api: GcpApi, region: str) -> base.Answer:
    found = api.call("Regions", "get", "compute.regions.get", region=region)
    return base.Answer("region", holds=found.status == "UP", said=f"{region} is {found.status or 'unknown'}")


def _offered(api: GcpApi, order: base.Order, zones: list[str]) -> base.Answer:
    """Whether the machine type, and the accelerator that is attached to it, are in the order's zone, or in which of the region's."""
    accelerator = data.accelerator(order.gpu)
    attached = order.instance_type.startswith("n1-")

    def there(zone: str) -> bool:
        try:
            api.call("MachineTypes", "get", "compute.machineTypes.get", zone=zone, machine_type=order.instance_type)
            if attached:
                api.call("AcceleratorTypes", "get", "compute.acceleratorTypes.get", zone=zone, accelerator_type=accelerator)
        except GoneError:
            return False
        return True

    asked = [order.zone] if order.zone else zones
    having = [zone for zone, has in zip(asked, at_once(there, asked), strict=True) if has]
    what = f"{order.instance_type} with {accelerator}" if attached else order.instance_type
    if not having:
        return base.Answer(
            "offered", holds=False, said=f"{what} is not offered in {', '.join(asked) or 'any zone that the catalogue knows'}"
        )
    return base.Answer("offered", holds=True, said=f"{what} is offered in {', '.join(having)}")


def _quotas(api: GcpApi, region: str) -> dict[str, tuple[float, float]]:
    """Metric → (limit, usage), of the region and of the whole project."""

    def of(scope: str) -> Any:
        if scope:
            return api.call("Regions", "get", "compute.regions.get", region=scope)
        return api.call("Projects", "get", "compute.projects.get")

    return {q.metric: (q.limit, q.usage) for found in at_once(of, [region, ""]) for q in found.quotas}


def usage_of(api: GcpApi, metric: str, region: str) -> tuple[float, float] | None:
    """(limit, usage) of a metric, or None where nobody says."""
    try:
        return _quotas(api, region).get(metric.upper())
    except CloudError:
        return None


def _quota(api: GcpApi, order: base.Order, region: str) -> base.Answer:
    """Needed against limit and use, in GPUs: the regional quota of the model, and the one over all regions."""
    found = _quotas(api, region)
    metric = data.quota(order.gpu, order.market)
    needed = order.gpu_count * order.count
    told, holds = [], True
    for name in (metric, data.gcp().quotas.all_regions):
        if name is None or name not in found:
            continue
        limit, usage = found[name]
        holds = holds and usage + needed <= limit
        told.append(f"{usage:g} of {limit:g} used ({name})")
    if not told:
        return base.Answer("quota", holds=None, said=f"which quota {order.gpu} counts against is not in the catalogue")
    return base.Answer("quota", holds=holds, said=f"{needed} GPUs needed, {' and '.join(told)}")


def _image(api: GcpApi, order: base.Order) -> base.Answer:
    try:
        if order.image_id:
            _, project, _, _, name = order.image_id.split("/")
            found = api.call("Images", "get", "compute.images.get", project=project, image=name)
        else:
            family = image_of(order.os)
            found = api.call("Images", "get_from_family", "compute.images.getFromFamily", project=family.project, family=family.family)
    except (GoneError, ImageNotFoundError) as error:
        return base.Answer("image", holds=False, said=error.message)
    return base.Answer("image", holds=found.status in {"READY", ""}, said=found.name)

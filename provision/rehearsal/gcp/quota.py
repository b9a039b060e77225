"""What a project may use and a zone has room for: limits out of the settings, use out of what runs."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from provision.clouds.gcp import data
from provision.rehearsal.gcp.guests import Guest
from provision.rehearsal.gcp.listing import as_list
from provision.rehearsal.gcp.offers import accelerators, metric_of, region_of, regions, zones
from provision.rehearsal.gcp.operations import failure
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, World, last

_A2: Final = "a2"
_REGIONAL: Final = ("CPUS", "PREEMPTIBLE_CPUS", "A2_CPUS", "INSTANCES", "IN_USE_ADDRESSES")
_GLOBAL: Final = ("CPUS_ALL_REGIONS",)


def obstacle(call: GcpCall, guest: Guest, *, waits: bool = False) -> dict[str, Any] | None:
    """How the operation that makes or starts an instance fails: as a fault says, for want of quota, or of room; None if it succeeds."""
    zone = last(guest.place.scope)
    return call.error or shortage(call.world, region_of(zone), [guest]) or (None if waits else out_of_stock(call.world, zone, guest))


def _needs(guest: Guest) -> Counter[str]:
    """Metric → how much of it an instance uses, regional and global ones alike.

    The GPU metrics are those of gcp.yaml, with their spot twins. A project without preemptible CPU quota uses that of CPUS for spot, so
    spot instances count there: docs.cloud.google.com/compute/resource-usage, "Preemptible quotas".
    """
    use = Counter({"INSTANCES": 1, "IN_USE_ADDRESSES": guest.addresses, "CPUS_ALL_REGIONS": guest.machine.vcpus})
    use["A2_CPUS" if guest.machine.name.startswith(_A2) else "CPUS"] += guest.machine.vcpus
    for accelerator, count in guest.accelerators.items():
        metric = metric_of(accelerator)
        if metric:
            use[f"PREEMPTIBLE_{metric}" if guest.spot else metric] += count
        if not guest.spot:
            use[data.gcp().quotas.all_regions] += count
    return use


def _global_metrics() -> set[str]:
    return {*_GLOBAL, data.gcp().quotas.all_regions}


def _use(world: World, region: str | None) -> Counter[str]:
    """What the instances that are not stopped use, in one region or all."""
    total: Counter[str] = Counter()
    for place, instance in world.within(PROJECT, "instances"):
        if instance["status"] != "TERMINATED" and (region is None or place.scope.startswith(f"zones/{region}-")):
            total += _needs(world.guests[instance["id"]])
    return total


def _limit(world: World, where: str, metric: str) -> float:
    return float(world.settings.gce_quota.get(where, {}).get(metric, world.settings.gce_default_quota))


def shortage(world: World, region: str, guests: Iterable[Guest]) -> dict[str, Any] | None:
    """How an operation fails that makes or starts these instances in a region, if a quota has no room for them beside what runs."""
    needs: Counter[str] = sum((_needs(guest) for guest in guests), Counter())
    here, everywhere = _use(world, region), _use(world, None)
    for metric, count in sorted(needs.items(), reverse=True):
        is_global = metric in _global_metrics()
        limit = _limit(world, "global" if is_global else region, metric)
        if (everywhere if is_global else here)[metric] + count > limit:
            return _exceeded(metric, limit, None if is_global else region)
    return None


def _exceeded(metric: str, limit: float, region: str | None) -> dict[str, Any]:
    """The words and fields of google.cloud.compute_v1.QuotaExceededInfo; metric and limit names follow the pattern of its description."""
    where = f"in region {region}" if region else "globally"
    name = f"{metric.replace('_', '-')}-per-project{'-region' if region else ''}"
    info = {"metricName": f"compute.googleapis.com/{metric.lower()}", "limitName": name, "limit": limit}
    details = [{"quotaInfo": {**info, "dimensions": {"region": region} if region else {}}}]
    return failure("QUOTA_EXCEEDED", f"Quota '{metric}' exceeded.  Limit: {limit} {where}.", http=403, details=details)


def room(world: World, zone: str) -> float:
    """How many more instances a zone can run; infinitely many if the settings say nothing of it."""
    use: int = sum(instance["status"] != "TERMINATED" for _, instance in world.within(PROJECT, "instances", f"zones/{zone}"))
    return world.settings.gce_capacity.get(zone, math.inf) - use


def out_of_stock(world: World, zone: str, guest: Guest) -> dict[str, Any] | None:
    """How an operation fails that makes or starts an instance in a zone without room; None where there is room.

    Code and words: docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability and
    CCExtractor/sample-platform#901. The keys of the metadata are not confirmed (docs/sources/emulators.md §C).
    """
    if room(world, zone) > 0:
        return None
    alike = [z for z in zones() if z != zone and region_of(z) == region_of(zone) and set(guest.accelerators) <= set(accelerators(z))]
    others = ",".join(z for z in alike if room(world, z) > 0)
    instead = f" Try a different zone, or try again later. Consider: {others.replace(',', ', ')}." if others else ""
    words = f"The zone 'projects/{PROJECT}/zones/{zone}' does not have enough resources available to fulfill the request.{instead}"
    attachment = ",".join(f"{name}:{count}" for name, count in sorted(guest.accelerators.items()))
    metadata = {"zone": zone, "vmType": guest.machine.name, "attachment": attachment, "zonesAvailable": others}
    info = {"reason": "resource_availability", "domain": "compute.googleapis.com", "metadatas": metadata}
    details: list[dict[str, Any]] = [{"errorInfo": info}, {"localizedMessage": {"locale": "en-US", "message": words}}]
    return failure("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", words, details=details)


def _quotas(world: World, where: str, metrics: Iterable[str], use: Counter[str]) -> list[dict[str, Any]]:
    return [{"metric": m, "limit": _limit(world, where, m), "usage": float(use[m])} for m in metrics]


def _region(world: World, name: str) -> dict[str, Any]:
    cards = list(data.gcp().quotas.metrics.values())
    metrics = [*_REGIONAL, *cards, *(f"PREEMPTIBLE_{metric}" for metric in cards)]
    link = f"{BASE}projects/{PROJECT}"
    return {
        "kind": "compute#region",
        "id": str(1000 + regions().index(name)),
        "name": name,
        "status": "UP",
        "zones": [f"{link}/zones/{zone}" for zone in zones() if region_of(zone) == name],
        "quotas": _quotas(world, name, metrics, _use(world, name)),
        "selfLink": f"{link}/regions/{name}",
    }


def _project(call: GcpCall) -> dict[str, Any]:
    quotas = _quotas(call.world, "global", sorted(_global_metrics()), _use(call.world, None))
    return {"kind": "compute#project", "id": "1", "name": PROJECT, "quotas": quotas, "selfLink": f"{BASE}projects/{PROJECT}"}


HANDLERS: Final[dict[str, Handler]] = {
    "compute.regions.get": lambda call: _region(call.world, call.path["region"]),
    "compute.regions.list": lambda call: as_list(call, [_region(call.world, name) for name in regions()]),
    "compute.projects.get": _project,
}

"""What the clouds offer: instance types with their GPUs, where, at what price; and why a place cannot be had.

Prices are on demand, in US dollars an hour. One that is not in the catalogue is None, never an estimate.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from provision.catalog import read
from provision.catalog.records.clouds import AwsImage, AwsType, Shape

__all__ = [
    "Offer",
    "Price",
    "attached_ssds",
    "aws_image",
    "aws_price",
    "elsewhere",
    "gcp_regions",
    "gone",
    "local_disks",
    "offers",
    "price_of",
    "quota_of",
    "where",
    "why_not_aws",
    "why_not_gcp",
]

_LOCAL_SSDS: Final = 8
_LOCAL_SSD_GB: Final = 375  # the smallest that GCP has; a larger total is one or several


@dataclass(frozen=True, slots=True)
class Price:
    """An on-demand price, and where it was read.

    Attributes:
        whole: whether it is the whole machine's; GCP bills the vCPUs and memory of N1 beside its GPU.
    """

    usd_per_hour: float
    source: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Offer:
    """An instance type, in one region or, without a region, wherever it is.

    Attributes:
        gpus: how many; below one is a fraction of a GPU.
        local_gb: disks inside the machine, empty after each stop.
        zones: zone ids in the region; empty where the zones are not known.
        note: what surprises about it.
    """

    cloud: str
    instance_type: str
    gpu: str | None
    gpus: float
    vcpus: int
    memory_gb: float
    local_gb: int
    regions: tuple[str, ...]
    markets: tuple[str, ...]
    source: str
    region: str | None = None
    zones: tuple[str, ...] = ()
    price: Price | None = None
    note: str = ""


def offers(*, gpu: str | None = None, region: str | None = None, cloud: str | None = None, max_price: float | None = None) -> list[Offer]:
    """The offers that fit; with a region in that region, else one a type, with the region whose price is known.

    Args:
        gpu: a model of the catalogue.
        region: a region of either cloud.
        cloud: `aws` or `gcp`.
        max_price: US dollars an hour; an offer whose whole price is not known does not fit.
    """
    found = [offer for offer in _all() if (gpu is None or offer.gpu == gpu) and (cloud is None or offer.cloud == cloud)]
    if region is not None:
        found = [_in_region(offer, region) for offer in found if region in offer.regions]
    else:
        found = [_priced_anywhere(offer) for offer in found]
    if max_price is not None:
        found = [offer for offer in found if offer.price and offer.price.whole and offer.price.usd_per_hour <= max_price]
    return found


def _all() -> Iterator[Offer]:
    for record in read.aws_types().values():
        if record.withdrawn is None and record.offered:
            yield _of_aws(record)
    yield from _of_gcp()


def _of_aws(record: AwsType) -> Offer:
    return Offer(
        cloud="aws",
        instance_type=record.type,
        gpu=record.gpu,
        gpus=record.gpus,
        vcpus=record.vcpus,
        memory_gb=record.memory_gib,
        local_gb=sum(record.nvme_gb),
        regions=tuple(sorted(record.offered)),
        markets=tuple(record.markets),
        source=record.source,
        note=record.trap,
    )


def _of_gcp() -> Iterator[Offer]:
    data = read.gcp()
    markets = ("on-demand", "spot")
    for attached in data.attached:
        regions = _regions(attached.accelerator)
        for shape in attached.shapes:
            for vcpus in data.n1.vcpus:
                memory = vcpus * data.n1.gb_per_vcpu["standard"]
                if vcpus <= shape.vcpus and memory <= shape.memory_gb:
                    size = (shape.gpus, vcpus, memory, 0)
                    yield Offer("gcp", f"n1-standard-{vcpus}", attached.gpu, *size, regions, markets, attached.source)
    for machine in data.machines:
        accelerator = read.gpu(machine.gpu).gce_accelerator or ""
        size = (machine.gpus, machine.vcpus, machine.memory_gb, machine.local_ssd_gb)
        yield Offer("gcp", machine.type, machine.gpu, *size, _regions(accelerator), markets, machine.source)


def _zones(accelerator: str) -> list[str]:
    zones = read.gcp().zones.get(accelerator, [])
    return zones if isinstance(zones, list) else []


def _regions(accelerator: str) -> tuple[str, ...]:
    return tuple(sorted({zone.rpartition("-")[0] for zone in _zones(accelerator)}))


def gcp_regions() -> list[str]:
    """The regions of GCP that have any accelerator."""
    zones = [zone for listed in read.gcp().zones.values() if isinstance(listed, list) for zone in listed]
    return sorted({zone.rpartition("-")[0] for zone in zones})


def _in_region(offer: Offer, region: str) -> Offer:
    zones = where(offer.cloud, offer.instance_type, offer.gpu).get(region, ())
    return replace(offer, region=region, zones=zones, price=price_of(offer, region))


def _priced_anywhere(offer: Offer) -> Offer:
    priced = {region: price for region in offer.regions if (price := price_of(offer, region))}
    if not priced:
        return offer
    region = min(priced, key=lambda name: priced[name].usd_per_hour)
    return replace(offer, region=region if offer.cloud == "aws" else None, price=priced[region])


def price_of(offer: Offer, region: str) -> Price | None:
    """The price of an offer in a region, or None."""
    if offer.cloud == "aws":
        return aws_price(offer.instance_type, region)
    for entry in read.gcp().prices:
        if entry.machine == offer.instance_type:
            return Price(entry.usd_per_hour, entry.source)
        if entry.gpu_only and entry.gpu == offer.gpu and offer.instance_type.startswith("n1-"):
            return Price(round(entry.usd_per_hour * offer.gpus, 4), entry.source, whole=False)
    return None


def aws_price(instance_type: str, region: str) -> Price | None:
    """The on-demand price of an EC2 instance type in a region, or None."""
    found = next((p for p in read.aws().prices if (p.instance_type, p.region) == (instance_type, region)), None)
    return Price(found.usd_per_hour, found.source) if found else None


def local_disks(cloud: str, instance_type: str) -> int | None:
    """How many disks a machine of this type has inside when the data disk is to be there; None where nobody knows, or their total alone."""
    if cloud == "aws":
        record = read.aws_types().get(instance_type)
        return len(record.nvme_gb) if record else None
    attached = attached_ssds(instance_type)
    machine = next((m for m in read.gcp().machines if m.type == instance_type), None)
    if attached or (machine and machine.local_ssd_gb <= _LOCAL_SSD_GB):
        return attached or (1 if machine and machine.local_ssd_gb else 0)
    return None


def attached_ssds(instance_type: str) -> int:
    """How many local SSDs are attached to a machine of GCP for a data disk inside it; 0 where they are built in, or there can be none.

    N1 takes 1 to 8, 16 or 24 (AllowedLocalSSDCount of cockroachdb/cockroach); A2 and G2 one for each GPU and 8 at most (from memory).
    """
    if instance_type.startswith("n1-"):
        return 1
    machine = next((m for m in read.gcp().machines if m.type == instance_type), None)
    fits = machine is not None and not machine.local_ssd_gb and instance_type.startswith(("a2-", "g2-"))
    return min(machine.gpus, _LOCAL_SSDS) if machine and fits else 0


def where(cloud: str, instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:
    """Region → zones of an instance type; a region whose zones are not known has none."""
    if cloud == "aws":
        record = read.aws_types().get(instance_type)
        regions = read.aws().regions.codes
        offered = record.offered if record and record.withdrawn is None else {}
        return {region: tuple(f"{regions[region].zones}-az{number}" for number in numbers) for region, numbers in sorted(offered.items())}
    machine = next((m for m in read.gcp().machines if m.type == instance_type), None)
    model = machine.gpu if machine else gpu
    zones = _zones(read.gpu(model).gce_accelerator or "") if model else []
    by_region: dict[str, tuple[str, ...]] = {}
    for zone in sorted(zones):
        region = zone.rpartition("-")[0]
        by_region[region] = (*by_region.get(region, ()), zone)
    return by_region


def elsewhere(gpu: str, besides: str = "") -> str:
    """Where a GPU can be had, in a few words: `g4dn.xlarge in 21 regions of AWS; N1 in 49 zones of GCP`."""
    parts = []
    on_aws = [t for t in read.aws_types().values() if t.gpu == gpu and t.withdrawn is None and t.offered and t.type != besides]
    if on_aws:
        smallest = min(on_aws, key=lambda t: (t.gpus, t.vcpus))
        parts.append(f"{smallest.type} in {_some(sorted(smallest.offered))} of AWS")
    zones = _zones(read.gpu(gpu).gce_accelerator or "")
    if zones:
        parts.append(f"{len(zones)} zones of GCP ({_some(sorted({z.rpartition('-')[0] for z in zones}))})")
    return "; ".join(parts) or "nowhere in this catalogue"


def _some(names: list[str]) -> str:
    most = 4
    return ", ".join(names) if len(names) <= most else f"{len(names)} regions"


def aws_image(system: str, version: str) -> AwsImage | None:
    """How AWS finds the newest image of a system."""
    return next((i for i in read.aws().images if (i.os, i.version) == (system, version)), None)


def quota_of(cloud: str, instance_type: str, gpu: str | None, market: str) -> str | None:
    """The quota that a launch counts against: a code of AWS, a metric of GCP."""
    if cloud == "aws":
        family = "".join(c for c in instance_type.partition(".")[0] if c.isalpha())
        kind = next((f for f in ("gr", "g", "p") if family.startswith(f)), "")
        return next((q.code for q in read.aws().quotas if kind in q.families and q.market == market), None)
    metric = read.gcp().quotas.metrics.get(gpu or "")
    return f"PREEMPTIBLE_{metric}" if metric and market == "spot" else metric


def gone(instance_type: str) -> str:
    """That the family of an instance type left AWS's offerings, and when; empty when nothing says so."""
    family = instance_type.partition(".")[0]
    left = next((w for w in read.aws().withdrawn if w.family == family), None)
    return f"{family} left AWS's offerings (last seen {left.last_seen})" if left else ""


def why_not_aws(instance_type: str, region: str, market: str, gpu: str, count: int) -> str:
    """Why an instance type cannot be had there, or is not what is asked for; empty when nothing is known against it."""
    record = read.aws_types().get(instance_type)
    if record is None:
        left = gone(instance_type)
        if left:
            return f"{left}; {read.gpu(gpu).name} is at {elsewhere(gpu)}"
        near = difflib.get_close_matches(instance_type, read.aws_types(), n=1)
        return f"{instance_type} is not in the catalogue" + (f"; did you mean {near[0]}?" if near else "")
    if record.withdrawn is not None:
        return f"{instance_type} was withdrawn everywhere by {record.withdrawn}; {read.gpu(gpu).name} is at {elsewhere(gpu)}"
    trap = f": {record.trap}" if record.trap else ""
    if record.gpu != gpu:
        return f"{instance_type} has {record.gpu_name} ({record.vendor}), and {gpu} is asked for{trap}"
    if record.gpus < count:
        return f"{instance_type} has {record.gpus:g} GPU(s), and {count} are asked for{trap}"
    if read.aws().regions.codes.get(region) is None or read.aws().regions.codes[region].zones is None:
        return f"what {region} offers is not recorded"
    if region not in record.offered:
        return f"{instance_type} is not offered in {region}; it is in {_some(sorted(record.offered))}"
    if market not in record.markets:
        return f"{instance_type} is not sold as {market}"
    return ""


def why_not_gcp(machine_type: str, zone: str, gpu: str, count: int) -> str:
    """The same for a machine type of GCP with its GPUs."""
    built_in = next((m for m in read.gcp().machines if m.type == machine_type), None)
    if built_in:
        if (built_in.gpu, built_in.gpus) != (gpu, count):
            return f"{machine_type} has {built_in.gpus} x {built_in.gpu} built in, and {count} x {gpu} are asked for"
    else:
        problem = _why_not_n1(machine_type, gpu, count)
        if problem:
            return problem
    accelerator = read.gpu(gpu).gce_accelerator or ""
    zones = _zones(accelerator)
    if not zones:
        return f"the zones with {accelerator or gpu} are not recorded"
    return "" if zone in zones else f"{zone} has no {accelerator}; it is in {_some(list(_regions(accelerator)))}"


def _why_not_n1(machine_type: str, gpu: str, count: int) -> str:
    attached = next((a for a in read.gcp().attached if a.gpu == gpu), None)
    family, _, rest = machine_type.partition("-")
    kind, _, size = rest.partition("-")
    n1 = read.gcp().n1
    if attached is None or family != "n1" or kind not in n1.gb_per_vcpu or not size.isdigit():
        return f"{machine_type} with {gpu} is not in the catalogue"
    shape: Shape | None = next((s for s in attached.shapes if s.gpus == count), None)
    if shape is None:
        return f"{gpu} is attached {', '.join(str(s.gpus) for s in attached.shapes)} at a time, not {count}"
    vcpus = int(size)
    if vcpus > shape.vcpus or vcpus * n1.gb_per_vcpu[kind] > shape.memory_gb:
        return f"with {count} x {gpu} a machine has at most {shape.vcpus} vCPUs and {shape.memory_gb:g} GB, and {machine_type} has more"
    return ""

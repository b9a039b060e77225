"""Which instance types AWS offers, where and at what price, and why a place cannot be had. Nothing is asked of AWS."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from provision.clouds.aws import data
from provision.clouds.aws.place import AwsPlace
from provision.clouds.terms import Offer, Price, PricePart, Refusal, RefusalKind

_SHOWN = 4


def offers() -> Iterator[Offer]:
    """Every GPU instance type that can still be launched somewhere."""
    for record in data.types().values():
        if record.withdrawn is None and record.offered:
            yield Offer(
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


def offered_in(instance_type: str) -> dict[str, tuple[str, ...]]:
    """Region → zone ids of an instance type; a region whose zones are not known has none."""
    record = data.types().get(instance_type)
    regions = data.aws().regions.codes
    offered = record.offered if record and record.withdrawn is None else {}
    return {region: tuple(f"{regions[region].zones}-az{number}" for number in numbers) for region, numbers in sorted(offered.items())}


def price(instance_type: str, region: str) -> Price | None:
    """The on-demand price of an instance type in a region; it is always whole."""
    entry = data.prices().get((instance_type, region))
    return Price((PricePart("machine", *entry),)) if entry else None


def smallest_with(gpu: str) -> str:
    """The smallest type with a GPU and its regions, in a few words; empty when there is none."""
    types = [t for t in data.types().values() if t.gpu == gpu and t.withdrawn is None and t.offered]
    if not types:
        return ""
    smallest = min(types, key=lambda t: (t.gpus, t.vcpus))
    return f"{smallest.type} in {few(sorted(smallest.offered))} of AWS"


def few(names: Sequence[str]) -> str:
    """The names, or how many there are."""
    return ", ".join(names) if len(names) <= _SHOWN else f"{len(names)} regions"


def family_gone(instance_type: str) -> str:
    """A sentence about a family that left the offerings; empty when nothing is recorded about that."""
    family = instance_type.partition(".")[0]
    record = next((w for w in data.aws().withdrawn if w.family == family), None)
    return f"{family} left AWS's offerings (last seen {record.last_seen})" if record else ""


def refusal(place: AwsPlace, region: str, gpu: str, count: int) -> Refusal | None:
    """What the catalog knows against a place.

    Args:
        place: of the profile.
        region: one of its regions; empty to ask about the type alone.
        gpu: the model that the profile asks for.
        count: how many of them.
    """
    name, record = place.instance_type, data.types().get(place.instance_type)
    if record is None:
        gone = family_gone(name)
        if gone:
            return Refusal(RefusalKind.WITHDRAWN, gone)
        near = difflib.get_close_matches(name, data.types(), n=1)
        return Refusal(RefusalKind.UNKNOWN_TYPE, f"{name} is not in the catalog" + (f"; did you mean {near[0]}?" if near else ""))
    if record.withdrawn is not None:
        return Refusal(RefusalKind.WITHDRAWN, f"{name} was withdrawn everywhere by {record.withdrawn}")
    trap = f": {record.trap}" if record.trap else ""
    if record.gpu != gpu:
        return Refusal(RefusalKind.WRONG_GPU, f"{name} has {record.gpu_name} ({record.vendor}), and the profile asks for {gpu}{trap}")
    if record.gpus < count:
        return Refusal(RefusalKind.TOO_FEW_GPUS, f"{name} has {record.gpus:g} GPU(s), and the profile asks for {count}{trap}")
    known = data.aws().regions.codes.get(region)
    if known is None or known.zones is None:
        return Refusal(RefusalKind.UNRECORDED, f"what {region} offers is not recorded")
    if region not in record.offered:
        return Refusal(RefusalKind.NOT_OFFERED, f"{name} is not offered in {region}; it is in {few(sorted(record.offered))}")
    if place.market not in record.markets:
        return Refusal(RefusalKind.NOT_SOLD, f"{name} is not sold as {place.market}")
    return None

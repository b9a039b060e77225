"""Which instance types EC2 offers where, and at what price."""

from collections.abc import Iterator, Mapping

from provision.clouds.aws import data
from provision.clouds.aws.data import sources as sources  # noqa: PLC0414 - part of the Offering
from provision.clouds.aws.prices import price as price  # noqa: PLC0414 - part of the Offering
from provision.clouds.terms import Offer, Region

refreshes: Mapping[str, str] = {"aws": "refresh_offers", "prices": "refresh_prices"}


def regions() -> dict[str, Region]:
    """Every region of AWS that botocore knows."""
    return {code: Region(code, region.opt_in, region.zones is not None) for code, region in data.aws().regions.codes.items()}


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


def offered_in(instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:  # noqa: ARG001 - the type decides
    """Region → zone ids of an instance type; a region whose zones are not known has none."""
    record = data.types().get(instance_type)
    regions = data.aws().regions.codes
    offered = record.offered if record and record.withdrawn is None else {}
    return {region: tuple(f"{regions[region].zones}-az{number}" for number in numbers) for region, numbers in sorted(offered.items())}

"""Which sizes DigitalOcean offers where, and at what price."""

from collections.abc import Iterator, Mapping

from provision.clouds.digitalocean import data
from provision.clouds.digitalocean.data import sources as sources  # noqa: PLC0414 - part of the Offering
from provision.clouds.digitalocean.prices import price as price  # noqa: PLC0414 - part of the Offering
from provision.clouds.terms import Offer, Region

refreshes: Mapping[str, str] = {"digitalocean": "refresh_offers"}


def regions() -> dict[str, Region]:
    """The regions that have any size with GPUs."""
    return {code: Region(code) for code in sorted({code for size in data.digitalocean().sizes for code in size.regions})}


def offers() -> Iterator[Offer]:
    """The sizes with GPUs of NVIDIA."""
    for size in data.digitalocean().sizes:
        note = "an account has GPUs only after DigitalOcean has granted them" if size.regions else "this account has it nowhere"
        shape = (size.gpus, size.vcpus, size.memory_gb, size.scratch_gb)
        yield Offer("digitalocean", size.slug, size.gpu, *shape, tuple(size.regions), ("on-demand",), size.source, note=note)


def offered_in(instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:  # noqa: ARG001 - a size has its own
    """Region → nothing: a region has no zones."""
    size = data.size(instance_type)
    return dict.fromkeys(size.regions, ()) if size else {}

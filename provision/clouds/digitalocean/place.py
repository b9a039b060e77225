"""What a profile says about a place on DigitalOcean."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from provision.clouds.digitalocean import data
from provision.clouds.digitalocean.own_image import DigitalOceanOwnImage
from provision.clouds.offline import PlaceBase


def _of_nvidia(value: str) -> str:
    """Refuse AMD's GPUs by their name."""
    if data.is_amd(value):
        msg = (
            "its GPUs are AMD's, and drivers, toolkits and checks here are for NVIDIA's; choose gpu-h100x1-80gb or another size of NVIDIA's"
        )
        raise ValueError(msg)
    return value


SizeSlug = Annotated[
    str,
    StringConstraints(pattern=r"^gpu-[a-z0-9]{2,20}-[0-9]{1,5}gb$"),
    Field(description="a size with GPUs, such as gpu-h100x1-80gb"),
    AfterValidator(_of_nvidia),
]
DigitalOceanRegion = Annotated[
    str, StringConstraints(pattern=r"^[a-z]{3}[0-9]{1,2}$"), Field(description="a region, which is one data centre, such as nyc2")
]


class DigitalOceanPlace(PlaceBase):
    """One place to try on DigitalOcean: a size with its GPUs, and regions in the order of preference; a region has no zones.

    `image` names an image with a driver, such as DigitalOcean's AI/ML images, or one of your own.
    """

    locations_key: ClassVar[str] = "regions"
    zonal: ClassVar[bool] = False

    cloud: Literal["digitalocean"]
    instance_type: SizeSlug
    regions: Annotated[tuple[DigitalOceanRegion, ...], Field(min_length=1, max_length=20, strict=False)]
    """The regions, in the order in which they are tried."""
    market: Literal["on-demand"] = "on-demand"
    image: DigitalOceanOwnImage | None = None
    """An image with a driver, or one of your own, instead of the system's."""

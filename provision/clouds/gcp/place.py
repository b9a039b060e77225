"""What a profile says about a place on GCP."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from provision.catalog.gpu_models import GpuModel
from provision.clouds.gcp.own_image import GcpOwnImage
from provision.clouds.offline import PlaceBase

GcpMachineType = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]{1,3}-[a-z0-9-]{1,30}$"), Field(description="a machine type such as n1-standard-8")
]
GcpZone = Annotated[
    str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)*[0-9]{1,2}-[a-z]$"), Field(description="a zone such as us-central1-a")
]


class GcpPlace(PlaceBase):
    """One place to try on GCP: a machine type with its GPUs, and zones in the order of preference."""

    locations_key: ClassVar[str] = "zones"
    zonal: ClassVar[bool] = True

    cloud: Literal["gcp"]
    instance_type: GcpMachineType
    gpu: GpuModel
    gpu_count: Annotated[int, Field(ge=1, le=16)] = 1
    zones: Annotated[tuple[GcpZone, ...], Field(min_length=1, max_length=40, strict=False)]
    image: GcpOwnImage | None = None

    def gpus(self, model: str, count: int) -> tuple[str, int]:  # noqa: ARG002 - a place on GCP names its own
        """What the place itself names."""
        return self.gpu, self.gpu_count

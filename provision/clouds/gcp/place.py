"""What a profile says about a place on GCP."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from provision.catalog.gpu_models import GpuModel
from provision.clouds.gcp import disk_key
from provision.clouds.gcp.disk_key import GcpDiskKey
from provision.clouds.gcp.identity import ServiceAccount
from provision.clouds.offline import PlaceBase

GcpMachineType = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]{1,3}-[a-z0-9-]{1,30}$"), Field(description="a machine type such as n1-standard-8")
]
GcpZone = Annotated[
    str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)*[0-9]{1,2}-[a-z]$"), Field(description="a zone such as us-central1-a")
]


class GcpPlace(PlaceBase):
    """One place to try on GCP: a machine type with its GPUs, and zones in the order of preference.

    `disk_key` encrypts the boot disk and the data volume with a key of the organisation's own (Cloud KMS).
    `identity` names a service account, which the machine then acts as; every process on it gets that account's tokens.
    """

    locations_key: ClassVar[str] = "zones"
    zonal: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("disk_key", "identity")

    cloud: Literal["gcp"]
    instance_type: GcpMachineType
    gpu: GpuModel
    gpu_count: Annotated[int, Field(ge=1, le=16)] = 1
    zones: Annotated[tuple[GcpZone, ...], Field(min_length=1, max_length=40, strict=False)]

    disk_key: GcpDiskKey | None = None
    identity: Literal["none"] | ServiceAccount = "none"

    @field_validator("disk_key")
    @classmethod
    def _is_near_the_zones(cls, value: str | None, info: ValidationInfo) -> str | None:
        problem = disk_key.problem(value, info.data.get("zones", ())) if value is not None else ""
        if problem:
            raise ValueError(problem)
        return value

    def gpus(self, model: str, count: int) -> tuple[str, int]:  # noqa: ARG002 - a place on GCP names its own
        """What the place itself names."""
        return self.gpu, self.gpu_count

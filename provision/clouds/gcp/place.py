"""What a profile says about a place on GCP."""

from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from provision.catalog.gpu_models import GpuModel
from provision.clouds.baked import BakedUse
from provision.clouds.base import Order
from provision.clouds.gcp import disk_key
from provision.clouds.gcp.capacity import FLEX_START_MOST_H, GcpCapacity, problem
from provision.clouds.gcp.data import FLEX_START
from provision.clouds.gcp.disk_key import GcpDiskKey
from provision.clouds.gcp.identity import ServiceAccount
from provision.clouds.gcp.own_image import GcpOwnImage
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
    `os_login` lets IAM decide who logs in, as organisations demand with compute.requireOsLogin.
    """

    locations_key: ClassVar[str] = "zones"
    zonal: ClassVar[bool] = True

    cloud: Literal["gcp"]
    instance_type: GcpMachineType
    gpu: GpuModel
    """The card that is attached to the machine, or that its type has."""
    gpu_count: Annotated[int, Field(ge=1, le=16)] = 1
    """How many of them."""
    zones: Annotated[tuple[GcpZone, ...], Field(min_length=1, max_length=40, strict=False)]
    """The zones, in the order in which they are tried."""
    market: Literal["on-demand", "spot", "flex-start"] = "on-demand"
    capacity: GcpCapacity | None = None
    """A reservation or a placement policy that machines are taken from."""
    disk_key: GcpDiskKey | None = None
    """A key of the organisation's own that encrypts the disks, where it wants to be able to withdraw it."""
    image: GcpOwnImage | None = None
    """An image of your own instead of the newest of the system's publisher."""
    baked_image: BakedUse = "never"
    """Whether machines start from an image that `gpuprov bake make` made of this profile, which saves most of the set-up.
    `if-current` takes the base image where none is current, and says why; `required` refuses then."""
    identity: Literal["none"] | ServiceAccount = "none"
    """What the machine may do in the project. Give it a service account to read buckets; every process on it has the same rights."""
    os_login: bool = False
    """Whether IAM decides who logs in. Set it where the organisation demands OS Login."""

    @property
    def longest_h(self) -> int | None:
        """Seven days for flex-start."""
        return FLEX_START_MOST_H if self.market == FLEX_START else None

    @model_validator(mode="after")
    def _capacity_is_there(self) -> Self:
        msg = problem(self.capacity, self.zones, self.market)
        if msg:
            raise ValueError(msg)
        return self

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


def place_of(order: Order) -> GcpPlace | None:
    """The place of an order for GCP, which is one of GCP's; None where no profile is behind the order."""
    return cast("GcpPlace | None", order.place)


def capacity_of(order: Order) -> GcpCapacity | None:
    """Where an order's place takes its machines from; None where it says nothing about that."""
    place = place_of(order)
    return place.capacity if place else None

"""What a profile says about a place on AWS."""

from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from provision.clouds.aws import data, disk_key
from provision.clouds.aws.capacity import AwsCapacity, problem
from provision.clouds.aws.disk_key import AwsDiskKey
from provision.clouds.aws.identity import InstanceProfile
from provision.clouds.aws.own_image import AwsOwnImage
from provision.clouds.baked import BakedUse
from provision.clouds.base import Order
from provision.clouds.offline import PlaceBase

AwsInstanceType = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{1,15}\.[a-z0-9-]{1,16}$"), Field(description="an instance type such as g4dn.xlarge")
]
AwsRegion = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+){1,3}-[0-9]$"), Field(description="a region such as us-east-1")]


class AwsPlace(PlaceBase):
    """One place to try on AWS: a type, and regions in the order of preference.

    `disk_key` encrypts the root disk and the data volume with a key of the account's own (KMS).
    `identity` names an instance profile, whose role the machine then acts as; every process on it gets that role's credentials.
    """

    locations_key: ClassVar[str] = "regions"
    zonal: ClassVar[bool] = False

    cloud: Literal["aws"]
    instance_type: AwsInstanceType
    regions: Annotated[tuple[AwsRegion, ...], Field(min_length=1, max_length=20, strict=False)]
    """The regions, in the order in which they are tried."""
    market: Literal["on-demand", "spot"] = "on-demand"
    capacity: AwsCapacity | None = None
    """A reservation, a placement group or hardware of your own that machines are taken from."""
    disk_key: AwsDiskKey | None = None
    """A key of the account's own that encrypts the disks, where the organisation wants to be able to withdraw it."""
    image: AwsOwnImage | None = None
    """An image of your own instead of the newest of the system's publisher."""
    baked_image: BakedUse = "never"
    """Whether machines start from an image that `gpuprov bake make` made of this profile, which saves most of the set-up.
    `if-current` takes the base image where none is current, and says why; `required` refuses then."""
    identity: Literal["none"] | InstanceProfile = "none"
    """What the machine may do in the account. Give it one to read buckets; every process on it has the same rights."""

    @property
    def adapters(self) -> int:
        """How many Elastic Fabric Adapters a machine gets."""
        return self.fabric[0]

    @property
    def fabric(self) -> tuple[int, int]:
        """How many Elastic Fabric Adapters a machine gets, and the network card of the first."""
        record = data.types().get(self.instance_type) if self.capacity and self.capacity.efa else None
        return (record.efa, record.efa_first) if record else (0, 0)

    @property
    def private_only(self) -> str:
        """EC2 gives no public address to a machine with several network cards."""
        return f"{self.instance_type} with EFA has {self.adapters} network cards" if self.adapters > 1 else ""

    @model_validator(mode="after")
    def _capacity_is_there(self) -> Self:
        msg = problem(self.capacity, self.regions, self.market)
        if msg:
            raise ValueError(msg)
        return self

    @field_validator("disk_key")
    @classmethod
    def _is_of_the_regions(cls, value: str | None, info: ValidationInfo) -> str | None:
        problem = disk_key.problem(value, info.data.get("regions", ())) if value is not None else ""
        if problem:
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _the_snapshot_s_key_is_of_the_regions(self) -> Self:
        key = self.image.snapshot_key if self.image is not None else None
        problem = disk_key.problem(key, self.regions, "image.snapshot_key") if key is not None else ""
        if problem:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _one_region_for_an_id(self) -> Self:
        if self.image is not None and self.image.id is not None and len(set(self.regions)) > 1:
            msg = "the id of an image belongs to one region, and the place names several; write a place for each, or name it otherwise"
            raise ValueError(msg)
        return self


def place_of(order: Order) -> AwsPlace | None:
    """The place of an order for AWS, which is one of AWS's; None where no profile is behind the order."""
    return cast("AwsPlace | None", order.place)


def capacity_of(order: Order) -> AwsCapacity | None:
    """Where an order's place takes its machines from; None where it says nothing about that."""
    place = place_of(order)
    return place.capacity if place else None

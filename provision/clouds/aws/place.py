"""What a profile says about a place on AWS."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from provision.clouds.aws.own_image import AwsOwnImage
from provision.clouds.offline import PlaceBase

AwsInstanceType = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{1,15}\.[a-z0-9-]{1,16}$"), Field(description="an instance type such as g4dn.xlarge")
]
AwsRegion = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+){1,3}-[0-9]$"), Field(description="a region such as us-east-1")]


class AwsPlace(PlaceBase):
    """One place to try on AWS: a type, and regions in the order of preference."""

    locations_key: ClassVar[str] = "regions"
    zonal: ClassVar[bool] = False

    cloud: Literal["aws"]
    instance_type: AwsInstanceType
    regions: Annotated[tuple[AwsRegion, ...], Field(min_length=1, max_length=20, strict=False)]
    image: AwsOwnImage | None = None

    @model_validator(mode="after")
    def _one_region_for_an_id(self) -> Self:
        if self.image is not None and self.image.id is not None and len(set(self.regions)) > 1:
            msg = "the id of an image belongs to one region, and the place names several; write a place for each, or name it otherwise"
            raise ValueError(msg)
        return self

"""What a profile says about a place on AWS."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

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

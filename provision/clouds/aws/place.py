"""What a profile says about a place on AWS."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from provision.clouds.aws import disk_key
from provision.clouds.aws.disk_key import AwsDiskKey
from provision.clouds.aws.identity import InstanceProfile
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
    later: ClassVar[tuple[str, ...]] = ("disk_key", "identity")

    cloud: Literal["aws"]
    instance_type: AwsInstanceType
    regions: Annotated[tuple[AwsRegion, ...], Field(min_length=1, max_length=20, strict=False)]
    disk_key: AwsDiskKey | None = None
    identity: Literal["none"] | InstanceProfile = "none"

    @field_validator("disk_key")
    @classmethod
    def _is_of_the_regions(cls, value: str | None, info: ValidationInfo) -> str | None:
        problem = disk_key.problem(value, info.data.get("regions", ())) if value is not None else ""
        if problem:
            raise ValueError(problem)
        return value
